"""Models for tables in which a person has several rows: groups are counted in people.

Y. Tao, Y. Tong, S. Tan, S. Tang, D. Yang: Protecting the Publishing Identity in Multiple Tuples, DBSec 2008 ("the
identity paper"). The schema's `identity` says whose row it is; rows without a person belong to one and the same unknown
person, so that they never make a group look larger than it is. A person's rows with the same quasi-identifiers are
always in the same group, because every cut is between values.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtree_anon.models.base import Model, On
from rtree_anon.models.demands import Demand


@dataclass(frozen=True)
class IdentityKAnonymity(Model):
    """Every group has rows of at least k different people (Definition 2 of the identity paper)."""

    k: int

    def __post_init__(self) -> None:
        self._check_at_least_one("k")

    def demands(self) -> tuple[Demand, ...]:
        """people >= k"""
        return (Demand("people", self.k),)


@dataclass(frozen=True)
class IdentityKLDiversity(Model):
    """Every group has at least k different people and l distinct sensitive values (Definition 3 there)."""

    k: int
    l: int  # noqa: E741 - the name of the model
    on: On

    def __post_init__(self) -> None:
        self._check_at_least_one("k")
        self._check_at_least_one("l")
        self._check_on()

    def demands(self) -> tuple[Demand, ...]:
        """people >= k and distinct values >= l"""
        return (Demand("people", self.k), *self._on_each("distinct_l", self.l))


@dataclass(frozen=True)
class IdentityAlphaBeta(Model):
    """No person has more than a share alpha of a group's rows, no sensitive value more than beta (Definition 4)."""

    alpha: float
    beta: float
    on: On

    def __post_init__(self) -> None:
        self._check_number("alpha", 0.0, 1.0, above=True)
        self._check_number("beta", 0.0, 1.0, above=True)
        self._check_on()

    def demands(self) -> tuple[Demand, ...]:
        """largest share of a person <= alpha and max p <= beta"""
        return (Demand("individual_alpha", self.alpha), *self._on_each("alpha", self.beta))
