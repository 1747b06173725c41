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

import numpy as np
from numpy.typing import NDArray

from rtree_anon.release.columns import GroupColumn


def measure(
    columns: Sequence[GroupColumn],
    sizes: NDArray[np.int64],
    weights: Sequence[float],
    k: int,
    log_multiplicity: Callable[[], float] | None = None,
) -> dict[str, float]:
    """The measures by name; `kl_divergence` is NaN where nothing is known of the original rows."""
    n_rows = int(sizes.sum())
    total = sum(weight * float((column.penalty * sizes).sum()) for column, weight in zip(columns, weights, strict=True))
    divergence = math.nan
    if log_multiplicity is not None:
        log_cells = sum(np.log(column.cells) for column in columns)
        spread = float((sizes * (log_cells - np.log(sizes))).sum())
        divergence = (log_multiplicity() + spread) / n_rows
    return {
        "certainty": total / (n_rows * sum(weights)),
        "certainty_sum": total,
        "discernibility": float((sizes.astype(np.float64) ** 2).sum()),
        "average_class_size": n_rows / len(sizes) / k,
        "kl_divergence": divergence,
    }
