"""What a tree promises whatever the data: every row in one leaf, leaves of k rows or more that are cut wherever a clean
cut exists, disjoint regions, tight boxes, and the same tree for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import UsageError
from rtree_anon.kernels import gauge as g
from rtree_anon.kernels.boxes import widths_of_boxes
from rtree_anon.space import Axis, Kind, Space
from rtree_anon.tree import QUALITIES, LeafTree, build_tree
from tests import naive
from tests.tables import INT64_LIMIT, Table, make_table, tables

BIG_FLAVOURS = ["linear", "set", "span", "tree", "limits", "wide", "float"]


def rows_of_leaves(tree: LeafTree, table: Table) -> list[list[naive.Row]]:
    numbers = tree.rows[:, -1]
    return [[table.rows[i] for i in numbers[s:e]] for s, e in zip(tree.starts[:-1], tree.starts[1:], strict=True)]


def assert_rows_are_kept(tree: LeafTree, table: Table) -> None:
    """The last column is a permutation, and every row still has its own codes."""
    numbers = tree.rows[:, -1]
    assert (np.sort(numbers) == np.arange(len(table.codes))).all()
    for a, column in enumerate(tree.grid.column_of_axis):
        found = tree.rows[:, column]
        if table.space.axes[a].kind == Kind.SET:
            codes = np.where(found == 63, table.missing, found.astype(np.int64))
        else:
            codes = tree.grid.codes_of(a, found)
        assert (codes == table.codes[numbers, a]).all()


def assert_regions_are_disjoint_and_cover(tree: LeafTree) -> None:
    """Every row is in the region of its own leaf and in no other; and regions exclude each other on some axis."""
    lo, hi, mask = tree.regions.lo, tree.regions.hi, tree.regions.mask
    d, first = len(tree.grid.space), tree.grid.gauge.n_linear
    leaf_of_row = np.repeat(np.arange(tree.n_leaves), tree.sizes)
    inside = np.ones((tree.n_leaves, len(tree.rows)), bool)
    apart = np.zeros((tree.n_leaves, tree.n_leaves), bool)
    for column in range(d):
        codes = tree.rows[:, column]
        if tree.grid.gauge.kind[column] == g.MASK:
            sets = mask[:, column - first]
            inside &= (sets[:, None] >> codes.astype(np.uint64)[None, :]) & np.uint64(1) == 1
            apart |= (sets[:, None] & sets[None, :]) == 0
        else:
            inside &= (lo[:, column, None] <= codes) & (codes <= hi[:, column, None])
            apart |= hi[:, column, None] < lo[None, :, column]
            apart |= hi[None, :, column] < lo[:, column, None]
    assert (inside == (np.arange(tree.n_leaves)[:, None] == leaf_of_row)).all()
    assert (apart == ~np.eye(tree.n_leaves, dtype=bool)).all()


def assert_same_tree(one: LeafTree, other: LeafTree) -> None:
    assert (one.starts == other.starts).all()
    assert (one.rows == other.rows).all()
    assert (one.depth == other.depth).all()
    assert (one.axis == other.axis).all()
    on_mask = one.grid.gauge.kind[one.axis] == g.MASK
    assert (one.threshold[~on_mask] == other.threshold[~on_mask]).all()
    assert (one.left_set[on_mask] == other.left_set[on_mask]).all()


@settings(max_examples=200, deadline=None)
@given(tables(max_rows=120), st.integers(1, 9), st.sampled_from(QUALITIES), st.data())
def test_a_tree_keeps_its_promises(table: Table, k: int, quality: str, data: st.DataObject) -> None:
    bias = tuple(data.draw(st.sets(st.integers(0, len(table.space) - 1), max_size=2)))
    tree = build_tree(table.codes, table.space, k, quality=quality, threads=1, bias=bias)
    assert_rows_are_kept(tree, table)
    assert_regions_are_disjoint_and_cover(tree)
    leaves = rows_of_leaves(tree, table)
    for leaf, rows in enumerate(leaves):
        assert len(rows) >= min(k, len(table.rows))
        if len(rows) >= 2 * k:
            assert not any(naive.can_be_cut(table.space, a, rows, k, table.missing) for a in range(len(table.space)))
        for a, column in enumerate(tree.grid.column_of_axis):
            values = {row[a] for row in rows}
            if table.space.axes[a].kind == Kind.SET:
                bits = int(tree.boxes.mask[leaf, column - tree.grid.gauge.n_linear])
                assert bits == sum(1 << (63 if value == table.missing else value) for value in values)
            else:
                corners = np.array([tree.boxes.lo[leaf, column], tree.boxes.hi[leaf, column]])
                assert tree.grid.codes_of(a, corners).tolist() == [min(values), max(values)]
    # While a preferred axis can be cut, no other is: so a node that was cut elsewhere had none to offer.
    root = naive.tree_of_depths(tree.depth.tolist())
    for node in naive.inner_nodes(root):
        a = tree.grid.axis_of_column[tree.axis[node.number]]
        if bias and a not in bias:
            rows = [row for leaf in naive.leaves_of(node) for row in leaves[leaf]]
            assert not any(naive.can_be_cut(table.space, b, rows, k, table.missing) for b in bias)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 30), st.sampled_from(QUALITIES), st.sampled_from([0.0, 0.7]))
def test_large_nodes_are_cut_from_samples_and_keep_the_promises(
    seed: int, k: int, quality: str, duplicates: float
) -> None:
    rng = np.random.default_rng(seed)
    flavours = list(rng.choice(BIG_FLAVOURS, 3))
    n = int(rng.integers(500, 6000))
    table = make_table(seed, n, flavours, gaps=[0.0, 0.05, 0.3], duplicates=duplicates)
    tree = build_tree(table.codes, table.space, k, quality=quality, threads=1)
    assert_rows_are_kept(tree, table)
    assert tree.sizes.min() >= k
    for rows in rows_of_leaves(tree, table):
        if len(rows) >= 2 * k:
            assert not any(naive.can_be_cut(table.space, a, rows, k, table.missing) for a in range(3))
    if tree.n_leaves < 1500:
        assert_regions_are_disjoint_and_cover(tree)


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize("duplicates", [0.0, 0.9])
def test_the_number_of_threads_cannot_be_seen(quality: str, duplicates: float) -> None:
    table = make_table(11, 20_000, ["linear", "set", "float", "tree"], gaps=[0, 0.1, 0, 0.1], duplicates=duplicates)
    one = build_tree(table.codes, table.space, 3, quality=quality, threads=1, seed=5)
    assert one.n_leaves > 300
    for threads in (2, 3, None):
        assert_same_tree(one, build_tree(table.codes, table.space, 3, quality=quality, threads=threads, seed=5))
    with pytest.raises(UsageError, match="threads=0"):
        build_tree(table.codes, table.space, 3, threads=0)


def test_the_seed_changes_what_is_sampled_and_nothing_else() -> None:
    table = make_table(11, 20_000, ["linear", "limits", "float"])
    trees = [build_tree(table.codes, table.space, 3, threads=1, seed=seed) for seed in (1, 2, -1)]
    assert any(tree.n_leaves != trees[0].n_leaves or (tree.rows != trees[0].rows).any() for tree in trees[1:])
    for tree in trees:
        assert_rows_are_kept(tree, table)


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize(("n", "sizes"), [(1, [1]), (4, [4]), (5, [5]), (9, [9]), (10, [5, 5])])
def test_small_tables(quality: str, n: int, sizes: list[int]) -> None:
    codes = np.arange(n, dtype=np.int32)[:, None]
    tree = build_tree(codes, Space((Axis("x", Kind.LINEAR, 0, 100),)), 5, quality=quality)
    assert tree.sizes.tolist() == sizes
    assert tree.order.tolist() in ([0], [0, 1])
    lo, hi, _ = tree.grid.domain()
    assert tree.regions.lo[0].tolist() == lo.tolist()
    assert tree.regions.hi[-1].tolist() == hi.tolist()


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize("n", [10, 5000])
def test_identical_rows_stay_together(quality: str, n: int) -> None:
    table = make_table(2, n, ["linear", "set", "float", "tree", "absent"], duplicates=1.0)
    tree = build_tree(table.codes, table.space, 2, quality=quality)
    assert tree.sizes.tolist() == [n]


@pytest.mark.parametrize("quality", QUALITIES)
def test_nearly_all_rows_the_same(quality: str) -> None:
    """200,000 rows, 99 % of them equal: samples show nothing, yet every cut that exists is found, and it finishes."""
    n, k = 200_000, 10
    table = make_table(4, n, ["linear", "set", "span"], duplicates=0.99)
    tree = build_tree(table.codes, table.space, k, quality=quality)
    assert_rows_are_kept(tree, table)
    assert tree.sizes.min() >= k
    assert tree.n_leaves > 20
    same = (table.codes == table.codes[0]).all(axis=1).sum()
    assert tree.sizes.max() < same + 2 * k


@pytest.mark.parametrize("quality", QUALITIES)
def test_a_few_rows_apart_from_very_many(quality: str) -> None:
    """k rows differ among 100,000, on each kind of axis: only an exact look at the whole node sees them."""
    n, k = 100_000, 5
    for kind, n_categories in ((Kind.LINEAR, 0), (Kind.SET, 3), (Kind.SPAN, 3)):
        codes = np.zeros((n, 1), np.int32)
        codes[:k] = 2
        tree = build_tree(codes, Space((Axis("x", kind, 0, 2, n_categories=n_categories),)), k, quality=quality)
        assert sorted(tree.sizes.tolist()) == [k, n - k]
        codes[0] = 0
        tree = build_tree(codes, Space((Axis("x", kind, 0, 2, n_categories=n_categories),)), k, quality=quality)
        assert tree.sizes.tolist() == [n]


@pytest.mark.parametrize("quality", QUALITIES)
def test_values_too_close_to_have_a_width_are_cut_all_the_same(quality: str) -> None:
    """Two values that differ by less than a float can tell, as a share of the domain, are still two values."""
    space = Space((Axis("x", Kind.LINEAR, -INT64_LIMIT, INT64_LIMIT),))
    for n in (10, 1000):
        codes = np.repeat(np.array([5, 6], np.int64), n // 2)[:, None]
        tree = build_tree(codes, space, 5, quality=quality)
        assert tree.sizes.max() <= n // 2


@pytest.mark.parametrize("quality", QUALITIES)
def test_preferred_axes_are_cut_first(quality: str) -> None:
    """Biased fully to one axis (paper, section 2.4): its values are separated as far as k allows, before all others."""
    table = make_table(8, 3000, ["linear", "set", "linear", "limits"])
    values = np.unique(table.codes[:, 2], return_counts=True)[1]
    assert values.min() >= 4
    tree = build_tree(table.codes, table.space, 4, quality=quality, bias=(2,))
    for rows in rows_of_leaves(tree, table):
        assert len({row[2] for row in rows}) == 1
    free = build_tree(table.codes, table.space, 4, quality=quality)
    assert any(len({row[2] for row in rows}) > 1 for rows in rows_of_leaves(free, table))


@pytest.mark.parametrize("quality", QUALITIES)
def test_a_preferred_axis_is_cut_first_even_where_samples_miss_it(quality: str) -> None:
    rng = np.random.default_rng(0)
    n, k = 20_000, 5
    codes = rng.integers(0, 1000, (n, 2), dtype=np.int32)
    codes[:, 1] = 0
    codes[rng.permutation(n)[:k], 1] = 1
    space = Space((Axis("x", Kind.LINEAR, 0, 999), Axis("y", Kind.LINEAR, 0, 1)))
    tree = build_tree(codes, space, k, quality=quality, bias=(1,))
    root = naive.tree_of_depths(tree.depth.tolist())
    assert isinstance(root, naive.Node)
    assert tree.grid.axis_of_column[tree.axis[root.number]] == 1
    assert k in tree.sizes.tolist()


@pytest.mark.parametrize("quality", QUALITIES)
def test_weights_bias_the_splits(quality: str) -> None:
    """The heavier an axis, the narrower it is released."""
    codes = np.random.default_rng(0).integers(0, 10_000, (4000, 2), dtype=np.int32)
    spreads = []
    for weight in (0.1, 1.0, 10.0):
        axes = (Axis("x", Kind.LINEAR, 0, 9999, weight=weight), Axis("y", Kind.LINEAR, 0, 9999))
        tree = build_tree(codes, Space(axes), 5, quality=quality)
        column = tree.grid.column_of_axis[0]
        spreads.append(float((tree.boxes.hi[:, column].astype(float) - tree.boxes.lo[:, column]).mean()))
    assert spreads[0] > 2 * spreads[1]
    assert spreads[1] > 2 * spreads[2]


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (1.0, 1.0, 10.0), (0.01, 1.0, 5.0)])
def test_a_better_grade_has_the_lower_certainty_penalty(weights: tuple[float, ...]) -> None:
    """Also where weights differ much: a look-ahead that took them for fewer axes doubled the penalty of `best`."""
    codes = np.random.default_rng(0).integers(0, 10_000, (6000, 3), dtype=np.int32)
    axes = tuple(Axis(str(a), Kind.LINEAR, 0, 9999, weight=weight) for a, weight in enumerate(weights))
    penalties = []
    for quality in QUALITIES:
        tree = build_tree(codes, Space(axes), 5, quality=quality)
        widths = np.empty(tree.n_leaves)
        widths_of_boxes(tree.grid.gauge, tree.boxes.lo, tree.boxes.hi, tree.boxes.mask, widths)
        penalties.append(float(widths @ tree.sizes) / len(codes))
    fast, balanced, best = penalties
    assert best < balanced < fast


@pytest.mark.parametrize("quality", QUALITIES)
def test_k_far_above_the_number_of_rows_costs_nothing(quality: str) -> None:
    """Scratch space follows the rows that there are; sized by k alone it would be gigabytes."""
    table = make_table(5, 100, ["linear", "set"])
    assert build_tree(table.codes, table.space, 10**12, quality=quality).sizes.tolist() == [100]


@pytest.mark.parametrize("quality", QUALITIES)
def test_nodes_of_more_than_a_million_rows_are_not_searched_exactly(quality: str) -> None:
    """The exact search numbers the rows of a node with 20 bits. With a large k it was given more rows, whose numbers
    ran into the codes: it saw a cut in the middle of equal values, and the rows beyond it were a leaf of 3."""
    n, k = 2**20 + 200_000, 160_000
    codes = np.zeros((n, 1), np.int32)
    codes[-3:] = 1000
    tree = build_tree(codes, Space((Axis("x", Kind.LINEAR, 0, 1000),)), k, quality=quality, threads=1)
    assert tree.sizes.tolist() == [n]


def test_a_tree_does_not_change_its_input() -> None:
    table = make_table(6, 500, ["linear", "set", "span"])
    before = table.codes.copy()
    table.codes.flags.writeable = False
    build_tree(table.codes, table.space, 5)
    assert (table.codes == before).all()


def test_unknown_quality_is_refused() -> None:
    table = make_table(6, 50, ["linear"])
    with pytest.raises(UsageError, match="quality='superb'"):
        build_tree(table.codes, table.space, 5, quality="superb")
