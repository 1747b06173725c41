"""Cuts look ahead to the room that a model leaves: no side is used up early, and no tree gets deep for a few rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import rtree_anon as ra
from rtree_anon.kernels.room import dearer
from rtree_anon.models import Model
from rtree_anon.models.compiling import CodedColumn, compile_model
from rtree_anon.space import Axis, Kind, Space
from rtree_anon.tree import QUALITIES, build_tree
from rtree_anon.tree.build import LeafTree

N_ROWS = 40_000


def grown(points: NDArray[np.int64], sensitive: NDArray[np.int64], model: Model, quality: str) -> LeafTree:
    column = CodedColumn.of(sensitive.astype(np.int32), int(sensitive.max()) + 1)
    constraint = compile_model(model, {"s": column})
    space = Space(tuple(Axis(f"q{a}", Kind.LINEAR, 0, 999) for a in range(points.shape[1])))
    return build_tree(points.astype(np.int32), space, 5, quality=quality, constraint=constraint, threads=1)


@pytest.mark.parametrize("quality", QUALITIES)
def test_rare_values_in_a_corner_do_not_make_the_tree_deep(quality: str) -> None:
    """Every leaf needs one of 400 rows that lie in one corner: many leaves, and the tree stays far from a list."""
    rng = np.random.default_rng(1)
    points, sensitive = rng.integers(0, 1000, (N_ROWS, 4)), np.zeros(N_ROWS, np.int64)
    points[:400], sensitive[:400] = rng.integers(900, 1000, (400, 4)), 1
    tree = grown(points, sensitive, ra.DistinctLDiversity(2, "s"), quality)
    assert tree.n_leaves > 100
    assert tree.depth.max() < tree.n_leaves // 4


@pytest.mark.parametrize("quality", QUALITIES)
def test_no_side_is_used_up_where_it_can_be_avoided(quality: str) -> None:
    """The share of a value rises along the widest axis: cut there, one side has it as often as is allowed at most."""
    rng = np.random.default_rng(2)
    points = rng.integers(0, [1000, 900, 900], (N_ROWS, 3))
    sensitive = (rng.random(N_ROWS) < 0.1 + 0.4 * points[:, 0] / 1000).astype(np.int64)
    tree = grown(points, sensitive, ra.AlphaKAnonymity(0.76, 5, "s"), quality)
    assert tree.sizes.max() < N_ROWS // 100


def test_a_side_is_dearer_the_more_rows_its_groups_need() -> None:
    factors = [dearer(1000, 10, needed, 0.3) for needed in (0.0, 10.0, 20.0, 500.0, 1000.0, np.inf)]
    assert factors[0] == factors[1] == 1.0
    assert factors[1] < factors[2] < factors[3] < factors[4] == factors[5]
