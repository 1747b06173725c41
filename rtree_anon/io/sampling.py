"""Samples of a source's rows, from which a bulk load chooses its first cuts.

`Reservoir` rides along on a pass that is made anyway: every row draws a random number and the rows with the smallest
ones are kept, so the sample is uniform, does not depend on the size of batches, and its first m rows are a uniform
sample, too. `parquet_rows` reads parts of row groups instead of making a pass: a few of them where every group covers
the whole range of every column, all of them (or all of their rows) where the file is sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.io.cells import Origin
from rtree_anon.io.files import BATCH_ROWS, ParquetFile, guarded
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
    each = -(-n_rows // n_groups)
    for file, chosen in _by_file([groups[int(place)] for place in places]):
        with guarded(file), file.opened() as opened:
            for group in chosen:
                batches = file.checked(opened, columns, min(each, group.n_rows), [group.number])
                yield from (Piece(batch, Origin(file.name, group.first_row)) for batch in islice(batches, 1))


def _spread_rows(
    groups: Sequence[RowGroup], columns: Sequence[str], n_rows: int, n_all: int, random: np.random.Generator
) -> Iterator[Piece]:
    """Random rows of all files."""
    for file, _ in _by_file(groups):
        with guarded(file):
            for batch, origin in file.batches(columns, BATCH_ROWS):
                chosen = np.flatnonzero(random.random(batch.num_rows) * n_all < n_rows)
                if len(chosen):
                    yield Piece(batch.take(pa.array(chosen)), origin)


def _by_file(groups: Sequence[RowGroup]) -> Iterator[tuple[ParquetFile, list[RowGroup]]]:
    """Neighbouring groups of one file together: opening a file takes longer than a few rows do."""
    for _, members in groupby(groups, key=lambda group: id(group.file)):
        chosen = list(members)
        yield chosen[0].file, chosen
