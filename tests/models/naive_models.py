"""The privacy models from their definitions, slowly: lists of values in, exact fractions inside.

A group is a list of row numbers; `values[column][row]` and `people[row]` say what the rows have. Nothing here knows
demands, clauses or codes. `margin` says how far a group is from the bound, so that tests can let a figure that equals
its bound to rounding go either way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import rtree_anon as ra
from rtree_anon.models import Model


@dataclass(frozen=True)
class World:
    """A whole table: sensitive columns and people, by row number. Values compare in their order."""

    values: Mapping[str, Sequence[Any]]
    people: Sequence[Any]

    def shares(self, column: str) -> dict[Any, Fraction]:
        return shares_of(self.values[column])


def shares_of(values: Sequence[Any]) -> dict[Any, Fraction]:
    return {value: Fraction(count, len(values)) for value, count in Counter(values).items()}


def margin(model: Model, world: World, rows: Sequence[int]) -> float:
    """Positive or 0 where the group satisfies the model (above 0 where the bound is strict), by how much; the least
    over the parts and columns."""
    return min(_margin(part, world, rows) for part in model.parts)


def holds(model: Model, world: World, rows: Sequence[int]) -> bool:
    """Whether the group satisfies the model, up to rounding."""
    return margin(model, world, rows) >= -1e-9


def doubtful(model: Model, world: World, rows: Sequence[int]) -> bool:
    """Whether the group is so near to a bound that rounding decides."""
    return abs(margin(model, world, rows)) < 1e-9


def _margin(part: Any, world: World, rows: Sequence[int]) -> float:
    if not rows:
        return -1.0
    names = [part.on] if isinstance(getattr(part, "on", ()), str) else list(getattr(part, "on", ()))
    groups = [(column, [world.values[column][row] for row in rows]) for column in names]
    people = [world.people[row] for row in rows]
    found: list[float] = []
    if isinstance(part, ra.KAnonymity | ra.AlphaKAnonymity):
        found.append(whole(len(rows) - part.k))
    if isinstance(part, ra.IdentityKAnonymity | ra.IdentityKLDiversity):
        found.append(whole(len(set(people)) - part.k))
    if isinstance(part, ra.IdentityAlphaBeta):
        found.append(float(Fraction(part.alpha) - max(shares_of(people).values())))
    for column, values in groups:
        found.append(_ABOUT_VALUES[type(part)](part, values, world.shares(column)))
    return min(found)


def whole(difference: int) -> float:
    """Counts are never doubtful: at their bound they satisfy it."""
    return float(difference) if difference else 0.5


Shares = dict[Any, Fraction]


def _distinct(part: Any, values: Sequence[Any], table: Shares) -> float:
    return whole(len(set(values)) - part.l)


def _entropy(part: Any, values: Sequence[Any], table: Shares) -> float:
    return -sum(float(p) * math.log(p) for p in shares_of(values).values()) - math.log(part.l)


def _recursive(part: Any, values: Sequence[Any], table: Shares) -> float:
    counts = sorted(Counter(values).values(), reverse=True)
    return float(Fraction(part.c) * sum(counts[part.l - 1 :]) - counts[0]) or -1.0  # equal breaks it


def _alpha(part: Any, values: Sequence[Any], table: Shares) -> float:
    return float(Fraction(part.alpha) - max(shares_of(values).values()))


def _beta_of_identity(part: Any, values: Sequence[Any], table: Shares) -> float:
    return float(Fraction(part.beta) - max(shares_of(values).values()))


def _closeness(part: Any, values: Sequence[Any], table: Shares) -> float:
    here = shares_of(values)
    ordered = sorted(table)
    difference = [here.get(value, Fraction(0)) - table[value] for value in ordered]
    if part.distance == "equal":
        distance = sum(map(abs, difference)) / 2
    elif len(ordered) == 1:
        distance = Fraction(0)
    else:
        distance = sum(map(abs, accumulate(difference)), Fraction(0)) / (len(ordered) - 1)
    return float(Fraction(part.t) - distance)


def _beta(part: Any, values: Sequence[Any], table: Shares) -> float:
    found = []
    for value, p in shares_of(values).items():
        q = table[value]
        most = min(part.beta, -math.log(q)) if part.enhanced else part.beta
        found.append(most - float((p - q) / q))
    return min(found)


def _delta(part: Any, values: Sequence[Any], table: Shares) -> float:
    here = shares_of(values)
    if len(here) < len(table):
        return -1.0
    return part.delta - max(abs(math.log(here[value] / table[value])) for value in table)


_ABOUT_VALUES: dict[type, Callable[[Any, Sequence[Any], Shares], float]] = {
    ra.DistinctLDiversity: _distinct,
    ra.IdentityKLDiversity: _distinct,
    ra.EntropyLDiversity: _entropy,
    ra.RecursiveCLDiversity: _recursive,
    ra.AlphaKAnonymity: _alpha,
    ra.IdentityAlphaBeta: _beta_of_identity,
    ra.TCloseness: _closeness,
    ra.BetaLikeness: _beta,
    ra.DeltaDisclosure: _delta,
}
