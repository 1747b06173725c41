"""Bottom-up local recoding (Protecting the Publishing Identity in Multiple Tuples, Section 4.2, Algorithm 2).

Rows whose exact values already form a good group keep them. Only the others are generalized, one attribute and one
level at a time (the attribute with the most distinct values among them), and every group that becomes good on the way
is set aside. Rows that are left at the very top, the orphans, borrow rows from groups that can spare them or are
merged into their nearest groups (`orphans`).

Invariant of the outcome: every row is in exactly one group, every group satisfies the condition, and each group's node
on each attribute stands above all values of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.lattice.frequency import Levels
from rtree_anon.lattice.orphans import Grouping, Judge, common_level, place_orphans, ranges
from rtree_anon.lattice.search import Search


@dataclass(frozen=True, eq=False)
class LocalRecoding:
    """Which group each row is in, and the level and the node of each group on each attribute."""

    search: Search
    group_of_row: NDArray[np.int64]
    levels: NDArray[np.int64]  # (n_groups, n_attributes)
    nodes: NDArray[np.int64]  # (n_groups, n_attributes): ids on those levels
    n_borrowed: int
    n_merged: int


def recode_locally(search: Search, *, compact: bool) -> LocalRecoding:
    """Run the algorithm. `compact` gives each group the lowest nodes that cover its rows."""
    columns = search.columns()
    leaves = np.stack(columns[: search.generalizer.n_quasi], axis=1)
    judge = Judge(search, search.generalizer.layout.pack(columns))
    grouping, free = _set_aside(search, judge, leaves)
    n_borrowed, n_merged = place_orphans(search, judge, grouping, leaves, free)
    return _outcome(search, grouping, leaves, n_borrowed, n_merged, compact=compact)


def _set_aside(search: Search, judge: Judge, leaves: NDArray[np.int64]) -> tuple[Grouping, NDArray[np.int64]]:
    """Generalize what is not in a group yet until everything is at the top. Returns the groups and the orphans."""
    grouping = Grouping(len(leaves), leaves.shape[1])
    free = np.arange(len(leaves))
    levels = search.low
    while len(free):
        group_of_free, good = judge.groups_of(free, levels)
        rows = np.flatnonzero(good[group_of_free])
        grouping.add(free[rows], group_of_free[rows], levels)
        free = np.delete(free, rows)
        higher = _next_levels(search, leaves[free], levels)
        if higher is None:
            break
        levels = higher
    return grouping, free


def _next_levels(search: Search, leaves: NDArray[np.int64], levels: Levels) -> Levels | None:
    """One level more for the attribute that has the most distinct values among these rows; None at the top."""
    bounds = zip(levels, search.high, strict=True)
    open_attributes = [i for i, (level, hi) in enumerate(bounds) if level < hi]
    if not open_attributes:
        return None

    def n_distinct(attribute: int) -> int:
        return len(np.unique(search.hierarchies[attribute].ancestors[levels[attribute]][leaves[:, attribute]]))

    widest = max(open_attributes, key=n_distinct)
    return (*levels[:widest], levels[widest] + 1, *levels[widest + 1 :])


def _outcome(
    search: Search, grouping: Grouping, leaves: NDArray[np.int64], n_borrowed: int, n_merged: int, *, compact: bool
) -> LocalRecoding:
    group_of_row, least_levels = grouping.final()
    if compact:
        least_levels = np.zeros_like(least_levels)
    levels = np.empty_like(least_levels)
    nodes = np.empty_like(least_levels)
    for attribute, bound in enumerate(search.hierarchies):
        lo, hi = ranges(group_of_row, leaves[:, attribute], len(levels))
        levels[:, attribute] = common_level(bound, lo, hi, least_levels[:, attribute])
        nodes[:, attribute] = bound.ancestors[levels[:, attribute], lo]
    return LocalRecoding(search, group_of_row, levels, nodes, n_borrowed, n_merged)
