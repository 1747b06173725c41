"""Ids with a number each, found quickly in whatever order they come.

Sorted runs, each less than half as long as the one before: a new run is joined with its predecessors until that holds
again (the logarithmic method of Bentley and Saxe). So an id is moved a few times only, and looked for in a few places.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.sorting import ordered

Ids = NDArray[np.int64]
Numbers = NDArray[np.int32]

BYTES_PER_ID = 12


@dataclass(frozen=True, eq=False)
class _Run:
    ids: Ids  # ascending; of equal ones the newest is the last
    numbers: Numbers


class IdRuns:
    """What is known of ids. An id that comes again has its newest number."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._n = 0

    def __len__(self) -> int:
        """How many ids were added."""
        return self._n

    def add(self, ids: Ids, numbers: Numbers) -> None:
        """Further ids, each once."""
        if not len(ids):
            return
        new = _sorted(ids, numbers)
        while self._runs and len(self._runs[-1].ids) < 2 * len(new.ids):
            older = self._runs.pop()
            new = _sorted(np.concatenate((older.ids, new.ids)), np.concatenate((older.numbers, new.numbers)))
        self._runs.append(new)
        self._n += len(ids)

    def find(self, ids: Ids) -> Numbers:
        """The numbers of these ids, -1 where one was never added."""
        found = np.full(len(ids), -1, np.int32)
        for run in self._runs:  # newer ones later, so that what they say counts
            at = np.maximum(np.searchsorted(run.ids, ids, "right") - 1, 0)
            np.copyto(found, run.numbers[at], where=run.ids[at] == ids)
        return found

    def ids(self) -> Ids:
        """All of them, ascending."""
        if len(self._runs) == 1:
            return self._runs[0].ids
        return ordered(np.concatenate([np.empty(0, np.int64), *(run.ids for run in self._runs)]))[0]

    def by_number(self) -> Ids:
        """The id of every number, where numbers 0, 1, … were added once each."""
        ids = np.empty(self._n, np.int64)
        for run in self._runs:
            ids[run.numbers] = run.ids
        return ids


def _sorted(ids: Ids, numbers: Numbers) -> _Run:
    if bool((ids[1:] > ids[:-1]).all()):  # ids that the index gives out
        return _Run(ids, numbers)
    ascending, order = ordered(ids)
    return _Run(ascending, numbers[order])
