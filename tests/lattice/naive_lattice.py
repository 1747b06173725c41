"""Slow, obvious twins: full-domain generalization by plain Python over rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import product

from rtree_anon.hierarchy import BoundHierarchy, Hierarchy

Row = tuple[str, ...]
Levels = tuple[int, ...]
Holds = Callable[[list[int]], bool]  # of the row numbers of one group


def bind(rows: Sequence[Row], hierarchies: Mapping[str, Hierarchy]) -> list[BoundHierarchy]:
    return [hierarchy.bind([row[i] for row in rows]) for i, hierarchy in enumerate(hierarchies.values())]


def generalized(row: Row, levels: Levels, bound: Sequence[BoundHierarchy]) -> Row:
    return tuple(
        tree.labels[level][tree.ancestors[level, tree.leaves.index(value)]]
        for value, level, tree in zip(row, levels, bound, strict=True)
    )


def groups_at(rows: Sequence[Row], levels: Levels, bound: Sequence[BoundHierarchy]) -> dict[Row, list[int]]:
    groups: dict[Row, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        groups[generalized(row, levels, bound)].append(i)
    return groups


def suppressed_at(rows: Sequence[Row], levels: Levels, bound: Sequence[BoundHierarchy], holds: Holds) -> int:
    return sum(len(group) for group in groups_at(rows, levels, bound).values() if not holds(group))


def all_satisfying(
    rows: Sequence[Row], bound: Sequence[BoundHierarchy], holds: Holds, max_suppressed: int
) -> set[Levels]:
    lattice = product(*(range(tree.height + 1) for tree in bound))
    return {levels for levels in lattice if suppressed_at(rows, levels, bound, holds) <= max_suppressed}


def minimal_of(generalizations: set[Levels]) -> set[Levels]:
    def is_below(one: Levels, other: Levels) -> bool:
        return one != other and all(a <= b for a, b in zip(one, other, strict=True))

    return {one for one in generalizations if not any(is_below(other, one) for other in generalizations)}
