"""The breadth-first search that bottom-up search and every iteration of Incognito share (Incognito, Section 3.1.1).

Nodes are visited by height. A node that satisfies the condition marks all its generalizations, which are then not
checked; one that does not leaves its frequency set behind, for its direct generalizations to be rolled up from. Sets
are dropped as soon as the search is two heights above them, and the largest ones earlier where they would exceed the
memory budget; a node all of whose lower neighbours are gone starts afresh.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rtree_anon.lattice.frequency import FrequencySet, Levels
from rtree_anon.lattice.graph import Family, Mask, nodes_by_height, upward
from rtree_anon.lattice.origins import Origin, Source
from rtree_anon.lattice.search import Node, Search, levels_of


class Status(IntEnum):
    """What a search knows about a node."""

    UNSEEN = 0  # never looked at
    PRUNED = 1  # cannot satisfy the condition, since a part of it does not
    FAILED = 2  # checked, does not satisfy
    SATISFIED = 3  # checked, satisfies
    IMPLIED = 4  # satisfies, since a less general node does


Statuses = NDArray[np.uint8]


def satisfying(statuses: Statuses) -> Mask:
    """The nodes that are known to satisfy the condition."""
    mask: Mask = statuses >= Status.SATISFIED
    return mask


def walk(
    search: Search,
    family: Family,
    candidates: Mask,
    origin: Origin,
    *,
    settled: Mask | None = None,
    rollup: bool = True,
    mark: bool = True,
    budget_bytes: int,
) -> Statuses:
    """Decide every candidate of a family.

    `origin` gives a frequency set that nodes are made from where no neighbour's is at hand. `settled` candidates are
    known to satisfy the condition. `mark=False` checks every candidate, for conditions that are not monotone.
    """
    statuses = np.where(candidates, Status.UNSEEN, Status.PRUNED).astype(np.uint8)
    below = _Shelf(budget_bytes)
    here = _Shelf(budget_bytes)
    height = -1
    for row in nodes_by_height(candidates).tolist():
        node: Node = tuple(row)
        if statuses[node] != Status.UNSEEN:
            continue
        if sum(node) != height:
            below = here if sum(node) == height + 1 else _Shelf(budget_bytes)
            here = _Shelf(budget_bytes - below.n_bytes)
            height = sum(node)
        if settled is not None and settled[node]:
            search.effort.add(nodes_checked=1)
            satisfied = True
        else:
            neighbour = below.smallest(_lower_neighbours(node)) if rollup else None
            satisfied, frequencies, is_new = _decide(search, levels_of(search, family, node), neighbour, origin)
            if frequencies is not None and not (satisfied and mark):
                here.put(node, frequencies, is_new=is_new)
        statuses[node] = Status.SATISFIED if satisfied else Status.FAILED
        if satisfied and mark:
            above = statuses[upward(node)]
            above[above == Status.UNSEEN] = Status.IMPLIED
    return statuses


def _decide(
    search: Search, levels: Levels, neighbour: FrequencySet | None, origin: Origin
) -> tuple[bool, FrequencySet | None, bool]:
    """Whether a node satisfies, the set to make its generalizations from, and whether that was made just now."""
    if search.fails_early(neighbour if neighbour is not None else search.base, levels):
        return False, neighbour, False
    source = Source(neighbour, is_table=False) if neighbour is not None else origin.source()
    frequencies = search.roll_up(source.frequencies, levels, is_scan=source.is_table)
    return search.check(frequencies), frequencies, frequencies is not source.frequencies


def _lower_neighbours(node: Node) -> list[Node]:
    return [(*node[:i], level - 1, *node[i + 1 :]) for i, level in enumerate(node) if level > 0]


class _Shelf:
    """Frequency sets of the nodes of one height, the largest given up first when they exceed the budget."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._sets: dict[Node, FrequencySet] = {}
        self._sizes: dict[Node, int] = {}
        self.n_bytes = 0

    def put(self, node: Node, frequencies: FrequencySet, *, is_new: bool) -> None:
        """Keep the set that the generalizations of a node are rolled up from; one that is kept elsewhere is free."""
        self._sets[node] = frequencies
        self._sizes[node] = frequencies.nbytes if is_new else 0
        self.n_bytes += self._sizes[node]
        while self.n_bytes > self._budget_bytes:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self.n_bytes -= self._sizes.pop(largest)
            del self._sets[largest]

    def smallest(self, nodes: list[Node]) -> FrequencySet | None:
        """The set with the fewest keys among those of `nodes` that are still here."""
        found = [self._sets[node] for node in nodes if node in self._sets]
        return min(found, key=len) if found else None
