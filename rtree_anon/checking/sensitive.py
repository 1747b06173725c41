"""What the groups of a table give away about one sensitive column. Missing is a value of its own.

With p the shares of the values in a group and q those in the whole table:

    distinct l        values in the group                                         Machanavajjhala et al. 2006
    entropy l         exp(-sum p ln p)                                            the same
    recursive (c,l)   r1 < c (r_l + r_l+1 + ... ), r sorted counts, largest first the same
    t, equal          sum |p - q| / 2                                             Li, Li, Venkatasubramanian 2007
    t, ordered        sum_i |sum_{j<=i} (p_j - q_j)| / (m - 1), m values in order the same
    alpha             max p                                                       Wong et al. 2006
    beta, basic       max (p - q) / q over values with p > q                      Cao, Karras 2012
    beta, enhanced    the same, where also (p - q) / q <= -ln q has to hold       the same
    delta             max |ln(p / q)| over all values of the table                Brickell, Shmatikov 2008

A table has the value of its worst group: the smallest l, the largest of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.checking.columns import Coded
from rtree_anon.checking.grouping import Grouping, Tally, tally
from rtree_anon.errors import UsageError

Floats = NDArray[np.float64]
_ROUNDING = 1e-12  # relative; how far two ways to compute the same real number may lie apart


@dataclass(frozen=True, eq=False)
class SensitiveReport:
    """One sensitive column: the table's figures, and the same per group (`..._per_group`, in the groups' order)."""

    name: str
    n_values: int
    _tally: Tally
    _sizes: NDArray[np.int64]
    _totals: NDArray[np.int64]  # rows of the whole table per value, in value order

    @property
    def distinct_l(self) -> int:
        """Fewest distinct values in a group."""
        return int(self.distinct_per_group.min())

    @property
    def entropy_l(self) -> float:
        """exp of the smallest entropy of a group: the table has entropy l-diversity for every l up to this."""
        return float(self.entropy_l_per_group.min())

    def recursive_c(self, ell: int) -> float:
        """The table is recursive (c,l)-diverse for every c *above* this; infinity where no c is enough."""
        return float(self.recursive_c_per_group(ell).max())

    def recursive_l(self, c: float) -> int:
        """The largest l for which the table is recursive (c,l)-diverse; 0 where it is not even for l = 1."""
        # r1 / (r_l + ...) grows with l, so the answer can be bisected; beyond distinct_l it is infinite
        enough, too_much = 0, self.distinct_l + 1
        while too_much - enough > 1:
            middle = (enough + too_much) // 2
            if self.recursive_c(middle) < c:
                enough = middle
            else:
                too_much = middle
        return enough

    @property
    def t(self) -> float:
        """Largest distance of a group's distribution from the table's; all values equally far from each other."""
        return float(self.t_per_group.max())

    @property
    def t_ordered(self) -> float:
        """The same with values as far from each other as their ranks (missing comes first)."""
        return float(self.t_ordered_per_group.max())

    @property
    def alpha(self) -> float:
        """Largest share of one value in a group."""
        return float(self.alpha_per_group.max())

    @property
    def beta(self) -> float:
        """Smallest beta for which the table has basic beta-likeness."""
        return max(0.0, float(self._gains.max()))

    @property
    def beta_enhanced(self) -> float:
        """Smallest beta for which the table has enhanced beta-likeness; infinity where no beta is enough."""
        bound = -np.log(self._shares_in_table)
        return self.beta if bool((self._gains <= bound + _ROUNDING).all()) else np.inf

    @property
    def delta(self) -> float:
        """The table is delta-disclosure private for every delta above this; infinity where a group lacks a value."""
        return self.delta_present if self.distinct_l == self.n_values else np.inf

    @property
    def delta_present(self) -> float:
        """The same over the values that a group has, which is how some tools read the definition."""
        return float(np.abs(np.log1p(self._gains)).max())

    @property
    def distinct_per_group(self) -> NDArray[np.int64]:
        """Distinct values."""
        return self._tally.distinct

    @cached_property
    def entropy_l_per_group(self) -> Floats:
        """exp of the entropy, to 12 decimals, so that three equal shares give 3 and not a hair less."""
        entropy = -self._sum(self._shares * np.log(self._shares))
        return np.exp(entropy).round(12)

    def recursive_c_per_group(self, ell: int) -> Floats:
        """r1 / (r_l + r_l+1 + ...), infinity in groups with fewer than l values."""
        if ell < 1:
            raise UsageError(f"l must be 1 or more, not {ell}.")
        largest, running = self._descending
        before = self._tally.starts + (ell - 2)  # the entry up to which r1 .. r_l-1 are summed
        enough = self.distinct_per_group >= ell
        top = running[before[enough]] if ell > 1 else np.zeros(int(enough.sum()), dtype=np.int64)
        ratio = np.full(len(self._sizes), np.inf)
        ratio[enough] = largest[enough] / (self._sizes[enough] - top)
        return ratio

    @cached_property
    def t_per_group(self) -> Floats:
        """Equal distance: half the sum of differences; where the group lacks a value, by its share in the table."""
        lacking = 1.0 - self._sum(self._shares_in_table)
        distance = (self._sum(np.abs(self._shares - self._shares_in_table)) + lacking) / 2
        return np.maximum(distance, 0.0)

    @cached_property
    def t_ordered_per_group(self) -> Floats:
        """Ordered distance, from the cumulative shares P of the group and Q of the table.

        Between two values that a group has, P stays the same while Q rises; so each such stretch adds P - Q up to where
        Q passes P, and Q - P from there on.
        """
        if self.n_values == 1:
            return np.zeros(len(self._sizes))
        counted = self._tally
        n_rows = int(self._totals.sum())
        cumulative = np.cumsum(self._totals)
        area = np.concatenate(([0], np.cumsum(cumulative)))  # area[i]: the sum of Q over the values before i, in rows
        sizes = self._sizes[counted.groups]
        up_to = _running_within(counted.counts, counted.starts)
        begin = counted.values
        end = np.append(begin[1:], 0)
        end[np.append(counted.starts[1:], len(begin)) - 1] = self.n_values
        crossing = np.searchsorted(cumulative, up_to * n_rows // sizes, side="right")
        crossing = np.clip(crossing, begin, end)
        above = up_to * (crossing - begin) / sizes - (area[crossing] - area[begin]) / n_rows
        below = (area[end] - area[crossing]) / n_rows - up_to * (end - crossing) / sizes
        before_first = area[begin[counted.starts]] / n_rows
        distance: Floats = (before_first + self._sum(above + below)) / (self.n_values - 1)
        return np.maximum(distance, 0.0)

    @cached_property
    def alpha_per_group(self) -> Floats:
        """Share of the most frequent value."""
        return np.maximum.reduceat(self._tally.counts, self._tally.starts) / self._sizes

    @cached_property
    def _shares(self) -> Floats:
        return self._tally.counts / self._sizes[self._tally.groups]

    @cached_property
    def _shares_in_table(self) -> Floats:
        """q, for each entry of the tally."""
        shares: Floats = self._totals[self._tally.values] / self._totals.sum()
        return shares

    @cached_property
    def _gains(self) -> Floats:
        """(p - q) / q for each entry of the tally."""
        return self._shares / self._shares_in_table - 1.0

    @cached_property
    def _descending(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Per group the largest count; per entry, counts sorted from the largest within groups, their running sum."""
        counts = self._tally.counts[np.lexsort((-self._tally.counts, self._tally.groups))]
        return counts[self._tally.starts], _running_within(counts, self._tally.starts)

    def _sum(self, entries: Floats) -> Floats:
        total: Floats = np.add.reduceat(entries, self._tally.starts)
        return total

    def to_dict(self) -> dict[str, Any]:
        """The figures, ready for JSON; None stands for infinity."""
        recursive = {str(ell): _finite(self.recursive_c(ell)) for ell in range(2, min(self.distinct_l, 10) + 1)}
        return {
            "values": self.n_values,
            "distinct_l": self.distinct_l,
            "entropy_l": self.entropy_l,
            "recursive_c_above": recursive,
            "t": self.t,
            "t_ordered": self.t_ordered,
            "alpha": self.alpha,
            "beta": self.beta,
            "beta_enhanced": _finite(self.beta_enhanced),
            "delta": _finite(self.delta),
            "delta_present": self.delta_present,
        }


def measure_sensitive(
    name: str, column: Coded, grouping: Grouping, totals: NDArray[np.int64] | None = None
) -> SensitiveReport:
    """Measure one sensitive column, coded in the order of its values; `totals` where they are not of these rows."""
    if totals is None:
        totals = np.zeros(column.n_codes, dtype=np.int64)
        np.add.at(totals, column.codes, 1 if grouping.weights is None else grouping.weights)
    return SensitiveReport(name, column.n_codes, tally(grouping, column), grouping.sizes, totals)


def _running_within(counts: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Running sums that begin anew in every group."""
    running = np.cumsum(counts)
    before = running[starts] - counts[starts]
    return running - np.repeat(before, np.diff(starts, append=len(counts)))


def _finite(figure: float) -> float | None:
    return None if np.isinf(figure) else figure
