"""Whether the groups of a large file satisfy what is asked of their sensitive values, in bounded memory.

Rows that follow each other with equal values in all quasi-identifiers form a run, and every run lies in one group (see
runs.py). All quantities that can be asked for are mergeable: where two sets of rows satisfy a bound, so does their
union. So if every run satisfies it, every group does; only where one does not is the table measured as a whole.

A first pass counts the values of the whole file, with which groups are compared; a second one measures runs piece by
piece. The runs at the ends of a piece are kept until it is known whether the next piece goes on with them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.checking.checker import check, check_groups, columns_of
from rtree_anon.checking.runs import runs_in
from rtree_anon.checking.sources import Piece, map_pieces

_COMPARED = ("t", "t_ordered", "beta", "beta_enhanced", "delta")
_VALUE, _ROWS = "value", "rows"
_BLOCK_ROWS = 1 << 14

Whole = Mapping[str, tuple[pa.ChunkedArray, NDArray[np.int64]]]


def unmet_values(path: str | PathLike[str], quasi: Sequence[str], demands: Iterable[Any]) -> list[str]:
    """One sentence for each demand about a sensitive column that some group of a file does not meet."""
    demands = [demand for demand in demands if demand.column is not None]
    names = list(dict.fromkeys(str(demand.column) for demand in demands))
    if not names:
        return []
    whole = {
        name: _counted(path, name)
        for name in names
        if any(demand.column == name and demand.quantity in _COMPARED for demand in demands)
    }
    if _runs_satisfy(path, quasi, _Asked(names, demands, whole)):
        return []
    return check(path, quasi, names).unmet(demands)


def _counted(path: str | PathLike[str], name: str) -> tuple[pa.ChunkedArray, NDArray[np.int64]]:
    """The different values of a column, and the rows of each."""
    total: pa.Table | None = None
    for part in map_pieces(path, lambda names: [name], lambda piece: _by_value(piece.column(name), None)):
        if total is not None:
            part = pa.concat_tables([total, part])
            part = _by_value(part.column(_VALUE), part.column(_ROWS))
        total = part
    assert total is not None
    return total.column(_VALUE), total.column(_ROWS).to_numpy()


def _by_value(values: pa.ChunkedArray, rows: pa.ChunkedArray | None) -> pa.Table:
    if rows is None:
        rows = pa.chunked_array([np.ones(len(values), np.int64)])
    table = pa.table({_VALUE: values, _ROWS: rows})
    if pa.types.is_null(values.type):
        return pa.table({_VALUE: pa.nulls(1), _ROWS: [int(np.sum(rows.to_numpy()))]})
    return table.group_by(_VALUE, use_threads=False).aggregate([(_ROWS, "sum")]).rename_columns([_VALUE, _ROWS])


@dataclass(frozen=True, eq=False)
class _Asked:
    """What is asked of runs."""

    names: Sequence[str]
    demands: Sequence[Any]
    whole: Whole

    def of(self, rows: pa.Table, starts: NDArray[np.int64]) -> bool:
        """Whether all runs of some rows satisfy it."""
        run_of_row = np.repeat(np.arange(len(starts)), np.diff(starts, append=rows.num_rows))
        columns = {name: rows.column(name) for name in self.names}
        return not check_groups(run_of_row, len(starts), columns, None, self.whole).unmet(self.demands)


@dataclass(frozen=True, eq=False)
class _Piece:
    """What is kept of a piece of a file: whether the runs inside it satisfy what is asked, and those at its ends."""

    inside: bool
    first_row: pa.Table  # the values of the quasi-identifiers
    last_row: pa.Table
    head: pa.Table  # rows of the first run
    tail: pa.Table | None  # of the last one, where that is another


def _runs_satisfy(path: str | PathLike[str], quasi: Sequence[str], asked: _Asked) -> bool:
    grouped_by: list[str] = []

    def choose(present: Sequence[str]) -> list[str]:
        grouped_by.extend(column for name in quasi for column in columns_of(name, present))
        return [*grouped_by, *asked.names]

    pieces = map_pieces(path, choose, lambda piece: _measured(piece, grouped_by, asked))
    waiting: tuple[pa.Table, pa.Table] | None = None  # the values of a run, and its rows so far
    for piece in pieces:
        if piece is None:
            continue
        head = piece.head
        if waiting is not None:
            if waiting[0].equals(piece.first_row):
                head = pa.concat_tables([waiting[1], head])
            elif not asked.of(waiting[1], np.zeros(1, np.int64)):
                return False
        waiting = (piece.last_row, head)
        if piece.tail is not None:
            if not asked.of(head, np.zeros(1, np.int64)):
                return False
            waiting = (piece.last_row, piece.tail)
        if not piece.inside:
            return False
    return waiting is None or asked.of(waiting[1], np.zeros(1, np.int64))


def _blocks(edges: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The runs between the first and the last one, first .. end-1 of them at a time: many rows, but not all."""
    first, last = 1, len(edges) - 2
    while first < last:
        end = max(bisect_right(edges, edges[first] + _BLOCK_ROWS, first + 1, last + 1) - 1, first + 1)
        yield first, end
        first = end


def _measured(piece: Piece, grouped_by: Sequence[str], asked: _Asked) -> _Piece | None:
    if not piece.num_rows:
        return None
    starts, first_row, last_row = runs_in(piece, grouped_by)
    rows = piece.table(asked.names)
    edges = [*starts.tolist(), piece.num_rows]
    inside = all(
        asked.of(rows.slice(edges[first], edges[end] - edges[first]), starts[first:end] - edges[first])
        for first, end in _blocks(edges)
    )

    def copied(begin: int, end: int) -> pa.Table:  # a slice would keep the whole piece alive
        return rows.take(pa.array(np.arange(begin, end)))

    return _Piece(
        inside,
        first_row,
        last_row,
        copied(0, edges[1]),
        copied(edges[-2], edges[-1]) if len(starts) > 1 else None,
    )
