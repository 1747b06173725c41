"""Groups of leaves: the order of the scan, the three scans, and that releases of one tree are safe together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import UsageError
from rtree_anon.kernels import gauge as g
from rtree_anon.kernels.leafscan import BLOCK_SCALE
from rtree_anon.space import Axis, Kind, Space
from rtree_anon.tree import QUALITIES, LeafTree, build_tree
from rtree_anon.tree.build import METHODS, Grouping, build_mondrian
from rtree_anon.tree.grid import make_grid
from rtree_anon.tree.scanning import optimal_ends
from tests import naive
from tests.tables import Table, make_table, tables
from tests.tree.test_build import rows_of_leaves


def leaves_of_groups(grouping: Grouping) -> list[list[int]]:
    return [part.tolist() for part in np.split(grouping.order, grouping.ends)[:-1]] if len(grouping.ends) else []


def penalty_of(groups: list[list[int]], leaves: list[list[naive.Row]], table: Table) -> float:
    rows = [[row for leaf in group for row in leaves[leaf]] for group in groups]
    return sum(naive.penalty(table.space, members, table.missing) for members in rows)


def nearly(value: float) -> object:
    return pytest.approx(value, rel=1e-9, abs=1e-12)


@st.composite
def trees(draw: st.DrawFn, max_rows: int = 80) -> tuple[Table, LeafTree]:
    table = draw(tables(max_rows=max_rows))
    k = draw(st.integers(1, 5))
    if draw(st.integers(0, 3)) == 0:
        return table, build_mondrian(table.codes, table.space, k)
    return table, build_tree(table.codes, table.space, k, quality=draw(st.sampled_from(QUALITIES)), threads=1)


@settings(max_examples=100, deadline=None)
@given(trees())
def test_links_are_those_of_the_depths(table_and_tree: tuple[Table, LeafTree]) -> None:
    _, tree = table_and_tree
    left, right, root = tree.links

    def check(node: naive.Node | int, link: int) -> None:
        if isinstance(node, int):
            assert link == ~node
            return
        assert link == node.number
        check(node.left, int(left[link]))
        check(node.right, int(right[link]))

    check(naive.tree_of_depths(tree.depth.tolist()), root)


@settings(max_examples=100, deadline=None)
@given(trees())
def test_the_nearer_child_comes_first(table_and_tree: tuple[Table, LeafTree]) -> None:
    table, tree = table_and_tree
    root = naive.tree_of_depths(tree.depth.tolist())
    found = tree.order.tolist()
    assert sorted(found) == list(range(tree.n_leaves))
    leaves = rows_of_leaves(tree, table)
    assert found == naive.leaf_order(root, table.space, leaves, table.missing, in_ties=found)


@settings(max_examples=100, deadline=None)
@given(trees())
def test_regions_are_what_the_cuts_leave_of_the_domain(table_and_tree: tuple[Table, LeafTree]) -> None:
    _, tree = table_and_tree
    gauge = tree.grid.gauge
    domain_lo, domain_hi, domain_mask = tree.grid.domain()

    def check(node: naive.Node | int, lo: list[int], hi: list[int], mask: list[int]) -> None:
        if isinstance(node, int):
            assert tree.regions.mask[node].tolist() == mask
            on_range = gauge.kind != g.MASK
            assert tree.regions.lo[node][on_range].tolist() == np.array(lo)[on_range].tolist()
            assert tree.regions.hi[node][on_range].tolist() == np.array(hi)[on_range].tolist()
            return
        column = int(tree.axis[node.number])
        left = (lo.copy(), hi.copy(), mask.copy())
        right = (lo.copy(), hi.copy(), mask.copy())
        if gauge.kind[column] == g.MASK:
            left[2][column - gauge.n_linear] &= int(tree.left_set[node.number])
            right[2][column - gauge.n_linear] &= ~int(tree.left_set[node.number])
        else:
            left[1][column] = int(tree.threshold[node.number]) - 1
            right[0][column] = int(tree.threshold[node.number])
        check(node.left, *left)
        check(node.right, *right)

    check(naive.tree_of_depths(tree.depth.tolist()), domain_lo.tolist(), domain_hi.tolist(), domain_mask.tolist())


@settings(max_examples=150, deadline=None)
@given(trees(), st.integers(1, 100))
def test_groups_are_whole_leaves_and_the_scans_follow_their_rules(
    table_and_tree: tuple[Table, LeafTree], k1: int
) -> None:
    table, tree = table_and_tree
    n, sizes = len(table.rows), tree.sizes.tolist()
    groups = {method: leaves_of_groups(tree.group(k1, method)) for method in METHODS}
    for found in groups.values():
        if n < k1:
            assert found == []
        else:
            assert sorted(leaf for group in found for leaf in group) == list(range(tree.n_leaves))
            assert min(sum(sizes[leaf] for leaf in group) for group in found) >= k1
    assert groups["greedy"] == naive.greedy_scan(tree.order.tolist(), sizes, k1)
    assert groups["hierarchical"] == naive.hierarchical_scan(naive.tree_of_depths(tree.depth.tolist()), sizes, k1)
    if n < k1:
        return
    leaves = rows_of_leaves(tree, table)
    blocks = naive.blocks_of(tree.order.tolist(), sizes, math.sqrt(k1) / BLOCK_SCALE)
    best = naive.least_penalty(blocks, table.space, leaves, k1, table.missing)
    assert penalty_of(groups["optimal"], leaves, table) == nearly(best)
    if len(blocks) == tree.n_leaves:
        assert best <= penalty_of(groups["greedy"], leaves, table) * (1 + 1e-9) + 1e-12


@settings(max_examples=80, deadline=None)
@given(tables(min_rows=2, max_rows=40), st.integers(0, 2**32), st.integers(1, 30))
def test_no_partition_of_the_order_is_better_than_the_optimal_one(table: Table, seed: int, k1: int) -> None:
    """Up to 9 leaves of any size, huge ones among them, against all ways to put bars between them.

    Bars between blocks, that is: from k1 = 10 on a leaf of a single row goes with the next one.
    """
    rng = np.random.default_rng(seed)
    grid, rows = make_grid(table.codes, table.space)
    n = len(rows)
    starts = np.unique(np.concatenate(([0, n], rng.integers(0, n, 8)))).astype(np.int64)
    bounds = list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
    empty = np.zeros(0, np.int64)
    no_cuts = (empty.astype(np.int32), empty.astype(np.int16), empty.astype(np.int32), empty.astype(np.uint64))
    tree = LeafTree(1, grid, rows, starts, *no_cuts)
    boxes, sizes = tree.boxes, tree.sizes
    order = rng.permutation(len(bounds))
    leaves = [table.rows[s:e] for s, e in bounds]
    for long_rows in (n + 1, 0):  # forwards alone, and from both ends
        ends = optimal_ends(order, sizes, boxes, grid.gauge, k1, long_rows)
        groups = leaves_of_groups(Grouping(order, ends))
        if n < k1:
            assert groups == []
            continue
        blocks = naive.blocks_of(order.tolist(), sizes.tolist(), math.sqrt(k1) / BLOCK_SCALE)
        merged = [[row for leaf in block for row in leaves[leaf]] for block in blocks]
        assert k1 >= BLOCK_SCALE**2 + 1 or len(merged) == len(leaves)
        best = naive.least_penalty_of_all_partitions(list(range(len(merged))), table.space, merged, k1, table.missing)
        assert penalty_of(groups, leaves, table) == nearly(best)
        assert sorted(leaf for group in groups for leaf in group) == list(range(len(leaves)))
        assert min(sum(len(leaves[leaf]) for leaf in group) for group in groups) >= k1


@pytest.mark.parametrize("k1", [10, 37, 250, 1000])
def test_scans_from_both_ends_meet_in_the_best_division(k1: int) -> None:
    """Of so many leaves that only few groups can lie across the middle; with ties the groups may differ."""
    table = make_table(17, 12_000, ["linear", "set", "tree", "limits"], gaps=[0.0, 0.02, 0.0, 0.0])
    tree = build_tree(table.codes, table.space, 5, quality="fast")
    leaves = rows_of_leaves(tree, table)
    found = []
    for long_rows in (len(table.rows) + 1, 0):
        ends = optimal_ends(tree.order, tree.sizes, tree.boxes, tree.grid.gauge, k1, long_rows)
        groups = leaves_of_groups(Grouping(tree.order, ends))
        assert [leaf for group in groups for leaf in group] == tree.order.tolist()
        assert min(sum(len(leaves[leaf]) for leaf in group) for group in groups) >= k1
        found.append(penalty_of(groups, leaves, table))
    assert found[1] == nearly(found[0])


def test_a_small_leaf_may_join_a_huge_one_after_it() -> None:
    """A window that ended at the huge leaf would leave its small neighbour to the far one before it."""
    space = Space((Axis("x", Kind.LINEAR, 0, 100),))
    leaves = [[(0,)] * 10, [(100,)] * 5, [(100,)] * 40]
    codes = np.array([row for leaf in leaves for row in leaf], np.int32)
    grid, rows = make_grid(codes, space)
    empty = np.zeros(0, np.int64)
    no_cuts = (empty.astype(np.int32), empty.astype(np.int16), empty.astype(np.int32), empty.astype(np.uint64))
    tree = LeafTree(5, grid, rows, np.array([0, 10, 15, 55], np.int64), *no_cuts)
    boxes = tree.boxes
    for long_rows in (56, 0):
        assert optimal_ends(np.arange(3), tree.sizes, boxes, grid.gauge, 10, long_rows).tolist() == [1, 3]


@settings(max_examples=80, deadline=None)
@given(trees(), st.lists(st.tuples(st.integers(0, 60), st.sampled_from(METHODS)), min_size=1, max_size=8))
def test_releases_of_one_tree_are_safe_together(
    table_and_tree: tuple[Table, LeafTree], releases: list[tuple[int, str]]
) -> None:
    """Lemma 1 of the paper: whoever intersects a row's groups over all releases is left with k rows or more."""
    table, tree = table_and_tree
    n = len(table.rows)
    numbers = tree.rows[:, -1]
    candidates = [set(range(n)) for _ in range(n)]
    n_released = 0
    for above_k, method in releases:
        grouping = tree.group(tree.k + above_k, method)
        n_released += len(grouping.ends) > 0
        for group in leaves_of_groups(grouping):
            members = {int(i) for leaf in group for i in numbers[tree.starts[leaf] : tree.starts[leaf + 1]]}
            for i in members:
                candidates[i] &= members
    if n_released:
        assert min(map(len, candidates)) >= tree.k


