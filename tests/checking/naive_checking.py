"""The checker's figures, written down straight from their definitions: slow, obvious, exact where fractions allow."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any

Row = Sequence[Any]


def same(value: Any) -> Hashable:
    """Something that is equal exactly for equal values: NaN equals NaN, 1 is not True, null is nothing else."""
    if isinstance(value, float) and math.isnan(value):
        return ("nan",)
    return (type(value).__name__, value)


def groups_of(quasi: Sequence[Row]) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for position, row in enumerate(quasi):
        groups[tuple(same(value) for value in row)].append(position)
    return groups


def shares(values: Sequence[Any]) -> dict[Any, Fraction]:
    return {value: Fraction(count, len(values)) for value, count in Counter(values).items()}


class Naive:
    """Every figure of one sensitive column. Values are given as whole numbers: their ranks or any codes."""

    def __init__(self, quasi: Sequence[Row], values: Sequence[int]) -> None:
        self.table = shares(values)
        self.groups = [[values[position] for position in rows] for rows in groups_of(quasi).values()]

    def per_group(self, figure: Callable[[list[int]], Any]) -> list[Any]:
        return [figure(group) for group in self.groups]

    def distinct(self, group: list[int]) -> int:
        return len(set(group))

    def entropy_l(self, group: list[int]) -> float:
        return math.exp(-sum(p * math.log(p) for p in shares(group).values()))

    def recursive_c(self, group: list[int], ell: int) -> float:
        counts = sorted(Counter(group).values(), reverse=True)
        tail = sum(counts[ell - 1 :])
        return counts[0] / tail if tail else math.inf

    def t(self, group: list[int]) -> float:
        inside = shares(group)
        return float(sum(abs(inside.get(value, 0) - q) for value, q in self.table.items()) / 2)

    def t_ordered(self, group: list[int]) -> float:
        inside = shares(group)
        carried, work = Fraction(0), Fraction(0)
        for value in sorted(self.table):
            carried += inside.get(value, 0) - self.table[value]
            work += abs(carried)
        return float(work / (len(self.table) - 1)) if len(self.table) > 1 else 0.0

    def alpha(self, group: list[int]) -> float:
        return float(max(shares(group).values()))

    def beta(self) -> float:
        gains = [(p - self.table[v]) / self.table[v] for group in self.groups for v, p in shares(group).items()]
        return float(max(0, *gains, 0))

    def beta_enhanced(self) -> float:
        for group in self.groups:
            for value, p in shares(group).items():
                q = self.table[value]
                if float((p - q) / q) > -math.log(q) + 1e-12:
                    return math.inf
        return self.beta()

    def delta(self) -> float:
        worst = 0.0
        for group in self.groups:
            inside = shares(group)
            for value, q in self.table.items():
                worst = max(worst, abs(math.log(inside[value] / q)) if value in inside else math.inf)
        return worst
