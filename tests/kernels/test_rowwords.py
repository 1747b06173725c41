"""Rows in machine words: what is packed comes back, sorted by bucket, and what does not fit is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import UsageError
from rtree_anon.index.rowlayout import RowLayout, layout_of
from rtree_anon.kernels.routing import gather_buckets, sort_packed
from rtree_anon.kernels.rowwords import pack_columns, unpack_column, unpack_rows
from rtree_anon.space import missing_code

RANGES = st.one_of(
    st.tuples(st.integers(-50, 50), st.integers(0, 80)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    st.sampled_from([(0, -1), (5, 5), (-(2**31) + 1, 2**31 - 1), (-(2**62), 2**62), (0, 2**63 - 1), (-(2**63) + 1, 0)]),
)


def random_codes(seed: int, n: int, ranges: list[tuple[int, int]], dtype: Any = np.int64) -> Any:
    """codes[column, row] inside the ranges, both ends among them, and missing values."""
    rng = np.random.default_rng(seed)
    codes = np.empty((len(ranges), n), dtype)
    for column, (lo, hi) in enumerate(ranges):
        absent = rng.random(n) < (0.2 if lo <= hi else 1.1)
        values = rng.integers(lo, hi, n, endpoint=True) if lo <= hi else np.zeros(n, np.int64)
        values[: n // 8], values[n // 8 : n // 4] = lo, hi
        codes[column] = np.where(absent, missing_code(dtype), values)
    return codes


def naive_pack(layout: RowLayout, codes: Any, missing: int) -> list[list[int]]:
    """Every column in its bits of its word, from the definition."""
    rows = []
    for row in codes.T.tolist():
        words = [0] * layout.n_words
        for column, code in enumerate(row):
            stored = 0 if code == missing else code - layout.ranges[column][0] + 1
            words[int(layout.words.word[column])] |= stored << int(layout.words.shift[column])
        rows.append(words)
    return rows


@settings(deadline=None)
@given(st.lists(RANGES, min_size=1, max_size=9), st.integers(0, 40), st.integers(0, 2**32))
def test_packed_rows_are_the_definition_and_come_back(ranges: list[tuple[int, int]], n: int, seed: int) -> None:
    layout = layout_of(ranges)
    codes = random_codes(seed, n, ranges)
    missing = missing_code(np.int64)
    words = layout.empty(n)
    assert pack_columns(codes, 0, n, np.int64(missing), layout.words, words)
    assert words.tolist() == naive_pack(layout, codes, missing)
    back = np.empty((n, len(ranges)), np.int64)
    unpack_rows(words, layout.words, 0, np.arange(len(ranges)), np.full(len(ranges), missing), back)
    assert np.array_equal(back.T, codes)
    for column in range(len(ranges)):
        one = np.empty(n, np.int64)
        unpack_column(words, layout.words, column, np.int64(missing), one)
        assert np.array_equal(one, codes[column])


@settings(deadline=None)
@given(st.lists(RANGES, min_size=1, max_size=9))
def test_no_column_shares_a_bit_with_another(ranges: list[tuple[int, int]]) -> None:
    layout = layout_of(ranges)
    taken: set[tuple[int, int]] = set()
    for column, (lo, hi) in enumerate(ranges):
        word, shift = int(layout.words.word[column]), int(layout.words.shift[column])
        bits = {(word, shift + bit) for bit in range(max(hi - lo + 1, 0).bit_length())}
        assert not taken & bits and all(0 <= bit < 64 for _, bit in bits)
        taken |= bits


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(0, 2**32), st.sampled_from([-1, 1]))
def test_a_value_outside_its_range_is_noticed(n: int, seed: int, side: int) -> None:
    ranges = [(3, 9), (-4, 100)]
    layout = layout_of(ranges)
    codes = random_codes(seed, n, ranges, np.int32)
    missing = np.int64(missing_code(np.int32))
    assert pack_columns(codes, 0, n, missing, layout.words, layout.empty(n))
    codes[seed % 2, seed % n] = 2 if side < 0 and seed % 2 == 0 else -5 if side < 0 else 101
    assert not pack_columns(codes, 0, n, missing, layout.words, layout.empty(n))


def test_more_than_64_bits_are_refused() -> None:
    with pytest.raises(UsageError, match="more than 64 bits"):
        layout_of([(-(2**63), 2**63)])


@settings(deadline=None)
@given(st.integers(0, 1500), st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32))
def test_rows_are_sorted_by_bucket_and_gathered_from_batches(n: int, n_buckets: int, n_batches: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranges = [(0, 10**6), (-5, 5)]
    layout, missing = layout_of(ranges), np.int64(missing_code(np.int64))
    codes = random_codes(seed, n, ranges)
    bucket = rng.integers(0, n_buckets, n).astype(np.uint32)
    bounds = np.sort(rng.integers(0, n + 1, n_batches - 1)).tolist()
    words = layout.empty(n)
    first_rows, all_starts = [], []
    for begin, end in zip([0, *bounds], [*bounds, n], strict=True):
        counts = np.bincount(bucket[begin:end], minlength=n_buckets)
        starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        assert sort_packed(
            codes[:, begin:end], missing, layout.words, bucket[begin:end], starts[:-1].copy(), words[begin:end]
        )
        first_rows.append(begin)
        all_starts.append(starts.astype(np.int32))
    packed = np.array(naive_pack(layout, codes, int(missing)), np.uint64).reshape(n, layout.n_words)
    first, last = sorted(rng.integers(0, n_buckets + 1, 2).tolist())
    out = layout.empty(n)
    n_found = gather_buckets(words, np.array(first_rows), np.stack(all_starts), first, last, out)
    expected = [packed[bucket == b] for b in range(first, last)]
    assert n_found == sum(map(len, expected))
    assert np.array_equal(out[:n_found], np.concatenate([layout.empty(0), *expected]))
