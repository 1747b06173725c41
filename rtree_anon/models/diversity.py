"""l-diversity in its three forms: every group has several well-represented sensitive values.

A. Machanavajjhala, J. Gehrke, D. Kifer, M. Venkatasubramaniam: l-Diversity: Privacy beyond k-Anonymity, ICDE 2006.
A missing value counts as a value of its own. `on` is one column, or several, each of which has to satisfy the model.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtree_anon.models.base import Model, On
from rtree_anon.models.demands import Demand


@dataclass(frozen=True)
class DistinctLDiversity(Model):
    """Every group has at least l distinct values of the sensitive column."""

    l: int  # noqa: E741 - the name of the model
    on: On

    def __post_init__(self) -> None:
        self._check_at_least_one("l")
        self._check_on()

    def demands(self) -> tuple[Demand, ...]:
        """distinct values >= l"""
        return self._on_each("distinct_l", self.l)


@dataclass(frozen=True)
class EntropyLDiversity(Model):
    """In every group the entropy of the sensitive column is at least log(l): -sum p log p >= log(l)."""

    l: float  # noqa: E741
    on: On

    def __post_init__(self) -> None:
        self._check_number("l", 1.0)
        self._check_on()

    def demands(self) -> tuple[Demand, ...]:
        """exp(entropy) >= l"""
        return self._on_each("entropy_l", self.l)


@dataclass(frozen=True)
class RecursiveCLDiversity(Model):
    """In every group r1 < c (r_l + r_l+1 + ... + r_m), with r the counts of the m sensitive values, largest first."""

    c: float
    l: int  # noqa: E741
    on: On

    def __post_init__(self) -> None:
        self._check_number("c", 0.0, above=True)
        self._check_at_least_one("l")
        self._check_on()

    def demands(self) -> tuple[Demand, ...]:
        """r1 < c (r_l + ... + r_m)"""
        return self._on_each("recursive", (self.c, self.l))
