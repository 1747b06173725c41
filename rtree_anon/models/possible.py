"""Whether a table can meet a model at all, and if not, what it could meet.

All models are mergeable (see `demands`): if any division of a table into groups satisfies a model, then so does the
whole table as one group. So the figures of the whole table are the best that is possible, and where they fall short, no
algorithm can help: the message says which model, the best value, and what to relax. t-closeness, beta-likeness and
delta-disclosure can always be met, if need be by a single group.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import PrivacyError
from rtree_anon.models.base import Model
from rtree_anon.models.demands import ABOUT_PEOPLE, Demand

Totals = NDArray[np.int64]


def require_possible(
    model: Model, n_rows: int, totals: Mapping[str, Totals], people: Totals | None = None, source: str = ""
) -> None:
    """Raise `PrivacyError` where no division of the table can satisfy the model.

    `totals` has for each column the rows of every value, `people` the rows of every person; what is about a column that
    is not given is not looked at.
    """
    for part in model.parts:
        for demand in part.demands():
            counts = people if demand.quantity in ABOUT_PEOPLE else totals.get(demand.column or "")
            shortfall = _shortfall(demand, n_rows, counts if counts is None else counts[counts > 0])
            if shortfall:
                where = f"{source}: " if source else ""
                raise PrivacyError(
                    f"{where}{part} cannot be met, not even with the whole table as one group: {shortfall}"
                )


def _shortfall(demand: Demand, n_rows: int, counts: Totals | None) -> str:
    """What the table lacks and what to relax; empty where it lacks nothing."""
    if demand.quantity == "rows":
        if n_rows < _bound(demand):
            return f"it has {n_rows:,} rows. Use a k of at most {n_rows:,}, or more rows."
        return ""
    if counts is None:
        return ""
    largest = int(counts.max(initial=0))
    match demand.quantity:
        case "people" if len(counts) < _bound(demand):
            return f"it has {len(counts):,} people. Use a k of at most {len(counts):,}, or more people."
        case "distinct_l" if len(counts) < _bound(demand):
            return (
                f"it has {len(counts):,} distinct values of {demand.column!r}. Use an l of at most {len(counts):,}, or "
                "leave this model out."
            )
        case "entropy_l":
            share = counts / n_rows
            best = float(np.exp(-(share * np.log(share)).sum()))
            if best < _bound(demand) * (1 - 1e-12):
                return f"its entropy l of {demand.column!r} is {_down(best)}. Use an l of at most that."
        case "recursive":
            c, ell = demand.bound  # type: ignore[misc]
            if len(counts) < ell:
                return f"it has {len(counts):,} distinct values of {demand.column!r}. Use an l of at most that."
            tail = int(np.sort(counts)[::-1][ell - 1 :].sum())
            if not largest < c * tail:
                return (
                    f"its most frequent value of {demand.column!r} has {largest:,} rows, those from the "
                    f"{_ordinal(ell)} on have {tail:,}. Use a c above {_up(largest / tail)}, or a smaller l."
                )
        case "alpha" if largest > _bound(demand) * n_rows * (1 + 1e-12):
            return (
                f"the most frequent value of {demand.column!r} has a share of {_up(largest / n_rows)}. Allow at least "
                "that share, or leave this model out."
            )
        case "individual_alpha" if largest > _bound(demand) * n_rows * (1 + 1e-12):
            return f"one person has a share of {_up(largest / n_rows)} of the rows. Allow at least that share."
    return ""


def _bound(demand: Demand) -> float:
    assert not isinstance(demand.bound, tuple)
    return demand.bound


def _ordinal(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else endings.get(number % 10, 'th')}"


def _up(figure: float) -> str:
    """Rounded up to 4 decimals, so that what the message names really suffices."""
    return f"{np.ceil(figure * 1e4 - 1e-9) / 1e4:.4f}"


def _down(figure: float) -> str:
    return f"{np.floor(figure * 1e4 + 1e-9) / 1e4:.4f}"
