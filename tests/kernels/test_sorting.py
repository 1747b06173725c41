"""Sorting of distinct keys, on both sides of the switch from counting to merging."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.sorting import sort_distinct


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=300))
def test_keys_come_out_in_order(keys: list[int]) -> None:
    out = np.zeros(len(keys), np.int64)
    sort_distinct(np.array(keys, np.int64), len(keys), out)
    assert out.tolist() == sorted(keys)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 127, 128, 129, 192, 193, 256, 257, 1000, 5000])
def test_any_number_of_runs_is_merged(n: int) -> None:
    keys = np.random.default_rng(n).permutation(n).astype(np.int64)
    out = np.full(n + 3, -1, np.int64)
    sort_distinct(keys, n, out)
    assert out.tolist() == [*range(n), -1, -1, -1]
