"""Several rows per person: how many people stand behind the rows of a group.

The identity-reserved models of Tao, Tong, Tan, Tang and Yang, "Protecting the publishing identity in multiple tuples"
(2008), Section 3.2: k people per group (Definition 2), k people and l sensitive values (Definition 3), and shares of at
most alpha for one person's rows and beta for one sensitive value's rows (Definition 4). The unions of Definitions 2
and 3 are taken over the rows of the group, as the paper's own examples do. Rows whose person is missing count as one
person, the careful reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.checking.columns import Coded
from rtree_anon.checking.grouping import Grouping, Tally, tally


@dataclass(frozen=True, eq=False)
class IdentityReport:
    """People per group."""

    name: str
    n_individuals: int
    _tally: Tally
    _sizes: NDArray[np.int64]

    @property
    def k(self) -> int:
        """Fewest people behind a group."""
        return int(self.individuals_per_group.min())

    @property
    def alpha(self) -> float:
        """Largest share of a group's rows that belongs to one person."""
        return float(self.alpha_per_group.max())

    @property
    def individuals_per_group(self) -> NDArray[np.int64]:
        """Distinct people."""
        return self._tally.distinct

    @cached_property
    def alpha_per_group(self) -> NDArray[np.float64]:
        """Share of the person with most rows."""
        return np.maximum.reduceat(self._tally.counts, self._tally.starts) / self._sizes

    def vulnerable(self, k: int) -> NDArray[np.bool_]:
        """Per group: at least k rows, but fewer than k people. Ordinary k-anonymity would let it pass (Section 5)."""
        return (self._sizes >= k) & (self.individuals_per_group < k)

    @property
    def n_single(self) -> int:
        """Groups with one person only."""
        return int((self.individuals_per_group == 1).sum())

    def to_dict(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        return {
            "column": self.name,
            "individuals": self.n_individuals,
            "k": self.k,
            "alpha": self.alpha,
            "single_individual_groups": self.n_single,
        }


def measure_identity(name: str, column: Coded, grouping: Grouping) -> IdentityReport:
    """Measure the people behind the groups."""
    n_individuals = int(np.count_nonzero(np.bincount(column.codes, minlength=column.n_codes)))
    return IdentityReport(name, n_individuals, tally(grouping, column), grouping.sizes)
