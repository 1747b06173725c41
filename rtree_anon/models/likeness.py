"""Models that compare a group with the whole table: p is the share of a sensitive value in the group, q in the table.

They depend on the whole table: rows that are added elsewhere change q. `on` is one column, or several, each of which
has to satisfy the model by itself; a missing value counts as a value of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtree_anon.errors import UsageError
from rtree_anon.models.base import Model, On
from rtree_anon.models.demands import Demand


@dataclass(frozen=True)
class TCloseness(Model):
    """The earth mover's distance between the group's distribution and the table's is at most t.

    `distance="equal"`: all values are equally far from each other, so that it is sum |p - q| / 2. `"ordered"`: m values
    are as far from each other as their ranks, sum_i |sum_{j<=i} (p_j - q_j)| / (m - 1); missing comes first.
    N. Li, T. Li, S. Venkatasubramanian: t-Closeness: Privacy beyond k-Anonymity and l-Diversity, ICDE 2007.
    """

    t: float
    on: On
    distance: str = "equal"

    def __post_init__(self) -> None:
        self._check_number("t", 0.0, 1.0)
        self._check_on()
        if self.distance not in ("equal", "ordered"):
            raise UsageError(f"TCloseness: distance must be 'equal' or 'ordered', not {self.distance!r}.")

    def demands(self) -> tuple[Demand, ...]:
        """distance <= t"""
        return self._on_each("t" if self.distance == "equal" else "t_ordered", self.t)


@dataclass(frozen=True)
class BetaLikeness(Model):
    """No value is much more frequent in a group than in the table: (p - q) / q <= beta wherever p > q.

    `enhanced=True`: (p - q) / q <= min(beta, -ln q), which also bounds the frequent values.
    J. Cao, P. Karras: Publishing Microdata with a Robust Privacy Guarantee, VLDB 2012.
    """

    beta: float
    on: On
    enhanced: bool = False

    def __post_init__(self) -> None:
        self._check_number("beta", 0.0, above=True)
        self._check_on()
        if not isinstance(self.enhanced, bool):
            raise UsageError(f"BetaLikeness: enhanced must be True or False, not {self.enhanced!r}.")

    def demands(self) -> tuple[Demand, ...]:
        """(p - q) / q <= beta"""
        return self._on_each("beta_enhanced" if self.enhanced else "beta", self.beta)


@dataclass(frozen=True)
class DeltaDisclosure(Model):
    """|ln(p / q)| < delta for every value of the table; a group that lacks a value breaks it.

    J. Brickell, V. Shmatikov: The Cost of Privacy: Destruction of Data-Mining Utility in Anonymized Data Publishing,
    KDD 2008.
    """

    delta: float
    on: On

    def __post_init__(self) -> None:
        self._check_number("delta", 0.0, above=True)
        self._check_on()

    def demands(self) -> tuple[Demand, ...]:
        """|ln(p / q)| < delta"""
        return self._on_each("delta", self.delta)