@pytest.mark.parametrize("quality", QUALITIES)
def test_large_tables_are_safe_together_too(quality: str) -> None:
    table = make_table(21, 20_000, ["linear", "set", "tree", "limits"], gaps=[0.0, 0.02, 0.0, 0.0])
    tree = build_tree(table.codes, table.space, 5, quality=quality)
    group_of_leaf = []
    for k1 in (5, 6, 10, 33, 100, 999, 5000):
        for method in METHODS:
            grouping = tree.group(k1, method)
            sizes = np.add.reduceat(tree.sizes[grouping.order], np.concatenate(([0], grouping.ends[:-1])))
            assert sizes.min() >= k1
            assert sizes.sum() == 20_000
            names = np.empty(tree.n_leaves, np.int64)
            names[grouping.order] = np.repeat(np.arange(len(grouping.ends)), np.diff(grouping.ends, prepend=0))
            group_of_leaf.append(names)
    # Rows of a leaf share all their groups; so a row's candidates are the rows of all leaves with the same groups.
    _, cell = np.unique(np.stack(group_of_leaf), axis=1, return_inverse=True)
    assert np.bincount(cell.ravel(), weights=tree.sizes).min() >= 5


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(1, 20), st.sampled_from(METHODS), st.booleans())
def test_boxes_of_groups_hold_their_rows(
    table_and_tree: tuple[Table, LeafTree], k1: int, method: str, compact: bool
) -> None:
    table, tree = table_and_tree
    grouping = tree.group(k1, method)
    boxes = tree.group_boxes(grouping, compact)
    leaves = rows_of_leaves(tree, table)
    for number, group in enumerate(leaves_of_groups(grouping)):
        rows = [row for leaf in group for row in leaves[leaf]]
        for a, column in enumerate(tree.grid.column_of_axis):
            values = {row[a] for row in rows}
            if table.space.axes[a].kind == Kind.SET:
                bits = int(boxes.mask[number, column - tree.grid.gauge.n_linear])
                exact = sum(1 << (63 if value == table.missing else value) for value in values)
                assert bits & exact == exact
                assert not compact or bits == exact
            elif compact:
                corners = np.array([boxes.lo[number, column], boxes.hi[number, column]])
                assert tree.grid.codes_of(a, corners).tolist() == [min(values), max(values)]
            else:
                lo, hi = boxes.lo[number, column], boxes.hi[number, column]
                kernel_codes = np.concatenate([tree.rows[tree.starts[x] : tree.starts[x + 1], column] for x in group])
                assert lo <= kernel_codes.min()
                assert kernel_codes.max() <= hi


def test_unknown_method_is_refused() -> None:
    table = make_table(6, 50, ["linear"])
    with pytest.raises(UsageError, match="method='clever'"):
        build_tree(table.codes, table.space, 5).group(5, "clever")
