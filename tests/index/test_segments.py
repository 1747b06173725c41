"""Segments: whole bundles in order, large enough, where the tree has its seams."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.index.cuts import Cuts
from rtree_anon.index.segments import IndexSegments, segment_ends, segment_rows_for
from rtree_anon.release.bounds import tree_regions
from tests.index.making import tiny


def random_cuts(rng: np.random.Generator, n: int) -> Cuts:
    """A random tree over n things."""
    depth = np.empty(n - 1, np.int64)

    def divide(begin: int, end: int, level: int) -> None:
        if end - begin > 1:
            at = int(rng.integers(begin, end - 1))
            depth[at] = level
            divide(begin, at + 1, level + 1)
            divide(at + 1, end, level + 1)

    divide(0, n, 0)
    zeros = np.zeros(n - 1, np.int64)
    return Cuts.from_vectors(depth, zeros, zeros, zeros)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 60), st.integers(1, 400), st.integers(0, 2**32))
def test_segments_are_a_division_into_large_enough_parts(n: int, aim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_rows = rng.integers(1, 100, n)
    ends = segment_ends(random_cuts(rng, n), n_rows, aim)
    assert ends == sorted(set(ends)) and ends[-1] == n and ends[0] > 0
    sizes = np.diff(np.concatenate(([0], np.cumsum(n_rows)))[[0, *ends]])
    assert len(sizes) == 1 or sizes.min() >= aim // 4
    # No more than a piece and what was too small beside it.
    assert sizes.max() <= max(aim, n_rows.max()) + 2 * (aim // 4)


def test_no_bundles_no_segments() -> None:
    assert segment_ends(Cuts.none(), np.empty(0, np.int64), 100) == []


def test_all_k_up_to_1024_have_the_same_seams() -> None:
    assert {segment_rows_for(k) for k in (1, 5, 10, 500, 1024)} == {65_536}
    assert segment_rows_for(1025) == 131_072 and segment_rows_for(10_000) >= 640_000


def test_segments_have_every_row_once_with_its_region(tmp_path: Path) -> None:
    source = ra.generate("patients", 900, seed=8)
    schema = ra.Schema(["age", "zip", "sex", "education"], sensitive=["diagnosis"])
    with tiny(), ra.Index.create(tmp_path / "i", schema, k=3) as index:
        index.load(source)
        view = index._current
        ends = segment_ends(view.tree.cuts, view.tree.n_rows, 64)
        unread = list(IndexSegments(view, ends, with_regions=True, with_depths=True)())
        segments = [each.read() for each in unread]
        assert len(segments) > 5
        assert [each.n_rows for each in unread] == [segment.table.n_rows for segment in segments]
        assert sum(segment.table.n_rows for segment in segments) == 900
        assert sum(len(segment.leaf_starts) - 1 for segment in segments) == int(view.tree.n_leaves.sum())
        for segment in segments:
            assert np.diff(segment.leaf_starts).min() >= 3
            regions = segment.regions
            assert regions is not None and segment.depths is not None
            assert len(segment.depths) == len(segment.leaf_starts) - 2
            leaf = np.repeat(np.arange(len(segment.leaf_starts) - 1), np.diff(segment.leaf_starts))
            codes = segment.table.codes.astype(np.int64)
            missing = np.iinfo(segment.table.codes.dtype).min
            for number, axis in enumerate(view.space.axes):
                if axis.kind.name == "SET":
                    bit = np.uint64(1) << np.where(codes[:, number] == missing, 63, codes[:, number]).astype(np.uint64)
                    assert ((regions.mask[leaf, number] & bit) != 0).all()
                else:
                    assert (regions.lo[leaf, number] <= codes[:, number]).all()
                    assert (codes[:, number] <= regions.hi[leaf, number]).all()


def test_regions_are_those_of_the_tree_in_memory(tmp_path: Path) -> None:
    """Where a table is one bucket, the index has the tree that is built in memory: the same regions, leaf by leaf."""
    from rtree_anon.io.table import read_table
    from rtree_anon.tree import build_tree

    source = ra.generate("patients", 400, seed=9)
    schema = ra.Schema.infer(source, ["age", "zip", "sex"])
    table = read_table(source, schema)
    tree = build_tree(table.codes, table.space, 4, quality="fast", threads=1)
    expected = tree_regions(tree, table.coders)
    with ra.Index.create(tmp_path / "i", schema, k=4, quality="fast") as index:
        index.load(source)
        (unread,) = IndexSegments(index._current, [len(index._current.tree)], with_regions=True)()
        segment = unread.read()
    found = segment.regions
    assert found is not None
    order = tree.order

    def listed(lo: np.ndarray, hi: np.ndarray, mask: np.ndarray) -> list[tuple[object, ...]]:
        is_set = [axis.kind.name == "SET" for axis in table.space.axes]
        return [
            tuple(int(m) if s else (int(a), int(b)) for a, b, m, s in zip(x, y, z, is_set, strict=True))
            for x, y, z in zip(lo, hi, mask, strict=True)
        ]

    assert listed(found.lo, found.hi, found.mask) == listed(
        expected.lo[order], expected.hi[order], expected.mask[order]
    )
