"""How often equal points occur, counted leaf by leaf, is how often they occur in the table."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.multiplicity import log_multiplicities
from rtree_anon.tree import QUALITIES, build_tree
from tests.tables import Table, tables


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(1, 6), st.sampled_from(QUALITIES))
def test_equal_points_are_counted_across_the_table(table: Table, k: int, quality: str) -> None:
    tree = build_tree(table.codes, table.space, k, quality=quality, threads=1)
    expected = sum(count * math.log(count) for count in Counter(table.rows).values())
    assert log_multiplicities(tree.rows, tree.starts) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_large_leaf_is_counted_as_small_ones_are() -> None:
    rng = np.random.default_rng(3)
    points = rng.integers(0, 12, (3000, 3)).astype(np.int32)
    rows = np.column_stack((points, np.arange(len(points), dtype=np.int32)))
    expected = sum(count * math.log(count) for count in Counter(map(tuple, points.tolist())).values())
    assert log_multiplicities(rows, np.array([0, len(rows)])) == pytest.approx(expected, rel=1e-12)
