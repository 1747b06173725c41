"""Samples of a source's rows, from which a bulk load chooses its first cuts.

`Reservoir` rides along on a pass that is made anyway: every row draws a random number and the rows with the smallest
ones are kept, so the sample is uniform, does not depend on the size of batches, and its first m rows are a uniform
sample, too. `parquet_rows` reads parts of row groups instead of making a pass: a few of them where every group covers
the whole range of every column, all of them (or all of their rows) where the file is sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.io.cells import Origin
from rtree_anon.io.files import BATCH_ROWS, guarded
from rtree_anon.io.parquet_statistics import ParquetStatistics, RowGroup
from rtree_anon.io.sources import Piece
from rtree_anon.io.types import decoded, plain_array, without_views

_FEW_GROUPS = 8  # fewer than that may hide an order of their rows that matters
_ENOUGH_GROUPS = 32  # of a file whose row groups are all alike
_MANY_GROUPS = 64  # of a sorted file: the order inside each of so many does not matter


class Reservoir:
    """A uniform sample of at most `n_rows` rows of all batches that it has seen."""

    def __init__(self, n_rows: int, columns: Sequence[str], seed: int) -> None:
        self._n_rows, self._columns = n_rows, list(columns)
        self._random = np.random.default_rng(seed)
        self._below = 1.0
        self._batches: list[pa.Table] = []
        self._draws: list[NDArray[np.float64]] = []

    def observe(self, batch: pa.RecordBatch) -> None:
        draws = self._random.random(batch.num_rows)
        chosen = np.flatnonzero(draws < self._below)
        if not len(chosen):
            return
        places = pa.array(chosen)
        columns = [decoded(without_views(plain_array(batch.column(name))).take(places)) for name in self._columns]
        self._batches.append(pa.table(columns, names=self._columns))
        self._draws.append(draws[chosen])
        if sum(map(len, self._draws)) > 2 * self._n_rows:
            self._prune(self._n_rows)

    def rows(self, n_rows: int) -> pa.RecordBatch | None:
        """At most so many rows, in random order; None where none was seen."""
        if not self._batches:
            return None
        draws, table = self._prune(self._n_rows)
        order = np.argsort(draws, kind="stable")[:n_rows]
        (batch,) = table.take(pa.array(order)).combine_chunks().to_batches() or [None]
        return batch

    def _prune(self, n_rows: int) -> tuple[NDArray[np.float64], pa.Table]:
        draws = np.concatenate(self._draws)
        table = pa.concat_tables(self._batches)
        if len(draws) > n_rows:
            self._below = float(np.partition(draws, n_rows)[n_rows])
            kept = np.flatnonzero(draws < self._below)
            draws, table = draws[kept], table.take(pa.array(kept)).combine_chunks()
        self._draws, self._batches = [draws], [table]
        return draws, table


def parquet_rows(statistics: ParquetStatistics, columns: Sequence[str], n_rows: int, seed: int) -> Iterator[Piece]:
    """About `n_rows` rows of Parquet files, in pieces."""
    groups = statistics.groups
    is_clustered = statistics.is_clustered(columns)
    if len(groups) < (_MANY_GROUPS if is_clustered else _FEW_GROUPS):
        yield from _spread_rows(groups, columns, n_rows, statistics.n_rows, np.random.default_rng(seed))
        return
    n_groups = min(len(groups), n_rows) if is_clustered else min(len(groups), _ENOUGH_GROUPS)
    places = (np.arange(n_groups) + np.random.default_rng(seed).random()) * len(groups) / n_groups
    chosen = [groups[int(place)] for place in places]
    each = -(-n_rows // n_groups)
    for group in chosen:
        with guarded(group.file), group.file.opened() as file:
            batch = next(group.file.checked(file, columns, min(each, group.n_rows), [group.number]), None)
            if batch is not None:
                yield Piece(batch, Origin(group.file.name, group.first_row))


def _spread_rows(
    groups: Sequence[RowGroup], columns: Sequence[str], n_rows: int, n_all: int, random: np.random.Generator
) -> Iterator[Piece]:
    """Random rows of all batches of all groups."""
    for group in groups:
        with guarded(group.file), group.file.opened() as file:
            first_row = group.first_row
            for batch in group.file.checked(file, columns, BATCH_ROWS, [group.number]):
                chosen = np.flatnonzero(random.random(batch.num_rows) * n_all < n_rows)
                for part in [] if not len(chosen) else [batch.take(pa.array(chosen))]:
                    yield Piece(part, Origin(group.file.name, first_row))
                first_row += batch.num_rows
