"""Datafly's heuristic (Sweeney; described in Section 7 of Samarati's paper): fast, but the result need not be minimal.

While too many rows would have to be suppressed, the attribute with the most distinct values is generalized by one
level.
"""

from __future__ import annotations

import numpy as np

from rtree_anon.lattice.frequency import FrequencySet, Levels
from rtree_anon.lattice.search import Search
from rtree_anon.lattice.walk import Status, Statuses


def search_greedily(search: Search) -> Statuses:
    """The status of the nodes on the one path that the heuristic takes."""
    statuses = np.zeros(search.shape, dtype=np.uint8)
    frequencies = search.scan(search.low)
    while True:
        levels = frequencies.levels
        node = tuple(level - lo for level, lo in zip(levels, search.low, strict=True))
        if search.check(frequencies):
            statuses[node] = Status.SATISFIED
            return statuses
        statuses[node] = Status.FAILED
        higher = _next(search, frequencies)
        if higher is None:
            return statuses
        frequencies = search.roll_up(frequencies, higher)


def _next(search: Search, frequencies: FrequencySet) -> Levels | None:
    """The levels with the attribute of the most distinct values one higher; None at the top."""
    levels = frequencies.levels
    open_attributes = [i for i, (level, hi) in enumerate(zip(levels, search.high, strict=True)) if level < hi]
    if not open_attributes:
        return None
    layout = search.generalizer.layout
    widest = max(open_attributes, key=lambda i: len(np.unique(layout.column(frequencies.keys, i))))
    return (*levels[:widest], levels[widest] + 1, *levels[widest + 1 :])
