"""Bundles: rows, ids and cuts come back from their few bits, and every bundle fits its page."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import CorruptionError
from rtree_anon.index.bucket import Bundles, Cutter, set_first_ids
from rtree_anon.index.bundle import Bundle
from rtree_anon.index.rowlayout import layout_of, quasi_ranges
from rtree_anon.kernels.bundles import HEADER_WORDS, MISSING_IS_ZERO, get_vector, put_vector
from rtree_anon.kernels.rowwords import pack_columns
from rtree_anon.space import missing_code
from rtree_anon.storage.page import payloads
from tests.kernels.test_routing import naive_route
from tests.tables import Table, tables

MISSING = missing_code(np.int64)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=70),
    st.integers(-(2**62), 2**62),
    st.sampled_from([0, MISSING_IS_ZERO]),
    st.integers(0, 63),
)
def test_vectors_come_back(numbers: list[int], base: int, flags: int, narrow: int) -> None:
    """Entry + base (modulo 2**64), or a missing value where 0 stands for it."""
    values = np.array(numbers, np.uint64) >> np.uint64(narrow)
    n = len(values)
    bundle = np.zeros(HEADER_WORDS + 2 * 6 + 80, np.uint64)
    bundle[0], bundle[1] = np.uint64(n | (1 << 32)), 1
    begin = HEADER_WORDS + 2 * 6
    end = put_vector(values, n, 0, np.int64(base), flags, bundle, begin)
    entries = [int(value) for value in values]
    least = 0 if flags and 0 in entries else min(entries, default=0)
    bits = (max(entries, default=0) - least).bit_length()
    assert end - begin == -(-n * bits // 64)
    out = np.zeros(n, np.int64)
    get_vector(bundle, 0, n, np.int64(MISSING), out)
    for value, found in zip(entries, out.tolist(), strict=True):
        expected = (value + base + 2**63) % 2**64 - 2**63
        assert found == (MISSING if flags and value == 0 else expected)


def cut_to_bundles(table: Table, k: int, page_bytes: int, with_ids: bool) -> tuple[Cutter, Bundles, np.ndarray]:
    """The table as one bucket; ids are given by the caller or left to be set."""
    d = len(table.space)
    codes = np.where(table.codes == table.missing, MISSING, table.codes.astype(np.int64)).T
    ranges = quasi_ranges(table.space)
    if with_ids:
        ids = np.random.default_rng(len(table.rows)).permutation(len(table.rows)) * 3
        codes, ranges = np.concatenate((codes, ids[None, :])), [*ranges, (0, 3 * len(table.rows))]
    layout = layout_of(ranges)
    words = layout.empty(codes.shape[1])
    assert pack_columns(np.ascontiguousarray(codes), 0, codes.shape[1], np.int64(MISSING), layout.words, words)
    cutter = Cutter(table.space, layout, d + 1, k, "fast", page_bytes)
    return cutter, cutter.cut(words, 0), codes


def contents(bundles: Bundles, n_columns: int) -> list[Bundle]:
    found, at = [], 0
    for n_pages, n_rows, n_leaves in zip(bundles.n_pages, bundles.n_rows, bundles.n_leaves, strict=True):
        parts = [payloads(bundles.pages)[at + i, : bundles.lengths[at + i]] for i in range(n_pages)]
        found.append(Bundle(np.concatenate(parts), n_columns, int(n_rows), int(n_leaves)))
        at += int(n_pages)
    assert at == len(bundles.pages)
    return found


@settings(max_examples=80, deadline=None)
@given(tables(max_rows=120), st.integers(1, 6), st.sampled_from([1024, 4096]), st.booleans())
def test_a_bucket_comes_back_from_its_pages(table: Table, k: int, page_bytes: int, with_ids: bool) -> None:
    cutter, bundles, codes = cut_to_bundles(table, k, page_bytes, with_ids)
    d = len(table.space)
    if not with_ids:
        set_first_ids(bundles, 100 + np.cumsum(bundles.n_rows) - bundles.n_rows, d + 1)
    rows, ids = [], []
    for number, bundle in enumerate(contents(bundles, cutter.n_columns)):
        assert bundles.n_pages[number] == 1 or bundle.n_leaves == 1
        sizes = np.diff(bundle.starts)
        assert sizes.min() >= min(k, len(table.rows))
        here = bundle.columns(0, d, np.int64)
        assert np.array_equal(bundles.lo[number], here.min(axis=0)) and np.array_equal(
            bundles.hi[number], here.max(axis=0)
        )
        for place, row in enumerate(here.tolist()):
            leaf = int(np.searchsorted(bundle.starts, place, "right")) - 1
            assert naive_route(bundle.cuts, row, MISSING) == leaf
            assert naive_route(bundles.cuts, row, MISSING) == number
        rows += here.tolist()
        ids += bundle.ids.tolist()
    if with_ids:
        assert sorted(zip(ids, rows, strict=True)) == sorted(
            zip(codes[-1].tolist(), codes[:-1].T.tolist(), strict=True)
        )
    else:
        assert ids == list(range(100, 100 + len(table.rows)))
        assert sorted(rows) == sorted(codes.T.tolist())


def test_counts_that_differ_from_the_tree_are_damage() -> None:
    table = Table(np.arange(40, dtype=np.int32).reshape(40, 1), _linear_space(40))
    cutter, bundles, _ = cut_to_bundles(table, 5, 4096, True)
    (bundle,) = contents(bundles, cutter.n_columns)
    content = bundle.words.view(np.uint8)
    for n_columns, n_rows, n_leaves in ((2, 39, bundle.n_leaves), (2, 40, 1), (3, 40, bundle.n_leaves)):
        with pytest.raises(CorruptionError):
            Bundle(content, n_columns, n_rows, n_leaves)
    with pytest.raises(CorruptionError):
        Bundle(content[:-8], 2, 40, bundle.n_leaves)


def _linear_space(n: int):  # type: ignore[no-untyped-def]
    from rtree_anon.space import Axis, Kind, Space

    return Space((Axis("a", Kind.LINEAR, 0, n - 1),))
