"""Ids with a number each, found quickly in whatever order they come, in little memory.

    spans   ids that ascend one by one, as do their numbers: what the index gives out. A span takes no room for its ids
    runs    all others, sorted, each run less than half as long as the one before: a new run is joined with its
            predecessors until that holds again (the logarithmic method of Bentley and Saxe). So an id is moved a few
            times only, and looked for in a few places

Invariant: spans are disjoint and ascending. An id of a span that comes again is in a run, so what a run says counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.sorting import ordered, sorted_ids

Ids = NDArray[np.int64]
Numbers = NDArray[np.int32]

_BYTES_PER_ID = 12  # of a run
_MANY_IDS = 4096  # that are sorted before they are looked for
_SPAN_IDS = 1024  # that begin a span: many short ones would be slow to look through


@dataclass(frozen=True, eq=False)
class _Run:
    ids: Ids  # ascending; of equal ones the newest is the last
    numbers: Numbers


@dataclass(frozen=True)
class _Span:
    """The id first + i has the number `number + i`, for i < n."""

    first: int
    number: int
    n: int

    @property
    def end(self) -> int:
        return self.first + self.n


class IdSet:
    """Ids that are looked for and listed, each added once: runs as those of `IdRuns`, without numbers."""

    def __init__(self) -> None:
        self._runs: list[Ids] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def n_bytes(self) -> int:
        """How much memory they take."""
        return sum(run.nbytes for run in self._runs)

    def add(self, ids: Ids) -> None:
        """Further ids."""
        if not len(ids):
            return
        new = _ascending(ids)
        while self._runs and len(self._runs[-1]) < 2 * len(new):
            new = _ascending(np.concatenate((self._runs.pop(), new)))
        self._runs.append(new)

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of these ids were added."""
        found = np.zeros(len(ids), np.bool_)
        if not self._runs:
            return found
        ascending, order = ordered(ids) if len(ids) >= _MANY_IDS else (ids, None)
        there = found.copy()
        for run in self._runs:
            there |= run[np.minimum(np.searchsorted(run, ascending), len(run) - 1)] == ascending
        if order is None:
            return there
        found[order] = there
        return found

    def ids(self) -> Ids:
        """All of them, ascending."""
        if len(self._runs) > 1:
            every = np.concatenate(self._runs)
            self._runs.clear()  # there is no room for all of them twice
            self._runs.append(_ascending(every))
        return self._runs[0] if self._runs else np.empty(0, np.int64)


class IdRuns:
    """What is known of ids. An id that comes again has its newest number."""

    def __init__(self) -> None:
        self._spans: list[_Span] = []
        self._runs: list[_Run] = []
        self._n = self._n_in_runs = 0

    def __len__(self) -> int:
        """How many ids were added."""
        return self._n

    @property
    def n_bytes(self) -> int:
        """About how much memory they take."""
        return self._n_in_runs * _BYTES_PER_ID

    def add(self, ids: Ids, numbers: Numbers) -> None:
        """Further ids, each once."""
        if not len(ids):
            return
        self._n += len(ids)
        if self._add_span(ids, numbers):
            return
        self._n_in_runs += len(ids)
        new = _sorted(ids, numbers)
        while self._runs and len(self._runs[-1].ids) < 2 * len(new.ids):
            older = self._runs.pop()
            new = _sorted(np.concatenate((older.ids, new.ids)), np.concatenate((older.numbers, new.numbers)))
        self._runs.append(new)

    def find(self, ids: Ids) -> Numbers:
        """The numbers of these ids, -1 where one was never added."""
        if len(ids) < _MANY_IDS or not self._n:
            return self._found(ids)
        ascending, order = ordered(ids)  # neighbours are found in the same place of a run, which the processor has near
        found = np.empty(len(ids), np.int32)
        found[order] = self._found(ascending)
        return found

    def _found(self, ids: Ids) -> Numbers:
        found = np.full(len(ids), -1, np.int32)
        if self._spans:
            first, number, n = np.array([(span.first, span.number, span.n) for span in self._spans]).T
            span = np.maximum(np.searchsorted(first, ids, "right") - 1, 0)
            place = ids - first[span]
            inside = (place >= 0) & (place < n[span])
            found[inside] = (number[span] + place)[inside]
        for run in self._runs:  # newer ones later, so that what they say counts
            at = np.maximum(np.searchsorted(run.ids, ids, "right") - 1, 0)
            np.copyto(found, run.numbers[at], where=run.ids[at] == ids)
        return found

    def by_number(self) -> Callable[[int, int], Ids]:
        """What gives the ids of numbers from one to another; numbers 0, 1, … must have been added once each."""
        if not self._runs:
            return self._in_spans
        every = self._in_spans(0, self._n)
        for run in self._runs:
            every[run.numbers] = run.ids
        return lambda begin, end: every[begin:end]

    def _in_spans(self, begin: int, end: int) -> Ids:
        ids = np.empty(end - begin, np.int64)
        for span in self._spans:
            low, high = max(span.number, begin), min(span.number + span.n, end)
            if low < high:
                ids[low - begin : high - begin] = np.arange(low, high) + (span.first - span.number)
        return ids

    def _add_span(self, ids: Ids, numbers: Numbers) -> bool:
        """Add ids as a span, or to the last one; False where they are none, or come again."""
        n, first, number = len(ids), int(ids[0]), int(numbers[0])
        last = self._spans[-1] if self._spans else None
        goes_on = last is not None and (first, number) == (last.end, last.number + last.n)
        if not goes_on and (n < _SPAN_IDS or (last is not None and first < last.end)):
            return False
        if int(ids[-1]) - first != n - 1 or int(numbers[-1]) - number != n - 1:
            return False
        if not (bool((ids[1:] - ids[:-1] == 1).all()) and bool((numbers[1:] - numbers[:-1] == 1).all())):
            return False
        if any(run.ids[-1] >= first and bool(_meets(run, first, first + n)) for run in self._runs):
            return False  # an older number of one of them would count
        if goes_on and last is not None:
            self._spans[-1] = _Span(last.first, last.number, last.n + n)
        else:
            self._spans.append(_Span(first, number, n))
        return True


def _meets(run: _Run, begin: int, end: int) -> bool:
    """Whether a run has an id from begin to end-1."""
    low, high = np.searchsorted(run.ids, [begin, end])
    return int(low) < int(high)


def _ascending(ids: Ids) -> Ids:
    return ids if bool((ids[1:] > ids[:-1]).all()) else sorted_ids(ids)


def _sorted(ids: Ids, numbers: Numbers) -> _Run:
    if bool((ids[1:] > ids[:-1]).all()):  # ids that the index gives out
        return _Run(ids, numbers)
    ascending, order = ordered(ids)
    return _Run(ascending, numbers[order])
