"""Samarati's binary search for minimal generalizations (Protecting Respondents' Identities, Sections 5 and 6).

If no node of some height satisfies the condition, none below does: so the lowest height with a solution is found by
binary search on heights (`Find_vector`, Figure 10). For all minimal generalizations the binary search goes on over
vectors: chains of nodes whose answer is still open are halved until no node is left open. Every answer is passed on to
all generalizations (if it satisfies) or to all that it generalizes (if it does not), so no node is checked whose answer
follows from others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rtree_anon.errors import UsageError
from rtree_anon.lattice.distance import DistanceMatrix
from rtree_anon.lattice.frequency import Levels
from rtree_anon.lattice.graph import downward, upward
from rtree_anon.lattice.search import Node, Search, levels_of
from rtree_anon.lattice.walk import Status, Statuses

Check = Callable[[Levels], bool]


def search_heights(search: Search, *, matrix: bool = False, first_only: bool = False) -> Statuses:
    """The status of the nodes: all of them decided, or with `first_only` just enough to know one lowest solution."""
    check, distances = _checker(search, matrix)
    statuses = np.zeros(search.shape, dtype=np.uint8)
    lowest, highest = 0, sum(search.shape) - len(search.shape)
    if distances is not None and distances.upper_bound is not None:
        lowest, highest = _apply_bounds(search, distances, statuses)
    board = _Board(search, statuses, check)
    if not board.ask(tuple(size - 1 for size in search.shape)):
        return statuses
    heights = np.indices(search.shape).sum(axis=0)
    while lowest < highest:
        middle = (lowest + highest) // 2
        if board.any_satisfies(heights == middle):
            highest = middle
        else:
            lowest = middle + 1
    board.any_satisfies(heights == lowest)
    if not first_only:
        board.settle_all()
    return statuses


def _checker(search: Search, matrix: bool) -> tuple[Check, DistanceMatrix | None]:
    if not matrix:
        return lambda levels: search.check(search.scan(levels)), None
    if not search.condition.only_k:
        raise UsageError(f"the matrix of distance vectors decides k-anonymity only, not {search.condition.name}")
    distances = DistanceMatrix.of(search.generalizer, search.scan(search.low), search.condition.least_rows)

    def check(levels: Levels) -> bool:
        search.effort.add(nodes_checked=1)
        return distances.n_suppressed(levels) <= search.max_suppressed

    return check, distances


def _apply_bounds(search: Search, distances: DistanceMatrix, statuses: Statuses) -> tuple[int, int]:
    """The heights between which the lowest solution lies, by the matrix (Section 5, Example 5.1).

    What exceeds the least upper bound satisfies exactly if its part below the bound does, so it is decided when that
    is.
    """
    lowest = max(distances.lowest_height(search.max_suppressed) - sum(search.low), 0)
    bound = distances.upper_bound or search.high
    highest = sum(min(b, hi) - lo for b, lo, hi in zip(bound, search.low, search.high, strict=True))
    heights = np.indices(search.shape).sum(axis=0)
    statuses[heights < lowest] = Status.PRUNED
    return min(lowest, highest), highest


class _Board:
    """Answers so far, and how a new one spreads."""

    def __init__(self, search: Search, statuses: Statuses, check: Check) -> None:
        self._search = search
        self._family = tuple(range(len(search.low)))
        self._statuses = statuses
        self._check = check

    def ask(self, node: Node) -> bool:
        """The answer for a node: known already, or checked now."""
        if self._statuses[node] == Status.UNSEEN:
            satisfied = self._check(levels_of(self._search, self._family, node))
            follows = self._statuses[upward(node) if satisfied else downward(node)]
            follows[follows == Status.UNSEEN] = Status.IMPLIED if satisfied else Status.PRUNED
            self._statuses[node] = Status.SATISFIED if satisfied else Status.FAILED
        return bool(self._statuses[node] >= Status.SATISFIED)

    def any_satisfies(self, level_set: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> bool:
        """Whether some node of the set does; stops at the first one."""
        if (self._statuses[level_set] >= Status.SATISFIED).any():
            return True
        return any(self.ask(tuple(node)) for node in np.argwhere(level_set).tolist())

    def settle_all(self) -> None:
        """Binary search along chains of open nodes until none is open."""
        while True:
            start = int(np.argmax(self._statuses == Status.UNSEEN))
            node = tuple(int(i) for i in np.unravel_index(start, self._statuses.shape))
            if self._statuses[node] != Status.UNSEEN:
                return
            chain = self._open_chain(node)
            low, high = 0, len(chain)  # nodes before `low` fail, nodes from `high` on satisfy
            while low < high:
                middle = (low + high) // 2
                if self.ask(chain[middle]):
                    high = middle
                else:
                    low = middle + 1

    def _open_chain(self, node: Node) -> list[Node]:
        """Open nodes from here upward, each a direct generalization of the one before."""
        chain = [node]
        while True:
            for axis, level in enumerate(node):
                above = (*node[:axis], level + 1, *node[axis + 1 :])
                if level + 1 < self._statuses.shape[axis] and self._statuses[above] == Status.UNSEEN:
                    chain.append(above)
                    node = above
                    break
            else:
                return chain
