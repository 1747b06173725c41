"""Segments: the parts in which an index hands its rows to a release, and work on them in threads.

A segment is a whole subtree: its leaves in scan order, with the rows of each next to each other. Groups never cross a
segment, so that a release needs the memory of a few segments, and a change of the index changes the groups of the
segments that it touches and no others. Whoever cuts an index into segments sees to it that each has as many rows as
the largest k that is asked for, by joining a smaller one to its neighbour.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rtree_anon.io.table import CodedTable
from rtree_anon.release.bounds import Regions
from rtree_anon.release.from_tree import release_tree
from rtree_anon.release.release import Release
from rtree_anon.tree.ordered import OrderedLeaves, ordered_leaves

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Segment:
    """Leaves of a tree at `base_k`: leaf i is rows[leaf_starts[i]:leaf_starts[i+1]] of the table.

    Space, coders and schema of the tables are the same for all segments of an index, and the space speaks of all of
    it: its domains, and which axes have missing values anywhere. `regions` are needed for uncompacted releases only,
    `depths` (of the cuts between neighbouring leaves) for the hierarchical algorithm only.
    """

    table: CodedTable
    leaf_starts: NDArray[np.int64]
    base_k: int
    regions: Regions | None = None
    depths: NDArray[np.int32] | None = None

    @cached_property
    def leaves(self) -> OrderedLeaves:
        return ordered_leaves(self.table.codes, self.table.space, self.base_k, self.leaf_starts, self.depths)

    def release(self, k: int, method: str, compact: bool) -> Release:
        """The release of this segment alone, verified. Several of them share the boxes of the leaves."""
        return release_tree(self.table, self.leaves, k, method=method, compact=compact, regions=self.regions)


SegmentGiver = Callable[[], Iterator[Segment]]


def in_order(items: Iterator[_Item], work: Callable[[_Item], _Result], threads: int | None) -> Iterator[_Result]:
    """work(item) for every item, done in threads, results in the order of the items.

    Another thread reads ahead. At most `threads` + 1 items are under way or waiting to be taken, which bounds memory.
    """
    n_threads = threads or os.cpu_count() or 1
    try:
        yield from map(work, items) if n_threads == 1 else _in_threads(items, work, n_threads)
    finally:
        if isinstance(items, Generator):
            items.close()  # now, and not when the collector finds it: it may hold a file or a snapshot


def _in_threads(items: Iterator[_Item], work: Callable[[_Item], _Result], n_threads: int) -> Iterator[_Result]:
    end = object()

    def read_and_work(reading: Future[Any]) -> Any:
        item = reading.result()
        return end if item is end else work(item)

    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(n_threads) as workers:
        waiting: deque[Future[Any]] = deque()
        try:
            while True:
                while len(waiting) <= n_threads:
                    waiting.append(workers.submit(read_and_work, reader.submit(next, items, end)))
                result = waiting.popleft().result()
                if result is end:
                    return
                yield result
        finally:
            reader.shutdown(wait=False, cancel_futures=True)  # what waits for a cancelled one is cancelled with it
            workers.shutdown(wait=False, cancel_futures=True)
