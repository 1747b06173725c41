"""Whether a large file has k, in one pass and bounded memory.

Rows that follow each other with equal values in all quasi-identifiers form a run. Every run lies in one group, so if
every run has k rows, every group has. A release lists its groups one after the other, so that this suffices for it;
only where a run is shorter is the table grouped as a whole (`check`), which needs memory for all of its rows.

A piece of the file (a row group of Parquet) is looked at by itself, in threads; of each only its first and its last
row and the lengths of its runs are kept, which is enough to put them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.checking.checker import check, columns_of, weights_of
from rtree_anon.checking.columns import code_column, plain_column
from rtree_anon.checking.sources import Piece, map_pieces
from rtree_anon.errors import InputError


@dataclass(frozen=True)
class Found:
    """`k` rows in the smallest group, or at least that many where runs were enough to see that it suffices."""

    k: int
    n_rows: int


def check_k(path: str | PathLike[str], quasi: Sequence[str], k: int, *, counts: str | None = None) -> Found:
    """Whether every group of a file has at least k rows; `quasi` and `counts` are as for `check`."""
    grouped_by: list[str] = []

    def choose(names: Sequence[str]) -> list[str]:
        grouped_by.extend(column for name in quasi for column in columns_of(name, names))
        return [*grouped_by, *([] if counts is None else [counts])]

    found = [runs for runs in map_pieces(path, choose, lambda piece: _runs_of(piece, grouped_by, counts)) if runs]
    if not found:
        raise InputError("The table has no rows, so there is nothing to check.")
    runs = reduce(_Runs.followed_by, found)
    if runs.shortest >= k:
        return Found(runs.shortest, runs.n_rows)
    report = check(path, quasi, counts=counts)
    return Found(report.k, report.n_rows)


@dataclass(frozen=True, eq=False)
class _Runs:
    """The runs of consecutive rows: the first and the last one, which others may continue, and the shortest between."""

    n_rows: int
    n_runs: int
    head: int
    tail: int
    shortest_inside: float
    first_row: pa.Table
    last_row: pa.Table

    @property
    def shortest(self) -> int:
        return int(min(self.head, self.tail, self.shortest_inside))

    def followed_by(self, other: _Runs) -> _Runs:
        """The runs of both, one after the other."""
        inside = min(self.shortest_inside, other.shortest_inside)
        head, tail, n_runs = self.head, other.tail, self.n_runs + other.n_runs
        if self.last_row.equals(other.first_row):
            joined = self.tail + other.head
            n_runs -= 1
            head = joined if self.n_runs == 1 else head
            tail = joined if other.n_runs == 1 else tail
            inside = min(inside, joined if self.n_runs > 1 and other.n_runs > 1 else inside)
        else:
            inside = min(inside, self.tail if self.n_runs > 1 else inside, other.head if other.n_runs > 1 else inside)
        return _Runs(self.n_rows + other.n_rows, n_runs, head, tail, inside, self.first_row, other.last_row)


def _runs_of(piece: Piece, grouped_by: Sequence[str], counts: str | None) -> _Runs | None:
    n_rows = piece.num_rows
    if n_rows == 0:
        return None
    starts, first_row, last_row = runs_in(piece, grouped_by)
    if counts is None:
        lengths = np.diff(starts, append=n_rows)
    else:
        weights = weights_of(piece.column(counts), counts)
        n_rows = int(weights.sum())
        lengths = np.add.reduceat(weights, starts)
    return _Runs(
        n_rows,
        len(lengths),
        int(lengths[0]),
        int(lengths[-1]),
        float(lengths[1:-1].min(initial=np.iinfo(np.int64).max)),
        first_row,
        last_row,
    )


def runs_in(piece: Piece, grouped_by: Sequence[str]) -> tuple[NDArray[np.int64], pa.Table, pa.Table]:
    """Where the runs of a piece begin, which has at least one row; the values of its first and of its last row."""
    begins = np.zeros(piece.num_rows, np.bool_)
    begins[0] = True
    first_and_last = pa.array([0, piece.num_rows - 1])
    rows = {}
    for name in dict.fromkeys(grouped_by):
        column = piece.column(name)
        for values in _comparable(column, name):
            begins[1:] |= values[1:] != values[:-1]
        rows[name] = column.take(first_and_last)  # a slice would keep the whole column alive
    table = pa.table(rows)
    return np.flatnonzero(begins), table.slice(0, 1), table.slice(1, 1)


def _comparable(column: pa.ChunkedArray, name: str) -> Iterator[NDArray[Any]]:
    """Arrays that differ between two rows where the values do; NaN differs from itself, which shortens runs at most."""
    plain = plain_column(column, name)
    if not (pa.types.is_integer(plain.type) or pa.types.is_floating(plain.type)):
        yield code_column(plain, name).codes
        return
    values = plain.chunk(0) if plain.num_chunks == 1 else plain.combine_chunks()
    if values.null_count:
        yield values.is_null().to_numpy(zero_copy_only=False)
        values = values.fill_null(0)
    yield values.to_numpy()
