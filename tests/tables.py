"""Random coded tables for property tests: all kinds of axes, missing values, weights, ties, duplicates, wide codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from rtree_anon.space import Axis, Kind, Space, missing_code
from tests.naive import Row, code_of_float

INT32_LIMIT = 2**31 - 1
INT64_LIMIT = 2**63 - 1
FLAVOURS = ("linear", "limits", "wide", "float", "set", "span", "tree", "constant", "absent")
_NEEDS_INT64 = ("wide", "float")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows as codes of a space; what `build_tree` and `make_grid` take."""

    codes: NDArray[Any]
    space: Space

    @property
    def missing(self) -> int:
        return missing_code(self.codes.dtype)

    @cached_property
    def rows(self) -> list[Row]:
        return [tuple(row) for row in self.codes.tolist()]


@st.composite
def tables(
    draw: st.DrawFn,
    max_rows: int = 60,
    min_rows: int = 1,
    flavours: Sequence[str] = FLAVOURS,
    max_axes: int = 5,
    min_axes: int = 1,
) -> Table:
    """A table; the axes are drawn by Hypothesis (so they shrink), the values follow from a drawn seed."""
    n = draw(st.integers(min_rows, max_rows))
    chosen = draw(st.lists(st.sampled_from(flavours), min_size=min_axes, max_size=max_axes))
    wide = draw(st.booleans()) or any(flavour in _NEEDS_INT64 for flavour in chosen)
    gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.6]), min_size=len(chosen), max_size=len(chosen)))
    weights = draw(st.lists(st.sampled_from([1.0, 1.0, 0.25, 3.0]), min_size=len(chosen), max_size=len(chosen)))
    duplicates = draw(st.sampled_from([0.0, 0.0, 0.5, 0.9]))
    return make_table(
        draw(st.integers(0, 2**32)), n, chosen, gaps=gaps, weights=weights, duplicates=duplicates, wide=wide
    )


def make_table(
    seed: int,
    n: int,
    flavours: Sequence[str],
    *,
    gaps: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
    duplicates: float = 0.0,
    wide: bool = False,
) -> Table:
    """n rows with axes of these flavours; `gaps` are shares of missing values, `duplicates` of copies of row 0."""
    rng = np.random.default_rng(seed)
    gaps = gaps if gaps is not None else [0.0] * len(flavours)
    weights = weights if weights is not None else [1.0] * len(flavours)
    wide = wide or any(flavour in _NEEDS_INT64 for flavour in flavours)
    codes = np.empty((n, len(flavours)), np.int64 if wide else np.int32)
    axes = []
    for a, flavour in enumerate(flavours):
        column, details = _column(rng, flavour, n)
        absent = rng.random(n) < (1.0 if flavour == "absent" else gaps[a])
        codes[:, a] = np.where(absent, missing_code(codes.dtype), column)
        axes.append(Axis(name=f"{flavour}{a}", weight=weights[a], has_missing=bool(absent.any()), **details))
    copies = rng.random(n) < duplicates
    codes[copies] = codes[0]
    axes = [
        Axis(**{**vars(axis), "has_missing": bool((codes[:, a] == missing_code(codes.dtype)).any())})
        for a, axis in enumerate(axes)
    ]
    return Table(codes, Space(tuple(axes)))


def _column(rng: np.random.Generator, flavour: str, n: int) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Values of one axis, and the axis without its name: ties are common, values skewed."""
    n_values = int(rng.integers(1, max(2, min(n, 12)) + 1)) if rng.random() < 0.6 else n
    picks = np.minimum((n_values * rng.random(n) ** rng.choice([1.0, 3.0])).astype(np.int64), n_values - 1)
    if flavour in ("set", "span", "tree"):
        n_categories = int(rng.integers(2, 63 + 1)) if flavour == "set" else int(rng.integers(2, 200))
        column = rng.permutation(n_categories)[picks % n_categories].astype(np.int64)
        kind = {"set": Kind.SET, "span": Kind.SPAN, "tree": Kind.TREE}[flavour]
        details: dict[str, Any] = {"kind": kind, "lo": 0, "hi": n_categories - 1, "n_categories": n_categories}
        if flavour == "tree":
            details["ancestors"] = random_hierarchy(rng, n_categories)
        return column, details
    if flavour == "float":
        scale = rng.choice([1.0, 1e-3, 1e200])
        floats = np.where(rng.random(n_values) < 0.1, 0.0, rng.normal(size=n_values) * scale)
        values = np.array([code_of_float(value) for value in floats.tolist()], np.int64)
        return values[picks], {"kind": Kind.FLOAT, "lo": int(values.min()), "hi": int(values.max())}
    if flavour == "absent":
        return np.zeros(n, np.int64), {"kind": Kind.LINEAR, "lo": 1, "hi": 0}
    if flavour == "constant":
        value = int(rng.integers(-5, 5))
        return np.full(n, value, np.int64), {"kind": Kind.LINEAR, "lo": value, "hi": value}
    limit = {"linear": 40, "limits": INT32_LIMIT, "wide": INT64_LIMIT}[flavour]
    values = rng.integers(-limit, limit, n_values, endpoint=True)
    if flavour != "linear":  # both ends of the domain occur
        values[0], values[-1] = -limit, limit
    lo, hi = int(values.min()), int(values.max())
    if flavour == "linear":  # a domain may be wider than what occurs
        lo, hi = lo - int(rng.integers(0, 10)), hi + int(rng.integers(0, 10))
    return values[picks], {"kind": Kind.LINEAR, "lo": lo, "hi": hi}


def random_hierarchy(rng: np.random.Generator, n_leaves: int) -> NDArray[np.int32]:
    """Levels of ancestors above leaves in depth-first order: each level joins neighbours; the root may be left out."""
    levels = [np.arange(n_leaves, dtype=np.int32)]
    while levels[-1].max() > 0 and rng.random() < 0.9:
        n_below = int(levels[-1].max()) + 1
        begins = rng.random(n_below) < 0.4  # does a new parent begin at this node?
        begins[0] = False
        parent = np.cumsum(begins).astype(np.int32)
        levels.append(parent[levels[-1]])
    return np.stack(levels)
