"""Keys that are no whole numbers (text, binary, decimals, dates …): the bytes themselves, beside the row's other codes.

    codes   the length, then groups of seven bytes (kernels/keycodes.py), as many as there is room for
    id      a keyed hash of these: what the directory knows the row by

No dictionary: a hundred million keys need no memory, and a deleted row takes its key along. Pages store a column of
codes in as many bits as its values in that bundle need, so a common prefix and unused room cost nothing there.

Invariant: equal keys have equal codes and one id. Different keys can have one id, with a chance of about n² / 2**63 for
n rows; whoever relies on an id compares the codes, and a load that meets two such keys is made again with another salt.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError, InputError, UsageError
from rtree_anon.io.cells import CellError, shown_at
from rtree_anon.io.conforming import conform
from rtree_anon.io.dictionaries import as_bytes, byte_width
from rtree_anon.io.types import decoded, is_text, plain_array, type_text
from rtree_anon.io.values import null_mask

KEY_MISSING = "the key is missing; every row needs one"
_GROUP_BYTES = 7  # as in kernels/keycodes.py, which is not imported before it is needed
_LEAST_ROOM = 28
_MOST_ROOM = 7 * 1024
_CODING = re.compile(r"key:([1-9]\d{0,4}):([0-9a-f]{16})")
_FIRST_SALT = 0x5851F42D4C957F2D

Codes = NDArray[Any]
Range = tuple[int, int]


@dataclass(frozen=True, eq=False)
class KeyColumn:
    """A key of up to `room` bytes. `longest` is what a load is about to bring, where that is known."""

    name: str
    data_type: pa.DataType
    room: int
    salt: int = _FIRST_SALT
    longest: int | None = None

    @classmethod
    def for_length(cls, name: str, data_type: pa.DataType, longest: int) -> KeyColumn:
        """For values of up to so many bytes, with room for longer ones that may come later."""
        needed = _needed(data_type, longest)
        return cls(name, data_type, _room_of(needed), longest=needed)

    @property
    def coding(self) -> str:
        """What an index says of it, beside name and type."""
        return f"key:{self.room}:{self.salt:016x}"

    @classmethod
    def from_coding(cls, name: str, data_type: pa.DataType, coding: str) -> KeyColumn:
        """The inverse; ValueError for anything else."""
        found = _CODING.fullmatch(coding)
        if found is None or not _LEAST_ROOM <= (room := int(found[1])) <= _MOST_ROOM or room % _GROUP_BYTES:
            raise ValueError("the key is not described")
        return cls(name, data_type, room, int(found[2], 16))

    def with_room_for(self, longest: int) -> KeyColumn:
        """The same column for a load whose keys have up to so many bytes."""
        needed = _needed(self.data_type, longest)
        return replace(self, room=self.room if needed <= self.room else _room_of(needed), longest=needed)

    def with_salt(self, salt: int) -> KeyColumn:
        """Other ids for the same keys."""
        return replace(self, salt=salt)

    @property
    def ranges(self) -> tuple[Range, ...]:
        return ((0, self.room), *((0, 2 ** (8 * _GROUP_BYTES) - 1),) * (self.room // _GROUP_BYTES))

    def ranges_of(self, n_rows: int, ends: tuple[int | None, int | None] | None) -> tuple[Range, ...]:
        if self.longest is None:
            return self.ranges
        n_used = 1 + -(-self.longest // _GROUP_BYTES)
        return (*self.ranges[:n_used], *((0, 0),) * (len(self.ranges) - n_used))

    def encode(self, column: pa.Array, dtype: Any) -> list[Codes]:
        """Its columns of codes; a key that is missing or too long is a CellError."""
        from rtree_anon.kernels.keycodes import pack_keys

        mask = null_mask(column)
        if mask is not None:
            raise CellError(int(np.argmax(mask)), KEY_MISSING)
        offsets, data = as_bytes(decoded(column))
        lengths = np.diff(offsets)
        if len(lengths) and int(lengths.max()) > self.room:
            row = int(np.argmax(lengths > self.room))
            raise CellError(row, f"the key has {int(lengths[row])} bytes, more than there is room for ({self.room})")
        codes = np.empty((len(self.ranges), len(column)), np.int64)
        pack_keys(offsets, data, codes)
        return list(codes.astype(dtype, copy=False))

    def decode(self, codes: Codes) -> pa.Array:
        """The values of codes (n, columns); codes that no value can have are a CorruptionError."""
        from rtree_anon.kernels.keycodes import unpack_keys

        by_column = np.ascontiguousarray(codes.T.astype(np.int64))
        width = byte_width(self.data_type)
        for column, (lo, hi) in zip(by_column, self.ranges, strict=True):
            if len(column) and not lo <= int(column.min()) <= int(column.max()) <= hi:
                raise self._damaged()
        if width and bool((by_column[0] != width).any()):
            raise self._damaged()
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(by_column[0])))
        data = np.zeros(int(offsets[-1]), np.uint8)
        unpack_keys(by_column, offsets, data)
        return self._from_bytes(offsets, data)

    def ids(self, codes: Codes) -> NDArray[np.int64]:
        """The ids of codes [column, row]."""
        from rtree_anon.kernels.keycodes import hash_keys

        ids = np.empty(codes.shape[1], np.int64)
        hash_keys(np.ascontiguousarray(codes, np.int64), np.uint64(self.salt), ids)
        return ids

    def named(self, names: Any) -> NDArray[np.int64]:
        """Keys that a user names (a list, an array, a column, a single one) as codes [column, row]."""
        if isinstance(names, str | bytes) or not hasattr(names, "__iter__"):
            names = [names]
        try:
            given = names if isinstance(names, pa.Array | pa.ChunkedArray) else pa.array(names, from_pandas=True)
            column = conform(plain_array(given), self.data_type)
        except (pa.ArrowException, CellError, TypeError, ValueError):
            kind = type_text(self.data_type) if not pa.types.is_binary(self.data_type) else "binary"
            raise UsageError(f"Rows are named by their keys, column {self.name!r}, of type {kind}.") from None
        if column.null_count:
            raise UsageError("A key that is to name a row is missing.")
        too_long = np.flatnonzero(np.diff(as_bytes(column)[0]) > self.room)
        if len(too_long):
            raise InputError(f"there is no row {shown_at(column, int(too_long[0]))}; nothing was changed")
        return np.stack(self.encode(column, np.int64))

    def _from_bytes(self, offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
        n = len(offsets) - 1
        if pa.types.is_boolean(self.data_type):
            return pa.Array.from_buffers(pa.uint8(), n, [None, pa.py_buffer(data)]).cast(pa.bool_())
        if byte_width(self.data_type):
            return pa.Array.from_buffers(self.data_type, n, [None, pa.py_buffer(data)])
        large = pa.large_string() if is_text(self.data_type) else pa.large_binary()
        values = pa.Array.from_buffers(large, n, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            raise self._damaged() from None
        return values.cast(self.data_type)

    def _damaged(self) -> CorruptionError:
        return CorruptionError(f"The index holds a key, column {self.name!r}, that cannot be; it is damaged.")


def longest_value(column: pa.Array) -> int:
    """Bytes of the longest value of a column of text or binary values; 0 where values have a fixed width."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else decoded(column)
    if pa.types.is_null(values.type) or byte_width(values.type):
        return 0
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        values = values.cast(pa.large_binary())
    return int(pc.max(pc.binary_length(values)).as_py() or 0)


def _needed(data_type: pa.DataType, longest: int) -> int:
    needed = byte_width(data_type) or longest
    if needed > _MOST_ROOM:
        raise CellError(0, f"a key has {needed:,} bytes; the longest that names a row may have {_MOST_ROOM:,}")
    return needed


def _room_of(longest: int) -> int:
    """Twice as much as is needed now: unused room costs no space on pages, more room later a load of all rows."""
    return min(-(-max(2 * longest, _LEAST_ROOM) // _GROUP_BYTES) * _GROUP_BYTES, _MOST_ROOM)
