"""Which of several minimal generalizations to prefer (Samarati, Section 6).

A policy is a cost; the generalizations of the lowest cost are preferred. The named ones are Samarati's; a mapping
weighs the relative distance of attributes; any function of a generalization (its tuple of levels) will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rtree_anon.errors import UsageError
from rtree_anon.lattice.frequency import Levels

Policy = str | Mapping[str, float] | Callable[[Levels], float]


@dataclass(frozen=True)
class NodeStatistics:
    """What releasing one generalization would mean."""

    generalization: Levels
    n_suppressed: int
    n_groups: int  # distinct generalized rows that are released


def preferred(
    generalizations: Sequence[Levels],
    policy: Policy,
    names: Sequence[str],
    heights: Sequence[int],
    statistics: Callable[[Levels], NodeStatistics],
) -> list[Levels]:
    """The generalizations of the lowest cost; several where they tie."""
    cost = _cost(policy, names, heights, statistics)
    costs = [cost(generalization) for generalization in generalizations]
    lowest = min(costs, default=0.0)
    tolerance = 1e-9 * max(abs(lowest), 1.0)  # sums of fractions such as 1/2 + 1/3 may differ in the last bit
    return [one for one, its_cost in zip(generalizations, costs, strict=True) if its_cost <= lowest + tolerance]


def _cost(
    policy: Policy, names: Sequence[str], heights: Sequence[int], statistics: Callable[[Levels], NodeStatistics]
) -> Callable[[Levels], float]:
    if callable(policy):
        return policy
    if isinstance(policy, Mapping):
        unknown = [name for name in policy if name not in names]
        if unknown:
            raise UsageError(f"the policy weighs {unknown[0]!r}, which is not a quasi-identifier ({', '.join(names)})")
        weights = [float(policy.get(name, 1.0)) for name in names]
        return lambda levels: sum(w * d for w, d in zip(weights, _relative(levels, heights), strict=True))
    costs: dict[str, Callable[[Levels], float]] = {
        "absolute": sum,
        "relative": lambda levels: sum(_relative(levels, heights)),
        "distribution": lambda levels: -statistics(levels).n_groups,
        "suppression": lambda levels: statistics(levels).n_suppressed,
    }
    if policy not in costs:
        raise UsageError(f"policy must be one of {', '.join(costs)}, certainty, weights or a function, not {policy!r}")
    return costs[policy]


def _relative(levels: Levels, heights: Sequence[int]) -> list[float]:
    return [level / height if height else 0.0 for level, height in zip(levels, heights, strict=True)]
