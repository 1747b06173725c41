"""Operations as the journal keeps them: what a record says, byte for byte.

    0    kind: 1 insert, 2 delete, 3 update
    1    1 where more records of the same operation follow, else 0
    2    1 where ids are consecutive, else 0
    3    1 where it goes on with the operation of the record before it, else 0
    4-7  zeros
    8    number of ids (u64), then the ids (i64); only the first where they are consecutive
    ...  insert and update: the rows, as an Arrow IPC stream of the columns that the schema names (io/row_bytes.py)

Rows are kept as values, not as codes: coding them again finds the same codes, and grows domains, categories and
dictionaries in the same way. An operation whose last record is missing was never acknowledged and never happened: a
crash left only a part of it. What comes behind such a part is from a later life of the writer, and begins anew.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.io.row_bytes import RowBatch, rows_from_bytes, rows_to_bytes

_HEADER = struct.Struct("<BBBB4xQ")
_MOST_IN_A_ROW = 1 << 20  # far more than a record has; a number in a file must not ask for terabytes
_DELETED_IDS = 1 << 20  # in a record: it has to fit the journal

Ids = NDArray[np.int64]


class Kind(IntEnum):
    INSERT = 1
    DELETE = 2
    UPDATE = 3


@dataclass(frozen=True, eq=False)
class Operation:
    """One call of a user. `batches` have the rows of an insert or update, `ids` name its rows in order."""

    kind: Kind
    ids: Ids
    batches: Sequence[RowBatch] = ()

    def records(self) -> list[bytes]:
        """The records: one for each batch, or for some ids that are deleted, so that each fits the journal."""
        parts: list[tuple[Ids, RowBatch | None]] = []
        if self.batches:
            ends = np.cumsum([batch.num_rows for batch in self.batches]).tolist()
            parts += [
                (self.ids[end - batch.num_rows : end], batch) for batch, end in zip(self.batches, ends, strict=True)
            ]
        else:
            begins = range(0, max(len(self.ids), 1), _DELETED_IDS)
            parts += [(self.ids[begin : begin + _DELETED_IDS], None) for begin in begins]
        return [
            _record(self.kind, number + 1 < len(parts), number > 0, ids, batch)
            for number, (ids, batch) in enumerate(parts)
        ]


def operations(records: Iterable[bytes]) -> Iterator[Operation]:
    """The complete operations of a journal."""
    ids: list[Ids] = []
    batches: list[RowBatch] = []
    kind: Kind | None = None  # of an operation that is not complete yet
    for record in records:
        own_kind, more, goes_on, own, batch = _parsed(record)
        if not goes_on:
            ids, batches = [], []
        elif kind != own_kind:
            raise CorruptionError("A record of the journal goes on with an operation that is not there; it is damaged.")
        ids.append(own)
        batches += batch
        kind = own_kind if more else None
        if not more:
            yield Operation(own_kind, np.concatenate(ids), batches)
            ids, batches = [], []


def _record(kind: Kind, more: bool, goes_on: bool, ids: Ids, batch: RowBatch | None) -> bytes:
    # Ids that the index gives out are consecutive.
    in_a_row = batch is not None and 0 < len(ids) <= _MOST_IN_A_ROW and bool((np.diff(ids) == 1).all())
    before = _HEADER.pack(kind, more, in_a_row, goes_on, len(ids))
    before += ids[: 1 if in_a_row else None].astype("<i8").tobytes()
    return before if batch is None else rows_to_bytes(batch, before)


def _parsed(record: bytes) -> tuple[Kind, bool, bool, Ids, list[RowBatch]]:
    """Its kind, whether more follows, whether it goes on with the one before, ids and rows."""
    try:
        kind, more, in_a_row, goes_on, n = _HEADER.unpack_from(record)
        if in_a_row and n > _MOST_IN_A_ROW:
            raise ValueError("it has too many ids")
        n_stored = min(n, 1) if in_a_row else n
        if n_stored * 8 > len(record) - _HEADER.size:
            raise ValueError("it is too short")
        ids = np.frombuffer(record, "<i8", n_stored, _HEADER.size).astype(np.int64)
        batches: list[RowBatch] = []
        if Kind(kind) == Kind.DELETE:
            if in_a_row or len(record) != _HEADER.size + 8 * n:
                raise ValueError("it has another number of ids")
        else:
            batches = rows_from_bytes(memoryview(record)[_HEADER.size + 8 * n_stored :])
            if sum(batch.num_rows for batch in batches) != n:
                raise ValueError("it has another number of rows")
        if in_a_row:
            ids = ids + np.arange(n)
        return Kind(kind), bool(more), bool(goes_on), ids, batches
    except (struct.error, ValueError) as error:
        raise CorruptionError(f"A record of the journal is damaged: {error}. Restore the index from a copy.") from error
