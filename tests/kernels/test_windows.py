"""The cheapest group of a window against a loop over all of them, one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.windows import WINDOW_LANES, cheapest_group


@kernel
def call(ends, tail, extra, best, before, bottom, first, end, rows, k1):  # type: ignore[no-untyped-def]
    return cheapest_group(ends, tail, extra, best, before, bottom, first, end, rows, k1)  # type: ignore[call-arg]


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(0, 4),
    st.integers(1, 40),
    st.integers(0, 12),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.booleans(),
)
def test_no_group_of_the_window_is_cheaper(
    seed: int, n_axes: int, n_unions: int, bottom: int, infinite: float, coarse: bool
) -> None:
    """`coarse` numbers make many groups cost the same: then the shortest is taken."""
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray:
        return rng.integers(0, 3, shape).astype(float) if coarse else rng.random(shape)

    n_chunks = -(-n_unions // WINDOW_LANES)
    n_blocks = bottom + n_unions
    before = np.full(n_blocks + 1 + WINDOW_LANES, np.inf)
    before[: n_blocks + 1] = np.concatenate(([0], np.cumsum(rng.integers(1, 6, n_blocks))))
    best = np.where(rng.random(len(before)) < infinite, np.inf, numbers(len(before)) * 20)
    boxes, tail = numbers(n_unions, 2 * n_axes), numbers(1, 2 * n_axes)
    unions = np.minimum.accumulate(boxes[::-1])[::-1]
    extra = np.maximum.accumulate(numbers(n_unions)[::-1])[::-1]
    rows = float(before[n_blocks] + rng.integers(0, 10))
    k1 = float(rng.integers(1, 2 * n_unions + 10))
    ends = np.full((n_chunks, 2 * n_axes, WINDOW_LANES), np.nan)
    widths = np.full(n_chunks * WINDOW_LANES, np.nan)
    for i in range(n_unions):
        ends[i // WINDOW_LANES, :, i % WINDOW_LANES] = unions[i]
        widths[i] = extra[i]
    first = int(rng.integers(0, n_chunks))
    # What the window reads behind its last union counts for nothing: fewer than k1 rows.
    k1 = max(k1, rows - before[n_blocks] + 1.0)

    expected, where = np.inf, -1
    for i in range(WINDOW_LANES * first, n_unions):
        lower = np.minimum(unions[i], tail[0])
        width = extra[i]
        for a in range(n_axes):
            width -= lower[a] + lower[n_axes + a]
        here = rows - before[bottom + i]
        cost = best[bottom + i] + here * width
        if here >= k1 and cost <= expected and cost < np.inf:
            expected, where = cost, bottom + i
    cost, begin = call(ends, tail, widths, best, before, bottom, first, n_chunks, rows, k1)
    assert cost == pytest.approx(expected)
    assert begin == where
