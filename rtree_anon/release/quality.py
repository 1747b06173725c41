"""How much a release still says: the measures of the R+-tree paper, section 5.3, and C_avg.

For N rows in groups P with generalized values of m attributes with weights w:

    certainty_sum        sum over rows and attributes of w * NCP                                  (Definition 4)
    certainty            certainty_sum / (N * sum of w): 0 exact .. 1 nothing is said
    discernibility       sum over groups of |P|**2                                                (Definition 3)
    average_class_size   (N / number of groups) / k                                               (LeFevre et al., 2006)
    kl_divergence        sum over distinct tuples t of p1(t) * log(p1(t) / p2(t)), natural log    (Definition 5)

NCP of a group on an attribute is its column's `penalty`. For the divergence (Kifer and Gehrke, SIGMOD 2006) p1(t) is
the share of the original rows that are equal to t, and p2 the distribution that the release leaves: each row spread
evenly over the cells (combinations of values) of its group's generalized value, so p2(t) = |P| / (N * cells(P)) for
the group P of t. Boxes of groups may touch the cells of others; only the tuple's own group is counted, which can only
make the figure larger. Cells are whole units (numbers, days, hundredths); a continuous float has no unit, so there the
values that occur in the table are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.release.columns import GroupColumn

_LARGEST_PRODUCT = 1e150  # times the cells of one more column, it is still a float


@dataclass(frozen=True)
class Sums:
    """What the measures are made of; the sums of parts of a release add up to those of the whole."""

    n_rows: int = 0
    n_groups: int = 0
    smallest_group: int | None = None
    penalty: float = 0.0  # over rows and attributes, weighted
    squares: float = 0.0  # of the groups' sizes
    surprise: float = 0.0  # N * kl_divergence; NaN where nothing is known of the original rows

    def __add__(self, other: Sums) -> Sums:
        smallest = [sums.smallest_group for sums in (self, other) if sums.smallest_group is not None]
        return Sums(
            self.n_rows + other.n_rows,
            self.n_groups + other.n_groups,
            min(smallest, default=None),
            self.penalty + other.penalty,
            self.squares + other.squares,
            self.surprise + other.surprise,
        )

    def measures(self, weights: Sequence[float], k: int) -> dict[str, float]:
        """The measures by name; `kl_divergence` is NaN where nothing is known of the original rows."""
        return {
            "certainty": self.penalty / (self.n_rows * sum(weights)),
            "certainty_sum": self.penalty,
            "discernibility": self.squares,
            "average_class_size": self.n_rows / self.n_groups / k,
            "kl_divergence": self.surprise / self.n_rows,
        }


def sums_of(
    columns: Sequence[GroupColumn],
    sizes: NDArray[np.int64],
    weights: Sequence[float],
    log_multiplicity: Callable[[], float] | None = None,
) -> Sums:
    """The sums of groups with these columns and sizes."""
    n_rows = sizes.astype(np.float64)
    penalty, logs, cells_per_row = 0.0, np.zeros(len(sizes)), 1.0 / n_rows
    for column, weight in zip(columns, weights, strict=True):
        of_column, most = column.weigh(n_rows, cells_per_row)
        penalty += weight * of_column
        if most > _LARGEST_PRODUCT:  # few logarithms: one for as many columns as a float can hold
            logs += np.log(cells_per_row)
            cells_per_row[:] = 1.0
    surprise = math.nan
    if log_multiplicity is not None:
        surprise = log_multiplicity() + float((n_rows * (logs + np.log(cells_per_row))).sum())
    squares = float((n_rows * n_rows).sum())
    return Sums(int(sizes.sum()), len(sizes), int(sizes.min()), penalty, squares, surprise)
