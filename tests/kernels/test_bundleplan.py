"""Which leaves share a page: the plan by units is the one that a look at every leaf gives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.index.rowlayout import layout_of
from rtree_anon.kernels.bundleplan import plan_bundles, stored_boxes, sure_units, unions_of_units
from rtree_anon.kernels.leaforder import link_nodes
from tests.kernels.test_upkeep import TREES, Tree, depths, n_leaves

CUT_BITS, EXTRA_WORDS = 9, 5


def naive_words(values: np.ndarray, sizes: list[int]) -> int:
    """What the leaves of some rows, values[row, column], take by the plan's reckoning."""
    bits = [int(hi - lo).bit_length() for lo, hi in zip(values.min(axis=0), values.max(axis=0), strict=True)]
    words = sum(-(-len(values) * each // 64) for each in bits)
    tree = -(-len(sizes) * max(sizes).bit_length() // 64) + -(-len(sizes) * CUT_BITS // 64) + 4
    return words + tree + EXTRA_WORDS


def naive_plan(tree: Tree, values: np.ndarray, sizes: list[int], capacity: int) -> list[int]:
    """The leaves of each bundle."""
    if tree is None or naive_words(values, sizes) <= capacity:
        return [len(sizes)]
    middle = n_leaves(tree[0])
    row = sum(sizes[:middle])
    return naive_plan(tree[0], values[:row], sizes[:middle], capacity) + naive_plan(
        tree[1], values[row:], sizes[middle:], capacity
    )


@settings(max_examples=200, deadline=None)
@given(
    TREES,
    st.lists(st.integers(0, 40), min_size=1, max_size=5),
    st.integers(12, 60),
    st.integers(0, 3),
    st.integers(0, 2**32),
)
def test_the_largest_subtrees_that_fit(tree: Tree, bits: list[int], capacity: int, spread: int, seed: int) -> None:
    """`spread`: rows of a leaf are near each other, so that ranges take fewer bits than the domain."""
    generator = np.random.default_rng(seed)
    n = n_leaves(tree)
    sizes = generator.integers(1, 30, n).tolist()
    starts = np.concatenate(([0], np.cumsum(sizes)))
    layout = layout_of([(0, 2**each - 2) for each in bits])
    stored = np.stack(
        [
            np.sort(generator.integers(0, max(2**each >> (spread * each // 4), 1), starts[-1], dtype=np.uint64))
            for each in bits
        ],
        axis=1,
    )
    words = np.zeros((layout.n_words, len(stored)), np.uint64)
    for c in range(len(bits)):
        words[layout.words.word[c]] |= stored[:, c] << layout.words.shift[c]
    depth = np.array(depths(tree), np.int32)
    ends, largest = np.empty((2, n), np.int64)
    fixed = capacity, CUT_BITS, EXTRA_WORDS
    n_units = sure_units(depth, starts, layout.words.limit, *fixed, ends, largest)
    units = np.concatenate(([0], ends[:n_units]))
    assert largest[:n_units].tolist() == [max(sizes[a:b]) for a, b in pairwise(units)]
    lo, hi = np.empty((2, n_units, len(bits)), np.uint64)
    stored_boxes(words, layout.words, starts[units], lo, hi)
    for u in range(n_units):
        rows = stored[starts[units[u]] : starts[units[u + 1]]]
        assert np.array_equal(lo[u], rows.min(axis=0)) and np.array_equal(hi[u], rows.max(axis=0))
    left, right = np.empty((2, n_units - 1), np.int64)
    root = link_nodes(depth[units[1:-1] - 1], left, right)
    found = plan_bundles(left, right, root, starts[units], units, largest, lo, hi, *fixed, ends)
    leaves = np.diff(np.concatenate(([0], units[ends[:found]]))).tolist()
    assert leaves == naive_plan(tree, stored, sizes, capacity)
    union_lo, union_hi = np.empty((2, found, len(bits)), np.uint64)
    unions_of_units(lo, hi, ends[:found], union_lo, union_hi)
    begin = 0
    for b, unit in enumerate(ends[:found].tolist()):
        assert np.array_equal(union_lo[b], lo[begin:unit].min(axis=0))
        assert np.array_equal(union_hi[b], hi[begin:unit].max(axis=0))
        begin = unit
