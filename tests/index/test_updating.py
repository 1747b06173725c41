"""Batches of inserts and deletes: whatever comes, the tree holds the rows that it should, in leaves of at least k."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import CorruptionError
from rtree_anon.space import Space
from tests.index.growing import MIXED, PLAIN, GrowingTree, random_rows

BATCHES = st.lists(st.tuples(st.integers(0, 120), st.floats(0, 1)), min_size=1, max_size=6)


@pytest.mark.parametrize("space", [PLAIN, MIXED], ids=["plain", "mixed"])
@settings(max_examples=25, deadline=None)
@given(batches=BATCHES, k=st.sampled_from([1, 2, 5]), seed=st.integers(0, 2**20))
def test_any_batches(space: Space, batches: list[tuple[int, float]], k: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = GrowingTree(space, k)
    for n_new, share in batches:
        there = np.array(sorted(tree.rows), np.int64)
        gone = there[generator.random(len(there)) < share]
        tree.change(random_rows(generator, n_new, space), gone.tolist())
        tree.check()


@pytest.mark.parametrize("quality", ["fast", "balanced", "best"])
def test_many_bundles(quality: str) -> None:
    generator = np.random.default_rng(5)
    tree = GrowingTree(PLAIN, 5, quality=quality)
    tree.change(random_rows(generator, 6000, PLAIN), [])
    tree.check()
    assert len(tree.tree) > 20
    for _ in range(4):
        gone = generator.permutation(sorted(tree.rows))[:1500]
        tree.change(random_rows(generator, 700, PLAIN), gone.tolist(), threads=2)
        tree.check()


def test_all_rows_of_one_corner_go() -> None:
    """Whole subtrees become empty, across bundles, and what is left of them finds another leaf."""
    generator = np.random.default_rng(6)
    tree = GrowingTree(PLAIN, 5)
    tree.change(random_rows(generator, 5000, PLAIN), [])
    corner = [row for row, codes in tree.rows.items() if codes[0] < 700 and row % 97]
    tree.change(random_rows(generator, 0, PLAIN), corner)
    tree.check()
    tree.change(random_rows(generator, 0, PLAIN), sorted(tree.rows)[3:])
    tree.check()
    assert len(tree.leaves()) == 1  # too few rows for k: a single leaf, which cannot be released
    tree.change(random_rows(generator, 0, PLAIN), sorted(tree.rows))
    tree.check()
    assert len(tree.tree) == 0 and len(tree.store.page_ids()) == 0
    tree.change(random_rows(generator, 300, PLAIN), [])
    tree.check()


def test_equal_rows_make_a_leaf_of_several_pages() -> None:
    generator = np.random.default_rng(7)
    tree = GrowingTree(PLAIN, 5)
    tree.change(random_rows(generator, 400, PLAIN), [])
    same = np.tile(np.array([[77, 77, 1]]), (3000, 1))
    tree.change(same, [])
    tree.check()
    assert int(tree.tree.n_pages.max()) > 1
    tree.change(same[:1], [row for row, codes in tree.rows.items() if codes[:2] == (77, 77)][10:])
    tree.check()


def test_leaves_that_are_not_touched_keep_their_rows() -> None:
    generator = np.random.default_rng(8)
    tree = GrowingTree(PLAIN, 5)
    tree.change(random_rows(generator, 4000, PLAIN), [])
    for _ in range(20):
        before = tree.leaves()
        gone = [int(generator.choice(sorted(tree.rows)))]
        outcome = tree.change(random_rows(generator, 1, PLAIN), gone)
        after = set(tree.leaves())
        changed = [leaf for leaf in before if leaf not in after]
        # The leaf of the new row, that of the old one, and those to which its other rows went if it was dissolved.
        assert sum(map(len, changed)) <= outcome.n_recut + (tree.k + 1) * (2 * tree.k - 1)
        assert outcome.n_bundles <= 4
        tree.check()


def test_batches_do_not_wear_the_tree_out() -> None:
    """As many leaves as a fresh tree has, within a few percent."""
    generator = np.random.default_rng(9)
    rows = random_rows(generator, 12_000, PLAIN)
    fresh, grown = GrowingTree(PLAIN, 5), GrowingTree(PLAIN, 5)
    fresh.change(rows, [])
    for part in np.array_split(rows, 12):
        grown.change(part, [])
    assert len(grown.leaves()) > 0.95 * len(fresh.leaves())


def test_the_number_of_threads_does_not_matter() -> None:
    trees = []
    for threads in (1, 3):
        generator = np.random.default_rng(10)
        tree = GrowingTree(MIXED, 3)
        for _ in range(3):
            gone = generator.permutation(sorted(tree.rows))[:300].tolist()
            tree.change(random_rows(generator, 900, MIXED), gone, threads=threads)
        trees.append(tree)
    assert trees[0].leaves() == trees[1].leaves()
    assert trees[0].tree.to_bytes() == trees[1].tree.to_bytes()


def test_a_row_that_is_not_where_the_directory_says() -> None:
    generator = np.random.default_rng(11)
    tree = GrowingTree(PLAIN, 5)
    tree.change(random_rows(generator, 2000, PLAIN), [])
    one, other = 3, next(row for row in tree.names if tree.names[row] != tree.names[3])
    tree.names[one] = tree.names[other]
    with pytest.raises(CorruptionError, match="directory"):
        tree.change(random_rows(generator, 0, PLAIN), [one])
