"""Orphans of local recoding: rows that no generalization brings into a good group (Algorithm 2, steps 4 and 5).

First the orphans together try to borrow: rows from other groups, the nearest first, that bring what is missing (another
individual, a rarer sensitive value) and that their own group can spare. If that does not make a good group, each orphan
is merged into the group where it costs least. Both are greedy, as in the paper, and under (alpha,beta) and other models
that a group can break by growing they may leave orphans without a place. Beyond the paper, those then form one group
with as many others as it takes, so that every table that has a solution gets one.

Work is per orphan and per row that is tried, on arrays of groups or rows; orphans are few, since they are what does not
even satisfy the condition when everything about them is generalized.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import PrivacyError
from rtree_anon.hierarchy import BoundHierarchy
from rtree_anon.lattice.conditions import IDENTITY
from rtree_anon.lattice.frequency import FrequencySet, Levels
from rtree_anon.lattice.search import Search

MAX_TRIES = 2_000  # rows that are considered for a loan
MAX_HOSTS = 50  # groups that an orphan is offered to, where a merger can break the model

Rows = NDArray[np.int64]


class Judge:
    """Answers whether sets of rows may form a group."""

    def __init__(self, search: Search, keys: NDArray[np.uint64]) -> None:
        self._search = search
        self._keys = keys  # exact values and the model's columns, one key per row
        self._top: Levels = tuple(bound.height for bound in search.hierarchies)

    def groups_of(self, rows: Rows, levels: Levels) -> tuple[Rows, NDArray[np.bool_]]:
        """The group of each row at these levels, and for each group whether it is good."""
        generalizer = self._search.generalizer
        exact = (0,) * generalizer.n_quasi
        keys = self._keys[:, rows]
        group_of_row, group_keys = generalizer.assign(keys, exact, levels)
        ones = np.ones(len(rows), dtype=np.int64)
        frequencies = generalizer.roll_up(FrequencySet(exact, keys, ones), levels)
        return group_of_row, self._search.holds_by_key(frequencies, group_keys)

    def is_good(self, rows: Rows) -> bool:
        """Whether these rows may be one group."""
        return bool(self.groups_of(rows, self._top)[1].all()) and len(rows) > 0

    def column(self, name: str) -> Rows:
        """The codes of one of the model's columns, for all rows."""
        generalizer = self._search.generalizer
        position = generalizer.n_quasi + self._search.table.extra_names.index(name)
        return generalizer.layout.column(self._keys, position)


