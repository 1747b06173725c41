"""Stretches that are renewed by one call: the tree over them is right, and so is what comes out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtree_anon.index import together, updating
from rtree_anon.index.together import Part, Together, put_together
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.space import Space
from tests.index.growing import MIXED, PLAIN, GrowingTree, random_rows

NONE = np.empty(0, np.int64)


def part(begin: int, end: int, n_rows: int = 100) -> Part:
    nobody = np.zeros(end - begin, np.int64)
    return Part(begin, end, NONE, nobody, NONE, nobody, n_rows)


def grown(n: int = 6000, *, seed: int = 5) -> tuple[GrowingTree, np.random.Generator]:
    generator = np.random.default_rng(seed)
    tree = GrowingTree(PLAIN, 5)
    tree.change(random_rows(generator, n, PLAIN), [])
    return tree, generator


def paths(depth: list[int], begin: int = 0) -> list[list[int]]:
    """For every leaf of a tree, given by the depths of the cuts between its leaves, the cuts above it, from the top."""
    if not depth:
        return [[]]
    top = depth.index(min(depth))
    sides = paths(depth[:top], begin), paths(depth[top + 1 :], begin + top + 1)
    return [[begin + top, *path] for side in sides for path in side]


@st.composite
def trees(draw: st.DrawFn, deep: int = 0) -> list[int]:
    """Depths of the cuts of a random tree."""
    if deep > 4 or (not draw(st.booleans()) and deep):
        return []
    return [*draw(trees(deep + 1)), deep, *draw(trees(deep + 1))]


@given(depth=trees(), data=st.data())
def test_cuts_between_are_those_that_separate(depth: list[int], data: st.DataObject) -> None:
    above = paths(depth)
    chosen = sorted(data.draw(st.sets(st.integers(0, len(depth)), min_size=1)))
    group = Together(0, [part(number, number + 1) for number in chosen])
    assert group.bundles.tolist() == chosen
    expected = []
    for one, other in itertools.pairwise(chosen):
        common = [cut for cut in above[one] if cut in above[other]]
        expected.append(next(cut for cut in reversed(common) if one <= cut < other))
    assert group.cuts_between(np.array(depth, np.int32)).tolist() == expected


def test_which_stretches_go_together() -> None:
    n_rows = np.full(100, 60, np.int64)
    box = np.zeros((100, 1), np.int64)
    tree = UpperTree(n_rows, n_rows, n_rows, n_rows, n_rows, box, box, box.view(np.uint64), grown()[0].tree.cuts)
    sizes = [50, 50, 50, 20, 50, 500, 50, 5, 50, 50]
    parts = [part(3 * number, 3 * number + 1, size) for number, size in enumerate(sizes)]
    groups = put_together(tree, parts, 20, 200)
    found = [[each.n_rows for each in group.parts] for group in groups]
    assert found == [[50, 50, 50, 20], [50], [500], [50], [5], [50, 50]]
    assert [group.number for group in groups] == [0, 4, 5, 6, 7, 8]
    assert [len(group.parts) for group in put_together(tree, parts, 20, 0)] == [1] * len(parts)
    parts = [part(number, number + 1, size) for number, size in enumerate([30, 30, 31, 30])]
    assert [len(group.parts) for group in put_together(tree, parts, 20, 200)] == [1, 3]  # two would fit a page
    assert put_together(tree, [], 20, 200) == []


def test_bundles_of_parts() -> None:
    group = Together(7, [part(0, 2, 100), part(4, 5, 60), part(6, 7, 40)])
    assert group.own_bundles(np.array([50, 50, 60, 10, 30])) == [slice(0, 2), slice(2, 3), slice(3, 5)]
    assert group.own_bundles(np.array([100, 100])) == []
    assert group.shares(np.array([100, 100])).tolist() == [False, True, False]
    smaller = group.divided(group.shares(np.array([100, 100])))
    assert [(one.number, len(one.parts)) for one in smaller] == [(7, 2), (9, 1)]
    # Other rows than there should be: nothing is left to be divided, which is an error of the index.
    alone = Together(0, [part(0, 2, 100)])
    assert alone.own_bundles(np.array([50, 49])) == [] and len(alone.divided(alone.shares(np.array([50, 49])))) == 1


@pytest.mark.parametrize("full", [0.75, 0.0])
def test_together_as_alone(monkeypatch: pytest.MonkeyPatch, full: float) -> None:
    """The same leaves; `full` 0 puts stretches together that then fit one page, and are divided again."""
    n_groups, found = [], []
    for alone in (True, False):

        def spied(tree: UpperTree, parts: list[Part], least: int, most: int, alone: bool = alone) -> list[Together]:
            groups = put_together(tree, parts, least, 0 if alone else most)
            n_groups.append((len(parts), len(groups)))
            return groups

        monkeypatch.setattr(updating, "put_together", spied)
        monkeypatch.setattr(together, "_FULL", full)
        monkeypatch.setattr(updating, "_LEAST_GROUPS", 1)
        tree, generator = grown()
        for _ in range(4):
            gone = generator.permutation(sorted(tree.rows))[:60].tolist()
            tree.change(random_rows(generator, 40, PLAIN), gone, threads=2)
            tree.check()
        found.append(tree.leaves())
    assert any(groups < parts / 2 for parts, groups in n_groups)
    assert set(found[0]) == set(found[1])


@pytest.mark.parametrize("space", [PLAIN, MIXED], ids=["plain", "mixed"])
def test_small_batches_all_over(space: Space) -> None:
    generator = np.random.default_rng(3)
    tree = GrowingTree(space, 3)
    tree.change(random_rows(generator, 5000, tree.space), [])
    for _ in range(6):
        gone = generator.permutation(sorted(tree.rows))[:200].tolist()
        tree.change(random_rows(generator, 50, tree.space), gone)
        tree.check()
