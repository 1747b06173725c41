"""Trees under a model: every leaf satisfies it, whatever the grade, and small nodes are cut wherever that is valid."""

from __future__ import annotations

from functools import reduce
from operator import and_

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.models import Model
from rtree_anon.models.compiling import compile_model
from rtree_anon.tree import build_tree
from rtree_anon.tree.build import LeafTree
from rtree_anon.tree.effort import QUALITIES
from tests import naive
from tests.models.drawn import coded_world, make_world, models, single_models
from tests.models.naive_models import World, doubtful, holds, margin
from tests.tables import Table, make_table, tables


def build(table: Table, world: World, model: Model, k: int, quality: str, **options: int) -> LeafTree:
    columns, people = coded_world(world)
    constraint = compile_model(model, columns, people, n_rows=len(table.codes))
    return build_tree(table.codes, table.space, k, quality=quality, constraint=constraint, **options)  # type: ignore[arg-type]


def leaves(tree: LeafTree) -> list[list[int]]:
    numbers = tree.rows[:, -1].tolist()
    return [numbers[a:b] for a, b in zip(tree.starts[:-1].tolist(), tree.starts[1:].tolist(), strict=True)]


@settings(max_examples=150, deadline=None)
@given(tables(max_rows=120), models, st.integers(1, 4), st.sampled_from(QUALITIES), st.integers(0, 2**32), st.data())
def test_every_leaf_satisfies_the_model(
    table: Table, model: Model, k: int, quality: str, seed: int, data: st.DataObject
) -> None:
    world = make_world(
        seed, len(table.codes), data.draw(st.integers(1, 6)), skew=data.draw(st.sampled_from([0.0, 1.5]))
    )
    found = leaves(build(table, world, model, k, quality, threads=1))
    assert sorted(row for leaf in found for row in leaf) == list(range(len(table.codes)))
    if len(found) > 1:
        assert all(len(leaf) >= k and holds(model, world, leaf) for leaf in found)


@settings(max_examples=100, deadline=None)
@given(tables(max_rows=40, max_axes=3), single_models, st.integers(1, 3), st.integers(0, 2**32))
def test_what_can_be_cut_is_cut(table: Table, model: Model, k: int, seed: int) -> None:
    """The tables are small enough for an exact search: a leaf that has a valid cut was left whole for no reason."""
    world = make_world(seed, len(table.codes), 4, skew=0.0)
    tree = build(table, world, model, k, "best", threads=1)
    for leaf in leaves(tree):
        for a in range(len(table.space)):
            if naive.axis_width(table.space, a, [table.rows[row] for row in leaf], table.missing) == 0:
                continue
            for left, right in cuts(table, a, leaf, k):
                assert min(margin(model, world, left), margin(model, world, right)) < 1e-9


def cuts(table: Table, a: int, leaf: list[int], k: int) -> list[tuple[list[int], list[int]]]:
    """The cuts of one axis as row numbers: the twin's cuts are lists of points, and equal points stay together."""
    points = [table.rows[row] for row in leaf]
    found = []
    for cut in naive.cuts_of_axis(table.space, a, points, k, table.missing):
        on_left = {point[a] for point in cut.left}
        found.append(
            ([r for r in leaf if table.rows[r][a] in on_left], [r for r in leaf if table.rows[r][a] not in on_left])
        )
    return found


@settings(max_examples=12, deadline=None)
@given(single_models, single_models, st.sampled_from(QUALITIES), st.integers(0, 2**32))
def test_large_tables_and_any_number_of_threads(first: Model, second: Model, quality: str, seed: int) -> None:
    """Large enough for samples, which know nothing of the model, and for the search that follows where they fail."""
    model = reduce(and_, [first, second])
    table = make_table(seed, 3000, ["linear", "set", "linear", "float"], duplicates=0.1)
    world = make_world(seed, 3000, 6, n_people=1800, skew=1.0)
    trees = [build(table, world, model, 5, quality, threads=threads) for threads in (1, 2)]
    assert np.array_equal(trees[0].starts, trees[1].starts) and np.array_equal(trees[0].rows, trees[1].rows)
    found = leaves(trees[0])
    if len(found) > 1:
        assert all(holds(model, world, leaf) or doubtful(model, world, leaf) for leaf in found)


def test_people_are_counted_not_rows() -> None:
    """Twelve rows of three people: no cut leaves two people on both sides, though there are rows enough."""
    table = make_table(0, 12, ["linear"])
    table.codes[:, 0] = np.arange(12)
    world = World({"disease": [0] * 12, "pay": [0] * 12}, [row // 4 for row in range(12)])
    for quality in QUALITIES:
        tree = build(table, world, ra.IdentityKAnonymity(2), 2, quality, threads=1)
        assert all(len({world.people[row] for row in leaf}) >= 2 for leaf in leaves(tree))
