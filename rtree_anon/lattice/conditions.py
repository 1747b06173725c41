"""Privacy models as conditions on groups, and when they allow the lattice to be pruned.

Searching a lattice skips generalizations whose answer follows from others. That needs one of two properties:

* *mergeable*: if two groups satisfy the model, so does their union. All models here are. It makes "every group
  satisfies the model" monotone along the lattice, which is what pruning needs when no row may be suppressed.
* *closed upward*: if a group satisfies the model, so does every group that contains it. Only this keeps the number of
  rows to suppress from growing as values are generalized (Samarati, Theorem 5.2). k-anonymity, distinct l-diversity
  and the identity-reserved k and (k,l) have it; entropy, recursive (c,l), t, alpha and (alpha,beta) do not: a group
  that satisfies them can be spoilt by rows that were suppressed before.

Models are recognized by the names of their class and of their fields, so that this module works with the public models
and with any object that looks like one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import UsageError
from rtree_anon.lattice.groups import Groups

IDENTITY = "\0identity"  # the name of the identity column inside the search; no column of a table is called so

Test = Callable[[Groups], NDArray[np.bool_]]

_ROUNDING = 1e-12  # a share computed in floating point may miss its bound by less than this


@dataclass(frozen=True)
class Condition:
    """What every released group must satisfy: all of `tests`."""

    name: str
    tests: tuple[Test, ...]
    columns: tuple[str, ...]  # the columns that the tests look at, besides the quasi-identifiers
    closed_upward: bool
    least_rows: int  # no smaller group can satisfy it
    only_k: bool = False  # nothing but the number of rows counts

    def holds(self, groups: Groups) -> NDArray[np.bool_]:
        """For each group, whether it may be released."""
        answer = groups.sizes >= self.least_rows
        for test in self.tests:
            answer &= test(groups)
        return answer


def condition_of(k: int | None, model: Any, *, has_identity: bool) -> Condition:
    """The condition of k (of individuals where there is an identity) and of a privacy model, several, or none."""
    conditions = [_single(part) for part in _parts(model)]
    if k is not None:
        conditions.append(_individuals(k) if has_identity else _rows(k))
    if not conditions:
        raise UsageError("give k or a privacy model: without either, every table is anonymous")
    return Condition(
        name=" & ".join(condition.name for condition in conditions),
        tests=tuple(test for condition in conditions for test in condition.tests),
        columns=tuple(dict.fromkeys(column for condition in conditions for column in condition.columns)),
        closed_upward=all(condition.closed_upward for condition in conditions),
        least_rows=max(condition.least_rows for condition in conditions),
        only_k=all(condition.only_k for condition in conditions),
    )


def _parts(model: Any) -> Iterable[Any]:
    """The single models of a combination: a list, or an object with `parts`."""
    if model is None:
        return
    nested = model if isinstance(model, list | tuple) else getattr(model, "parts", None)
    if nested is None:
        yield model
        return
    for part in nested:
        yield from _parts(part)


def _single(model: Any) -> Condition:
    maker = _MAKERS.get(type(model).__name__)
    if maker is None:
        raise UsageError(f"the lattice does not know the privacy model {model!r}; known are {', '.join(_MAKERS)}")
    return maker(model)


def _on(model: Any) -> str:
    column = model.on
    if not isinstance(column, str):
        raise UsageError(f"{type(model).__name__} needs the name of one sensitive column, not {column!r}")
    return column


def _rows(k: Any) -> Condition:
    return Condition(f"{k}-anonymity", (), (), True, _at_least_one(k, "k"), only_k=True)


def _individuals(k: Any) -> Condition:
    least = _at_least_one(k, "k")
    return Condition(f"identity {k}-anonymity", (lambda g: g.distinct(IDENTITY) >= least,), (IDENTITY,), True, least)


def _distinct_l(model: Any) -> Condition:
    on, least = _on(model), _at_least_one(model.l, "l")
    return Condition(f"distinct {least}-diversity of {on}", (lambda g: g.distinct(on) >= least,), (on,), True, least)


def _identity_kl(model: Any) -> Condition:
    on, k, least = _on(model), _at_least_one(model.k, "k"), _at_least_one(model.l, "l")
    tests = (lambda g: g.distinct(IDENTITY) >= k, lambda g: g.distinct(on) >= least)
    return Condition(f"identity ({k},{least})-diversity of {on}", tests, (IDENTITY, on), True, max(k, least))


def _identity_alpha_beta(model: Any) -> Condition:
    on, alpha, beta = _on(model), _share(model.alpha, "alpha"), _share(model.beta, "beta")
    tests = (
        lambda g: g.largest_share(IDENTITY) <= alpha + _ROUNDING,
        lambda g: g.largest_share(on) <= beta + _ROUNDING,
    )
    return Condition(f"identity ({alpha},{beta})-anonymity of {on}", tests, (IDENTITY, on), False, 1)


def _alpha_k(model: Any) -> Condition:
    on, alpha, k = _on(model), _share(model.alpha, "alpha"), _at_least_one(model.k, "k")
    test: Test = lambda g: g.largest_share(on) <= alpha + _ROUNDING  # noqa: E731
    return Condition(f"({alpha},{k})-anonymity of {on}", (test,), (on,), False, k)


def _entropy_l(model: Any) -> Condition:
    on, least = _on(model), float(model.l)
    if not least >= 1:
        raise UsageError(f"l must be at least 1, not {model.l!r}")

    def test(groups: Groups) -> NDArray[np.bool_]:
        cells = groups.cells(on)
        share = cells.n_rows / groups.sizes[cells.group]
        entropy = np.bincount(cells.group, weights=-share * np.log(share), minlength=len(groups.sizes))
        return np.asarray(entropy >= np.log(least) - _ROUNDING)

    return Condition(f"entropy {least:g}-diversity of {on}", (test,), (on,), False, 1)


def _recursive_cl(model: Any) -> Condition:
    on, c, least = _on(model), float(model.c), _at_least_one(model.l, "l")

    def test(groups: Groups) -> NDArray[np.bool_]:
        """r1 < c (r_l + … + r_m) with the counts r of the values in falling order."""
        cells = groups.cells(on)
        order = np.lexsort((-cells.n_rows, cells.group))
        group, count = cells.group[order], cells.n_rows[order]
        starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]]) if len(group) else np.empty(0, np.int64)
        rank = np.arange(len(group)) - np.repeat(starts, np.diff(np.r_[starts, len(group)]))
        tail = np.bincount(group, weights=np.where(rank >= least - 1, count, 0), minlength=len(groups.sizes))
        most = np.zeros(len(groups.sizes))
        most[group[starts]] = count[starts]
        answer: NDArray[np.bool_] = most < c * tail
        return answer

    return Condition(f"recursive ({c:g},{least})-diversity of {on}", (test,), (on,), False, least)


def _t_closeness(model: Any) -> Condition:
    on, t, distance = _on(model), float(model.t), getattr(model, "distance", "equal")
    if distance not in ("equal", "ordered"):
        raise UsageError(f"the distance of TCloseness is 'equal' or 'ordered', not {distance!r}")

    def test(groups: Groups) -> NDArray[np.bool_]:
        cells, whole = groups.cells(on), groups.table_shares(on)
        share = cells.n_rows / groups.sizes[cells.group]
        n_groups = len(groups.sizes)
        if distance == "equal":
            # half the sum of |p - q|; values that a group lacks contribute q, which is 1 minus the q of those it has
            present = np.bincount(cells.group, weights=np.abs(share - whole[cells.value]), minlength=n_groups)
            covered = np.bincount(cells.group, weights=whole[cells.value], minlength=n_groups)
            moved = (present + 1 - covered) / 2
        else:
            difference = np.broadcast_to(-whole, (n_groups, len(whole))).copy()
            difference[cells.group, cells.value] += share
            moved = np.abs(np.cumsum(difference, axis=1)).sum(axis=1) / max(len(whole) - 1, 1)
        return moved <= t + _ROUNDING

    return Condition(f"{t:g}-closeness of {on}", (test,), (on,), False, 1)


def _at_least_one(number: Any, name: str) -> int:
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
        raise UsageError(f"{name} must be a whole number of at least 1, not {number!r}")
    return int(number)


def _share(number: Any, name: str) -> float:
    if not 0 < float(number) <= 1:
        raise UsageError(f"{name} must be a share above 0 and at most 1, not {number!r}")
    return float(number)


_MAKERS: dict[str, Callable[[Any], Condition]] = {
    "KAnonymity": lambda model: _rows(model.k),
    "DistinctLDiversity": _distinct_l,
    "EntropyLDiversity": _entropy_l,
    "RecursiveCLDiversity": _recursive_cl,
    "TCloseness": _t_closeness,
    "AlphaKAnonymity": _alpha_k,
    "IdentityKAnonymity": lambda model: _individuals(model.k),
    "IdentityKLDiversity": _identity_kl,
    "IdentityAlphaBeta": _identity_alpha_beta,
}
