"""Many bundles read at once are what they are one by one; the first that is damaged is where reading stops."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import CorruptionError
from rtree_anon.index.bucket import Bundles
from rtree_anon.index.bundle import Bundle
from rtree_anon.kernels.leafrows import read_bundles
from rtree_anon.space import missing_code
from rtree_anon.storage.page import payloads
from tests.kernels.test_bundles import MISSING, cut_to_bundles
from tests.tables import Table, tables

Read = tuple[list[list[int]], list[int]]


def one_by_one(bundles: Bundles, d: int, dtype: type) -> tuple[int, Read]:
    """How many bundles there are before the first that is damaged or has several pages; their codes and leaf starts."""
    codes: list[list[int]] = []
    starts = [0]
    first = np.cumsum(bundles.n_pages) - bundles.n_pages
    for number, page in enumerate(first.tolist()):
        content = payloads(bundles.pages)[page, : bundles.lengths[page]]
        try:
            bundle = Bundle(content, d + 1, int(bundles.n_rows[number]), int(bundles.n_leaves[number]))
            here = bundle.columns(0, d, dtype)
            leaves = bundle.starts[1:] + starts[-1]
        except CorruptionError:
            return number, (codes, starts)
        wide = np.where(here == missing_code(dtype), MISSING, here.astype(np.int64))
        if (wide.min(axis=0) != bundles.lo[number]).any() or (wide.max(axis=0) != bundles.hi[number]).any():
            return number, (codes, starts)
        codes += here.tolist()
        starts += leaves.tolist()
    return len(first), (codes, starts)


def at_once(bundles: Bundles, d: int, dtype: type, begin: int = 0) -> tuple[int, Read]:
    first = np.cumsum(bundles.n_pages) - bundles.n_pages
    at_row, at_leaf = (np.concatenate(([0], np.cumsum(n))) for n in (bundles.n_rows, bundles.n_leaves))
    codes, starts = np.zeros((int(at_row[-1]), d), dtype), np.zeros(int(at_leaf[-1]) + 1, np.int64)
    n_bytes = np.where(bundles.n_pages == 1, bundles.lengths[first], 0).astype(np.int64)
    n_read = read_bundles(
        payloads(bundles.pages).view(np.uint64),
        first,
        n_bytes,
        at_row,
        at_leaf,
        bundles.lo,
        bundles.hi,
        np.int64(MISSING),
        np.int64(missing_code(dtype)),
        begin,
        codes,
        np.empty((len(codes), 0), np.int64),
        starts,
    )
    return n_read, (codes[: at_row[n_read]].tolist(), starts[: at_leaf[n_read] + 1].tolist())


@settings(max_examples=80, deadline=None)
@given(tables(max_rows=120), st.integers(1, 6), st.sampled_from([1024, 4096]), st.booleans())
def test_bundles_read_at_once_are_what_they_are_one_by_one(
    table: Table, k: int, page_bytes: int, with_ids: bool
) -> None:
    _, bundles, _ = cut_to_bundles(table, k, page_bytes, with_ids)
    d = len(table.space)
    for dtype in {np.int64, table.codes.dtype.type}:
        found = at_once(bundles, d, dtype)
        assert found == one_by_one(bundles, d, dtype)
        long = np.flatnonzero(bundles.n_pages > 1)  # a leaf that fills several pages is left to another reader
        assert found[0] == (long[0] if len(long) else len(bundles.n_pages))


@settings(max_examples=300, deadline=None)
@given(
    tables(min_rows=30, max_rows=120),
    st.integers(0, 2**32),
    st.sampled_from(["word", "head", "length", "count", "box"]),
    st.integers(0, 63),
)
def test_reading_stops_at_a_damaged_bundle(table: Table, seed: int, what: str, bit: int) -> None:
    _, bundles, _ = cut_to_bundles(table, 2, 1024, with_ids=True)
    rng, d = np.random.default_rng(seed), len(table.space)
    if bundles.n_pages.max() > 1:
        return
    number = int(rng.integers(len(bundles.pages)))
    n_words = int(bundles.lengths[number]) // 8
    if what in ("word", "head"):
        place = rng.integers(n_words if what == "word" else min(n_words, 2 + 2 * (d + 6)))
        payloads(bundles.pages).view(np.uint64)[number, place] ^= np.uint64(1) << np.uint64(bit)
    elif what == "length":
        bundles.lengths[number] -= int(rng.integers(1, 17))
    elif what == "count":
        counts = bundles.n_leaves if bit % 2 else bundles.n_rows
        counts[number] += 1 if bit % 4 < 2 or counts[number] == 1 else -1
    else:
        (bundles.lo if bit % 2 else bundles.hi)[number, rng.integers(d)] ^= 1
    found = at_once(bundles, d, np.int64)
    assert found == one_by_one(bundles, d, np.int64)
    if what not in ("word", "head"):  # a flipped bit may be that of an id or of a cut
        assert found[0] <= number
