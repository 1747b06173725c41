"""Leaf scans under a model that is stricter than the tree's: groups of whole leaves that satisfy it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.models import Model
from rtree_anon.models.compiling import compile_model
from rtree_anon.tree import build_tree
from rtree_anon.tree.build import METHODS, Grouping, LeafTree
from tests import naive
from tests.models.drawn import coded_world, make_world, models
from tests.models.naive_models import World, doubtful, holds
from tests.models.test_tree import leaves
from tests.tables import Table, make_table, tables


def rows_of_groups(tree: LeafTree, grouping: Grouping) -> list[list[list[int]]]:
    """For every group the leaves, each as its row numbers."""
    of_leaf = leaves(tree)
    begins = [0, *grouping.ends.tolist()]
    order = grouping.order.tolist()
    return [[of_leaf[leaf] for leaf in order[a:b]] for a, b in pairwise(begins)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Table, LeafTree, World]:
    table = draw(tables(max_rows=90, max_axes=3))
    world = make_world(draw(st.integers(0, 2**32)), len(table.codes), draw(st.integers(1, 5)))
    return table, build_tree(table.codes, table.space, draw(st.integers(1, 4)), threads=1), world


def joined(group: Sequence[Sequence[int]]) -> list[int]:
    return [row for leaf in group for row in leaf]


@settings(max_examples=250, deadline=None)
@given(cases(), models, st.integers(1, 12))
def test_groups_satisfy_the_model(case: tuple[Table, LeafTree, World], model: Model, k: int) -> None:
    table, tree, world = case
    columns, people = coded_world(world)
    constraint = compile_model(model, columns, people, n_rows=len(table.codes))
    everything = list(range(len(table.codes)))
    for method in METHODS:
        groups = [joined(group) for group in rows_of_groups(tree, tree.group(k, method, constraint))]
        if groups:
            assert sorted(joined(groups)) == everything
            assert all(len(group) >= k for group in groups)
            assert all(holds(model, world, group) for group in groups)
        else:
            possible = len(everything) >= k and holds(model, world, everything)
            assert not possible or doubtful(model, world, everything)


@settings(max_examples=150, deadline=None)
@given(cases(), models, st.integers(1, 9))
def test_the_optimal_scan_is_no_worse_than_the_greedy_one(
    case: tuple[Table, LeafTree, World], model: Model, k: int
) -> None:
    """Below k = 10: from there on a leaf of a single row goes with the next one, which the greedy scan need not do."""
    table, tree, world = case
    columns, people = coded_world(world)
    constraint = compile_model(model, columns, people, n_rows=len(table.codes))

    def loss(method: str) -> float:
        groups = rows_of_groups(tree, tree.group(k, method, constraint))
        return sum(naive.penalty(table.space, [table.rows[r] for r in joined(g)], table.missing) for g in groups)

    assert loss("optimal") <= loss("greedy") + 1e-9


@settings(max_examples=150, deadline=None)
@given(cases(), models, st.integers(1, 12))
def test_the_greedy_scan_closes_groups_as_soon_as_it_may(
    case: tuple[Table, LeafTree, World], model: Model, k: int
) -> None:
    """All groups but the last: without their last leaf they are not valid yet, up to the first one that is."""
    table, tree, world = case
    columns, people = coded_world(world)
    constraint = compile_model(model, columns, people, n_rows=len(table.codes))
    for group in rows_of_groups(tree, tree.group(k, "greedy", constraint))[:-1]:
        for n_leaves in range(1, len(group)):
            rows = joined(group[:n_leaves])
            assert len(rows) < k or not holds(model, world, rows) or doubtful(model, world, rows)


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 12))
def test_a_model_that_asks_nothing_changes_nothing(case: tuple[Table, LeafTree, World], k: int) -> None:
    """Also where the scan has to look: one value in all rows is one value in every group."""
    table, tree, _ = case
    n = len(table.codes)
    columns, people = coded_world(World({"pay": [7] * n}, list(range(n))))
    for model in (ra.DistinctLDiversity(1, "pay"), ra.IdentityKAnonymity(k)):
        constraint = compile_model(model, columns, people)
        for method in METHODS:
            plain, guarded = tree.group(k, method), tree.group(k, method, constraint)
            if method != "optimal":
                assert np.array_equal(plain.ends, guarded.ends)
            else:
                assert sum(map(len, rows_of_groups(tree, plain))) == sum(map(len, rows_of_groups(tree, guarded)))


def test_people_in_several_leaves_are_counted_once() -> None:
    """Eight leaves of two people each, the same two everywhere but in the last: one group has to be made of all."""
    codes = np.arange(16, dtype=np.int32).reshape(-1, 1)
    space = make_table(0, 16, ["linear"]).space
    people = [0, 1] * 7 + [2, 3]
    world = World({"pay": [0] * 16}, people)
    tree = build_tree(codes, space, 2, threads=1)
    columns, coded_people = coded_world(world)
    constraint = compile_model(ra.IdentityKAnonymity(4), columns, coded_people)
    for method in METHODS:
        groups = [joined(group) for group in rows_of_groups(tree, tree.group(2, method, constraint))]
        assert all(len({people[row] for row in group}) == 4 for group in groups)
