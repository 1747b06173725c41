"""The directory of rows that have ids of their own, in any order: an external sort of ids and bundles.

    bundles ─► runs of ids and names of bundles, sorted, in a temporary file ─► merged part by part ─► ranges

Two rows with one id are found on the way: they come next to each other. Memory: one run, or one part of the merge.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.directory import Ranges
from rtree_anon.index.reading import BundleReader
from rtree_anon.index.scatter import SpillFile

_BYTES_PER_ROW = 64  # while a run is sorted
_RUN_ROWS = (1 << 12, 1 << 22)
_SAMPLED = 1024  # of a run every so many ids are kept in memory

Ids = NDArray[np.int64]


class SameIdError(Exception):
    """Two rows have one id."""

    def __init__(self, row: int, names: tuple[int, int]) -> None:
        """The names of the bundles that they are in."""
        super().__init__(f"two rows have the id {row}")
        self.row, self.names = row, names


def ranges_of_rows(reader: BundleReader, directory: str, memory_bytes: int) -> Iterator[Ranges]:
    """Ascending ranges of ids with the names of their bundles; SameIdError where an id comes twice."""
    for ids, names in _sorted_rows(reader, directory, int(np.clip(memory_bytes // _BYTES_PER_ROW, *_RUN_ROWS))):
        same = np.flatnonzero(ids[1:] == ids[:-1])
        if len(same):
            at = int(same[0])
            raise SameIdError(int(ids[at]), (int(names[at]), int(names[at + 1])))
        yield Ranges.of(ids, names)


def _sorted_rows(reader: BundleReader, directory: str, run_rows: int) -> Iterator[tuple[Ids, Ids]]:
    if int(reader.tree.n_rows.sum()) <= run_rows:
        yield from _runs(reader, run_rows)
        return
    spill = SpillFile(directory)
    try:
        runs = []
        for ids, names in _runs(reader, run_rows):
            run = np.stack((ids, names)).view(np.uint64)
            begin = spill.reserve(run.nbytes)
            spill.write(run, begin)
            runs.append(_Run(spill, begin, len(ids), ids[::_SAMPLED].copy()))
        sampled = np.sort(np.concatenate([run.sampled for run in runs]))
        seams = sampled[:: max(run_rows // _SAMPLED, 1)][1:].tolist()
        for low, high in zip([-1, *seams], [*seams, 2**63 - 1], strict=True):
            parts = [run.between(low, high) for run in runs]
            yield _sorted(np.concatenate([ids for ids, _ in parts]), np.concatenate([names for _, names in parts]))
    finally:
        spill.close()


class _Run:
    """Sorted ids and the names of their bundles, in the spill file."""

    def __init__(self, spill: SpillFile, begin: int, n_rows: int, sampled: Ids) -> None:
        self._spill, self._begin, self._n_rows, self.sampled = spill, begin, n_rows, sampled

    def between(self, low: int, high: int) -> tuple[Ids, Ids]:
        """Those from `low` to below `high`."""
        first = max(int(np.searchsorted(self.sampled, low, "left")) - 1, 0) * _SAMPLED
        end = min(int(np.searchsorted(self.sampled, high, "left")) * _SAMPLED, self._n_rows)
        ids, names = np.empty(max(end - first, 0), np.uint64), np.empty(max(end - first, 0), np.uint64)
        self._spill.read(ids, self._begin + 8 * first)
        self._spill.read(names, self._begin + 8 * (self._n_rows + first))
        here = (ids.view(np.int64) >= low) & (ids.view(np.int64) < high)
        return ids.view(np.int64)[here], names.view(np.int64)[here]


def _runs(reader: BundleReader, run_rows: int) -> Iterator[tuple[Ids, Ids]]:
    found: list[Ids] = []
    names: list[Ids] = []
    n_rows = 0
    for number, bundle in enumerate(reader.bundles(0, len(reader.tree))):
        if n_rows and n_rows + bundle.n_rows > run_rows:
            yield _sorted(np.concatenate(found), np.concatenate(names))
            found, names, n_rows = [], [], 0
        found.append(bundle.ids)
        names.append(np.full(bundle.n_rows, reader.tree.name[number], np.int64))
        n_rows += bundle.n_rows
    if n_rows:
        yield _sorted(np.concatenate(found), np.concatenate(names))


def _sorted(ids: Ids, names: Ids) -> tuple[Ids, Ids]:
    order = np.argsort(ids, kind="stable")
    return ids[order], names[order]
