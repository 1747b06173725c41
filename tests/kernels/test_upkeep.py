"""Upkeep of leaves: which subtrees are cut again, by a twin that looks at every subtree by itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.stretches import count_leaves, renumber_leaves
from rtree_anon.kernels.upkeep import choose_regions

Tree = tuple["Tree", "Tree"] | None  # two subtrees, or a leaf
TREES = st.recursive(st.none(), lambda below: st.tuples(below, below), max_leaves=14)


def depths(tree: Tree, depth: int = 0) -> list[int]:
    """The depths of the cuts, in order."""
    return [] if tree is None else [*depths(tree[0], depth + 1), depth, *depths(tree[1], depth + 1)]


def n_leaves(tree: Tree) -> int:
    return 1 if tree is None else n_leaves(tree[0]) + n_leaves(tree[1])


def naive_regions(
    tree: Tree, sizes: list[int], changed: list[bool], k: int, most: int, per_leaf: int
) -> tuple[list[range], int]:
    """The regions among these leaves, and how many leaves they would have with them cut again."""
    whole = range(len(sizes))
    if tree is None:
        again = changed[0] and sizes[0] >= 2 * k
        return ([whole], sizes[0] // k) if again else ([], 1)
    middle = n_leaves(tree[0])
    left, n_left = naive_regions(tree[0], sizes[:middle], changed[:middle], k, most, per_leaf)
    right, n_right = naive_regions(tree[1], sizes[middle:], changed[middle:], k, most, per_leaf)
    inside = [*left, *(range(r.start + middle, r.stop + middle) for r in right)]
    n_more = sum(sizes) // k - n_left - n_right
    n_rows_more = sum(sizes) - sum(sizes[leaf] for region in inside for leaf in region)
    if any(changed) and sum(sizes) <= most and n_more > 0 and n_rows_more <= n_more * per_leaf:
        return [whole], sum(sizes) // k
    return inside, n_left + n_right


@settings(max_examples=300, deadline=None)
@given(TREES, st.integers(1, 4), st.integers(2, 12), st.integers(1, 9), st.data())
def test_regions_are_the_largest_subtrees_that_are_worth_it(
    tree: Tree, k: int, most: int, per_leaf: int, data: st.DataObject
) -> None:
    n = n_leaves(tree)
    sizes = data.draw(st.lists(st.integers(k, 3 * k), min_size=n, max_size=n))
    changed = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    depth = np.array(depths(tree), np.int32)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    begin, end = np.empty(n, np.int64), np.empty(n, np.int64)
    found = choose_regions(depth, starts, np.array(changed), k, most * k, per_leaf * k, begin, end)
    expected, _ = naive_regions(tree, sizes, changed, k, most * k, per_leaf * k)
    assert [range(a, b) for a, b in zip(begin[:found].tolist(), end[:found].tolist(), strict=True)] == expected


@settings(deadline=None)
@given(st.lists(st.integers(-1, 5), max_size=40), st.lists(st.booleans(), min_size=6, max_size=6))
def test_leaves_are_counted_and_numbered_again(leaves: list[int], orphans: list[bool]) -> None:
    leaf = np.array(leaves, np.int32)
    counts = np.full(6, 99, np.int64)
    assert count_leaves(leaf, counts) == counts.min()
    assert counts.tolist() == [leaves.count(number) for number in range(6)]
    number = np.array([0, 0, 1, 1, 2, 2], np.int32)
    homeless = np.empty(len(leaves) + 1, np.int64)
    n = renumber_leaves(leaf, np.array(orphans), number, homeless)
    assert homeless[:n].tolist() == [i for i, was in enumerate(leaves) if was >= 0 and orphans[was]]
    assert leaf.tolist() == [was if was < 0 else int(number[was]) for was in leaves]