class Grouping:
    """Groups under construction: which rows they have, and how far they are generalized at least."""

    def __init__(self, n_rows: int, n_attributes: int) -> None:
        self.group_of_row = np.full(n_rows, -1, dtype=np.int64)
        self._levels: list[NDArray[np.int64]] = []
        self._n_attributes = n_attributes
        self.n_groups = 0

    def add(self, rows: Rows, labels: NDArray[np.int64], levels: Levels) -> None:
        """New groups: rows with the same label."""
        distinct, numbers = np.unique(labels, return_inverse=True)
        self.group_of_row[rows] = self.n_groups + numbers
        self._levels.append(np.tile(np.array(levels, dtype=np.int64), (len(distinct), 1)))
        self.n_groups += len(distinct)

    def members(self, group: int) -> Rows:
        return np.flatnonzero(self.group_of_row == group)

    @property
    def levels(self) -> NDArray[np.int64]:
        """The least level of each group on each attribute."""
        return np.concatenate([np.empty((0, self._n_attributes), dtype=np.int64), *self._levels])

    def final(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The group of each row and the least levels of each group, without groups that have lost all rows."""
        used, group_of_row = np.unique(self.group_of_row, return_inverse=True)
        return group_of_row, self.levels[used]


def place_orphans(
    search: Search, judge: Judge, grouping: Grouping, leaves: NDArray[np.int64], orphans: Rows
) -> tuple[int, int]:
    """Bring all orphans into groups. Returns how many rows were borrowed and how many orphans were merged."""
    if not len(orphans):
        return 0, 0
    if not grouping.n_groups:
        raise _impossible(search)
    loan = _loan(search, judge, grouping, leaves, orphans)
    if loan is not None:
        rows = np.concatenate([orphans, loan])
        grouping.add(rows, np.zeros(len(rows), dtype=np.int64), search.low)
        return len(loan), 0
    bundles = _bundles(search, judge, leaves, orphans)
    stuck = [bundle for bundle in bundles if not _join_one(search, judge, grouping, leaves, bundle)]
    if stuck:
        _join_several(search, judge, grouping, leaves, np.concatenate(stuck))
    return 0, len(orphans)


def _loan(search: Search, judge: Judge, grouping: Grouping, leaves: NDArray[np.int64], orphans: Rows) -> Rows | None:
    """Rows that, together with the orphans, are a good group, and that leave good groups behind; None if none found."""
    person = judge.column(IDENTITY) if IDENTITY in search.table.extra_names else None
    borrowed = np.empty(0, dtype=np.int64)
    left: dict[int, Rows] = {}  # what lenders still have
    for row in _lenders_first(search, judge, grouping, leaves, orphans)[:MAX_TRIES].tolist():
        together = np.concatenate([orphans, borrowed])
        if row in borrowed or (person is not None and person[row] in person[together]):
            continue  # it is in the group already, or its individual is: it brings nobody new
        group = int(grouping.group_of_row[row])
        members = left.get(group, grouping.members(group))
        # rows of one individual stay together: torn apart, each part would look like somebody else's
        goes = members == row if person is None else person[members] == person[row]
        if not judge.is_good(members[~goes]):
            continue
        left[group] = members[~goes]
        borrowed = np.concatenate([borrowed, members[goes]])
        if judge.is_good(np.concatenate([orphans, borrowed])):
            return borrowed
    return None


def _lenders_first(search: Search, judge: Judge, grouping: Grouping, leaves: NDArray[np.int64], orphans: Rows) -> Rows:
    """Rows of groups, those with sensitive values that the orphans lack first, then by what joining them costs."""
    brings_nothing_new = np.zeros(len(leaves), dtype=bool)
    for name in search.table.extra_names:
        if name != IDENTITY:
            column = judge.column(name)
            brings_nothing_new |= np.isin(column, column[orphans])
    cost = _cost_of_joining(search, leaves, orphans)
    if IDENTITY in search.table.extra_names:
        cost *= _rows_that_move_along(judge.column(IDENTITY), grouping.group_of_row)
    order = np.lexsort((cost, brings_nothing_new))
    return order[grouping.group_of_row[order] >= 0]


def _rows_that_move_along(person: NDArray[np.int64], group_of_row: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row, how many rows its individual has in its group."""
    _, pair, count = np.unique(np.column_stack([person, group_of_row]), axis=0, return_inverse=True, return_counts=True)
    return count[pair]


def _bundles(search: Search, judge: Judge, leaves: NDArray[np.int64], orphans: Rows) -> list[Rows]:
    """Orphans that are merged together: those of one individual with the same values."""
    if IDENTITY not in search.table.extra_names:
        return [orphans[i : i + 1] for i in range(len(orphans))]
    signature = np.column_stack([judge.column(IDENTITY)[orphans], leaves[orphans]])
    _, bundle_of = np.unique(signature, axis=0, return_inverse=True)
    return [orphans[bundle_of == bundle] for bundle in range(int(bundle_of.max()) + 1)]


def _join_one(search: Search, judge: Judge, grouping: Grouping, leaves: NDArray[np.int64], bundle: Rows) -> bool:
    """Put orphans with the same values into the cheapest group that stays good; False if no cheap one does."""
    for host in _hosts(search, grouping, leaves, bundle)[:MAX_HOSTS].tolist():
        if judge.is_good(np.concatenate([grouping.members(host), bundle])):
            grouping.group_of_row[bundle] = host
            return True
    return False


def _join_several(search: Search, judge: Judge, grouping: Grouping, leaves: NDArray[np.int64], stuck: Rows) -> None:
    """Make one group of all that are stuck and of as many groups as it takes, the cheapest first.

    All models are mergeable, so a table that has a solution at all is one as a whole: in the end all groups will do.
    """
    hosts = _hosts(search, grouping, leaves, stuck)
    n_hosts = 1
    while True:
        together = np.concatenate([stuck, np.flatnonzero(np.isin(grouping.group_of_row, hosts[:n_hosts]))])
        if judge.is_good(together):
            grouping.add(together, np.zeros(len(together), dtype=np.int64), search.low)
            return
        if n_hosts >= len(hosts):
            raise _impossible(search)
        n_hosts *= 2


def _hosts(search: Search, grouping: Grouping, leaves: NDArray[np.int64], rows: Rows) -> NDArray[np.int64]:
    """All groups, by the penalty that these rows would add to them, over all rows of the group."""
    cost = np.zeros(grouping.n_groups)
    levels = grouping.levels
    sizes = np.bincount(grouping.group_of_row[grouping.group_of_row >= 0], minlength=grouping.n_groups)
    for attribute, bound in enumerate(search.hierarchies):
        lo, hi = ranges(grouping.group_of_row, leaves[:, attribute], grouping.n_groups)
        level = common_level(bound, lo, hi, levels[:, attribute])
        first, last = leaves[rows, attribute].min(), leaves[rows, attribute].max()
        joint = common_level(bound, np.minimum(lo, first), np.maximum(hi, last), level)
        more = (sizes + len(rows)) * _penalty(bound, joint, lo) - sizes * _penalty(bound, level, lo)
        cost += search.weights[attribute] * more
    return np.argsort(cost, kind="stable")


def _impossible(search: Search) -> PrivacyError:
    return PrivacyError(f"not even the whole table in one group satisfies {search.condition.name}; relax the model")


def common_level(
    bound: BoundHierarchy, lo: NDArray[np.int64], hi: NDArray[np.int64], least: NDArray[np.int64] | int
) -> NDArray[np.int64]:
    """The lowest level, at least `least`, at which two leaves have the same ancestor."""
    differs = (bound.ancestors[:, lo] != bound.ancestors[:, hi]).sum(axis=0)
    return np.asarray(np.maximum(differs, least))


def ranges(
    groups: NDArray[np.int64], codes: NDArray[np.int64], n_groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The smallest and the largest code of each group's rows; (0, 0) for a group without rows."""
    lo = np.full(n_groups, np.iinfo(np.int64).max)
    hi = np.zeros(n_groups, dtype=np.int64)
    inside = groups >= 0
    np.minimum.at(lo, groups[inside], codes[inside])
    np.maximum.at(hi, groups[inside], codes[inside])
    return np.where(lo > hi, 0, lo), hi


def _cost_of_joining(search: Search, leaves: NDArray[np.int64], orphans: Rows) -> NDArray[np.float64]:
    """For every row, the penalty of the lowest common ancestors of itself and all orphans."""
    cost = np.zeros(len(leaves))
    for attribute, bound in enumerate(search.hierarchies):
        codes = leaves[:, attribute]
        lo = np.minimum(codes, codes[orphans].min())
        hi = np.maximum(codes, codes[orphans].max())
        cost += search.weights[attribute] * _penalty(bound, common_level(bound, lo, hi, 0), lo)
    return cost


def _penalty(bound: BoundHierarchy, levels: NDArray[np.int64], leaves: NDArray[np.int64]) -> NDArray[np.float64]:
    """The certainty penalty of the ancestor of each leaf on its level."""
    by_level = np.array([penalties[row] for penalties, row in zip(bound.penalties, bound.ancestors, strict=True)])
    answer: NDArray[np.float64] = by_level[levels, leaves]
    return answer
