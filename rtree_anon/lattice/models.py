"""Privacy models as plain values, for use with the lattice: `lattice.IdentityKAnonymity(2) & lattice.KAnonymity(5)`.

Only names and numbers; what they mean for a group is in `conditions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Model:
    """Base class: models combine with `&`."""

    def __and__(self, other: Any) -> AllOf:
        return AllOf((self, other))


@dataclass(frozen=True)
class AllOf(Model):
    """Every part must hold."""

    parts: tuple[Any, ...]


@dataclass(frozen=True)
class KAnonymity(Model):
    """At least k rows."""

    k: int


@dataclass(frozen=True)
class DistinctLDiversity(Model):
    """At least l distinct values of the sensitive column."""

    l: int  # noqa: E741 - the name of the model
    on: str


@dataclass(frozen=True)
class EntropyLDiversity(Model):
    """Entropy of the sensitive column of at least log(l)."""

    l: float  # noqa: E741
    on: str


@dataclass(frozen=True)
class RecursiveCLDiversity(Model):
    """r1 < c (r_l + … + r_m) for the counts r of the sensitive values in falling order."""

    c: float
    l: int  # noqa: E741
    on: str


@dataclass(frozen=True)
class TCloseness(Model):
    """The sensitive column's distribution is within t of the table's (earth mover's distance)."""

    t: float
    on: str
    distance: str = "equal"


@dataclass(frozen=True)
class AlphaKAnonymity(Model):
    """At least k rows, and no sensitive value in more than a share alpha of them."""

    alpha: float
    k: int
    on: str


@dataclass(frozen=True)
class IdentityKAnonymity(Model):
    """At least k individuals (Protecting the Publishing Identity in Multiple Tuples, Definition 2)."""

    k: int


@dataclass(frozen=True)
class IdentityKLDiversity(Model):
    """At least k individuals and l distinct sensitive values (Definition 3 there)."""

    k: int
    l: int  # noqa: E741
    on: str


@dataclass(frozen=True)
class IdentityAlphaBeta(Model):
    """No individual in more than a share alpha of the rows, no sensitive value in more than beta (Definition 4)."""

    alpha: float
    beta: float
    on: str
