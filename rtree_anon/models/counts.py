"""Models that count rows: k-anonymity, and (alpha, k)-anonymity, which also bounds the most frequent value."""

from __future__ import annotations

from dataclasses import dataclass

from rtree_anon.models.base import Model, On
from rtree_anon.models.demands import Demand


@dataclass(frozen=True)
class KAnonymity(Model):
    """Every group has at least k rows.

    P. Samarati, L. Sweeney: Protecting privacy when disclosing information, 1998. Where people have several rows, use
    `IdentityKAnonymity`: k rows may be those of one person.
    """

    k: int

    def __post_init__(self) -> None:
        self._check_at_least_one("k")

    def demands(self) -> tuple[Demand, ...]:
        """rows >= k"""
        return (Demand("rows", self.k),)


@dataclass(frozen=True)
class AlphaKAnonymity(Model):
    """Every group has at least k rows, and no sensitive value has more than a share alpha of them: max p <= alpha.

    R. C.-W. Wong, J. Li, A. W.-C. Fu, K. Wang: (α, k)-anonymity, KDD 2006. This is the paper's general model, which
    bounds every value. `on` is one column, or several, each of which has to satisfy it.
    """

    alpha: float
    k: int
    on: On

    def __post_init__(self) -> None:
        self._check_number("alpha", 0.0, 1.0, above=True)
        self._check_at_least_one("k")
        self._check_on()

    def demands(self) -> tuple[Demand, ...]:
        """rows >= k and max p <= alpha"""
        return (Demand("rows", self.k), *self._on_each("alpha", self.alpha))
