"""Privacy models as conditions on groups, and when they allow the lattice to be pruned.

A model is a conjunction of demands (`rtree_anon.models.demands`, which has the formulas); a condition is their tests on
the statistics of groups. Searching a lattice skips generalizations whose answer follows from others. That needs one of
two properties:

* *mergeable*: if two groups satisfy the model, so does their union. All models are. It makes "every group satisfies
  the model" monotone along the lattice, which is what pruning needs when no row may be suppressed.
* *closed upward*: if a group satisfies the model, so does every group that contains it. Only this keeps the number of
  rows to suppress from growing as values are generalized (Samarati, Theorem 5.2). k-anonymity, distinct l-diversity
  and the identity-reserved k and (k,l) have it; the others do not: a group that satisfies them can be spoilt by rows
  that were suppressed before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import UsageError
from rtree_anon.kernels.constraint import ROUNDING
from rtree_anon.lattice.groups import Cells, Groups
from rtree_anon.models import Demand, IdentityKAnonymity, KAnonymity, Model
from rtree_anon.models.demands import ABOUT_PEOPLE, CLOSED_UPWARD

IDENTITY = "\0identity"  # the name of the identity column inside the search; no column of a table is called so

Answers = NDArray[np.bool_]  # one per group
Test = Callable[[Groups], Answers]


@dataclass(frozen=True)
class Condition:
    """What every released group must satisfy: all of `tests`."""

    name: str
    tests: tuple[Test, ...]
    columns: tuple[str, ...]  # the columns that the tests look at, besides the quasi-identifiers
    closed_upward: bool
    least_rows: int  # no smaller group can satisfy it
    only_k: bool  # nothing but the number of rows counts

    def holds(self, groups: Groups) -> Answers:
        """For each group, whether it may be released."""
        answer = groups.sizes >= self.least_rows
        for test in self.tests:
            answer &= test(groups)
        return answer


def condition_of(k: int | None, model: Model | None, *, has_identity: bool) -> Condition:
    """The condition of k (of individuals where there is an identity) and of a privacy model."""
    if model is not None and not isinstance(model, Model):
        raise UsageError(f"model is a privacy model such as DistinctLDiversity(3, on='disease'), not {model!r}")
    asked = [] if k is None else [IdentityKAnonymity(k) if has_identity else KAnonymity(k)]
    parts: list[Model] = [*asked, *(model.parts if model is not None else ())]
    if not parts:
        raise UsageError("give k or a privacy model: without either, every table is anonymous")
    demands = [demand for part in parts for demand in part.demands()]
    return Condition(
        name=" & ".join(map(str, parts)),
        tests=tuple(_test(demand) for demand in demands if demand.quantity != "rows"),
        columns=tuple(dict.fromkeys(_column(demand) for demand in demands if demand.quantity != "rows")),
        closed_upward=all(demand.quantity in CLOSED_UPWARD for demand in demands),
        least_rows=max(_least_rows(demand) for demand in demands),
        only_k=all(demand.quantity == "rows" for demand in demands),
    )


def _column(demand: Demand) -> str:
    return IDENTITY if demand.quantity in ABOUT_PEOPLE else str(demand.column)


def _test(demand: Demand) -> Test:
    maker = _TESTS.get(demand.quantity)
    if maker is None:
        raise UsageError(f"the lattice cannot search for a model that asks for {demand.quantity!r}")
    return maker(_column(demand), demand.bound)


def _least_rows(demand: Demand) -> int:
    bound, least = (demand.bound, 0) if not isinstance(demand.bound, tuple) else demand.bound
    match demand.quantity:
        case "rows" | "people" | "distinct_l":
            return int(bound)
        case "entropy_l":
            return ceil(bound - 1e-9)
        case "alpha" | "individual_alpha":
            return ceil((1 - 1e-9) / bound)
        case "recursive":
            return int(least)
    return 1


def _distinct(on: str, least: Any) -> Test:
    return lambda groups: groups.distinct(on) >= least


def _largest_share(on: str, most: Any) -> Test:
    return lambda groups: groups.largest_share(on) <= most * (1 + ROUNDING)


def _entropy(on: str, least: Any) -> Test:
    def test(groups: Groups) -> Answers:
        cells = groups.cells(on)
        share = cells.n_rows / groups.sizes[cells.group]
        entropy = np.bincount(cells.group, weights=-share * np.log(share), minlength=len(groups.sizes))
        return np.asarray(entropy >= np.log(least) - ROUNDING)

    return test


def _recursive(on: str, bound: Any) -> Test:
    c, least = bound

    def test(groups: Groups) -> Answers:
        """r1 < c (r_l + … + r_m) with the counts r of the values in falling order."""
        cells = groups.cells(on)
        order = np.lexsort((-cells.n_rows, cells.group))
        group, count = cells.group[order], cells.n_rows[order]
        starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]]) if len(group) else np.empty(0, np.int64)
        rank = np.arange(len(group)) - np.repeat(starts, np.diff(np.r_[starts, len(group)]))
        tail = np.bincount(group, weights=np.where(rank >= least - 1, count, 0), minlength=len(groups.sizes))
        most = np.zeros(len(groups.sizes))
        most[group[starts]] = count[starts]
        return np.asarray(most < c * tail * (1 - ROUNDING))

    return test


def _moved(on: str, most: Any) -> Test:
    def test(groups: Groups) -> Answers:
        """Half the sum of |p - q|; values that a group lacks contribute q, which is 1 minus the q of those it has."""
        cells, whole = groups.cells(on), groups.table_shares(on)
        share, n_groups = cells.n_rows / groups.sizes[cells.group], len(groups.sizes)
        present = np.bincount(cells.group, weights=np.abs(share - whole[cells.value]), minlength=n_groups)
        covered = np.bincount(cells.group, weights=whole[cells.value], minlength=n_groups)
        return np.asarray((present + 1 - covered) / 2 <= most + ROUNDING)

    return test


def _moved_in_order(on: str, most: Any) -> Test:
    def test(groups: Groups) -> Answers:
        cells, whole = groups.cells(on), groups.table_shares(on)
        difference = np.broadcast_to(-whole, (len(groups.sizes), len(whole))).copy()
        difference[cells.group, cells.value] += cells.n_rows / groups.sizes[cells.group]
        moved = np.abs(np.cumsum(difference, axis=1)).sum(axis=1) / max(len(whole) - 1, 1)
        return np.asarray(moved <= most + ROUNDING)

    return test


def _likeness(on: str, beta: Any) -> Test:
    return lambda groups: _below(groups, groups.cells(on), groups.table_shares(on) * (1 + beta) * (1 + ROUNDING))


def _enhanced_likeness(on: str, beta: Any) -> Test:
    def test(groups: Groups) -> Answers:
        whole = groups.table_shares(on)
        gain = np.minimum(beta, -np.log(whole))
        return _below(groups, groups.cells(on), whole * (1 + gain) * (1 + ROUNDING))

    return test


def _disclosure(on: str, delta: Any) -> Test:
    def test(groups: Groups) -> Answers:
        """q / e^delta < p < q e^delta for every value of the table, so none may be lacking."""
        cells, whole = groups.cells(on), groups.table_shares(on)
        too_rare = cells.n_rows < whole[cells.value] * np.exp(-delta) * (1 + ROUNDING) * groups.sizes[cells.group]
        n_too_rare = np.bincount(cells.group, weights=too_rare, minlength=len(groups.sizes))
        below = _below(groups, cells, whole * np.exp(delta) * (1 - ROUNDING))
        return np.asarray(below & (n_too_rare == 0) & (groups.distinct(on) == len(whole)))

    return test


def _below(groups: Groups, cells: Cells, most: NDArray[np.float64]) -> Answers:
    """Whether no value of a group has more than its share `most`, by value."""
    exceeds = cells.n_rows > most[cells.value] * groups.sizes[cells.group]
    return np.asarray(np.bincount(cells.group, weights=exceeds, minlength=len(groups.sizes)) == 0)


_TESTS: dict[str, Callable[[str, Any], Test]] = {
    "people": _distinct,
    "distinct_l": _distinct,
    "alpha": _largest_share,
    "individual_alpha": _largest_share,
    "entropy_l": _entropy,
    "recursive": _recursive,
    "t": _moved,
    "t_ordered": _moved_in_order,
    "beta": _likeness,
    "beta_enhanced": _enhanced_likeness,
    "delta": _disclosure,
}
