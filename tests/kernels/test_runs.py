"""Columns as a dictionary and runs of its entries, or as plain values where these are nearly all different."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.plainruns import END_BYTES, PACKED_PER_BYTE
from rtree_anon.kernels.runs import (
    LEAST_PLAIN_RUNS,
    LEAST_SLOTS,
    MOST_GROWTH,
    MOST_RUN_BYTES,
    SLOTS_PER_VALUE,
    bytes_of_numbers,
    encode_columns,
    join_runs,
    number_values,
    write_runs,
)
from tests.naive import runs_of_bytes, unpacked_lz4


def slots_for(n: int) -> np.ndarray:
    return np.empty(max(SLOTS_PER_VALUE * n, LEAST_SLOTS), np.int32)


def numbered(values: np.ndarray) -> tuple[list[int], list[int]]:
    """The distinct values, and the numbers."""
    n = len(values)
    numbers, distinct = np.empty(n, np.int32), np.empty(n + 1, values.dtype)
    n_distinct = number_values(values, numbers, distinct, slots_for(n))
    return distinct[:n_distinct].tolist(), numbers.tolist()


@settings(deadline=None)  # the first call may have to compile
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.just(2**40), min_size=1, max_size=60))
def test_values_are_numbered_in_the_order_of_their_first_appearance(values: list[int]) -> None:
    seen = list(dict.fromkeys(values))
    assert numbered(np.array(values)) == (seen, [seen.index(value) for value in values])


@settings(deadline=None)  # the first call may have to compile
@given(
    st.integers(0, 2**32),
    st.integers(1, 3000),
    st.sampled_from([2, 7, 3000, 10**6, 2**31 - 1]) | st.integers(2, SLOTS_PER_VALUE * 3000),
    st.sampled_from([np.int32, np.int64]),
)
def test_few_values_and_many_in_spans_of_all_widths(seed: int, n: int, span: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    ends = np.iinfo(dtype)
    least = [int(ends.min), int(ends.max) - span + 1, -(span // 2)][seed % 3]
    values = (least + rng.integers(0, span, n)).astype(dtype)
    values[rng.integers(0, n, 2)] = least, least + span - 1  # as wide as that
    seen = list(dict.fromkeys(values.tolist()))
    place = {value: number for number, value in enumerate(seen)}
    assert numbered(values) == (seen, [place[value] for value in values.tolist()])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_many_values_that_fall_on_few_slots(dtype: type) -> None:
    values = (np.arange(5000) % 1700 << 12).astype(dtype)
    distinct, numbers = numbered(values)
    assert (np.array(distinct)[numbers] == values).all() and numbers[:1700] == list(range(1700))


@settings(deadline=None)  # the first call may have to compile
@given(
    st.lists(st.tuples(st.integers(0, 5) | st.integers(0, 2**31 - 1), st.integers(1, 2**40)), min_size=1, max_size=30)
)
def test_runs_say_how_often_every_number_comes(runs: list[tuple[int, int]]) -> None:
    for n_bytes in range(1, 5):
        kept = [(number % 256**n_bytes, length) for number, length in runs]
        numbers, lengths = (np.array(part) for part in zip(*kept, strict=True))
        out = np.empty(len(kept) * MOST_RUN_BYTES, np.uint8)
        written = out[: write_runs(numbers.astype(np.int32), lengths, n_bytes, out)].tobytes()
        assert runs_of_bytes(written, n_bytes) == kept


@settings(deadline=None)  # the first call may have to compile
@given(st.lists(st.tuples(st.integers(0, 2) | st.integers(0, 2**31 - 1), st.integers(1, 2**40)), min_size=1))
def test_neighbours_with_the_same_value_are_joined(runs: list[tuple[int, int]]) -> None:
    values, lengths = (np.array(part) for part in zip(*runs, strict=True))
    joined, joined_lengths = np.empty_like(values), np.empty_like(lengths)
    n = join_runs(values, lengths, joined, joined_lengths)
    expected = [(value, sum(run[1] for run in same)) for value, same in groupby(runs, lambda run: run[0])]
    assert list(zip(joined[:n].tolist(), joined_lengths[:n].tolist(), strict=True)) == expected


@settings(deadline=None)  # the first call may have to compile
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 400), st.sampled_from([np.int32, np.int64]))
def test_columns_of_a_row_group_stand_one_after_the_other(seed: int, n_columns: int, n: int, dtype: type) -> None:
    gap = seed % 7
    rng = np.random.default_rng(seed)
    spans = rng.choice([1, 5, 10 * n, np.iinfo(dtype).max], n_columns)
    values = np.array([rng.integers(-span, span, n) for span in spans]).astype(dtype)
    lengths = rng.integers(1, 200, n)
    distinct, runs = np.empty(n_columns * n + 1, dtype), np.empty(n_columns * (n * MOST_RUN_BYTES + gap), np.uint8)
    ends, run_ends = np.zeros((2, n_columns + 1), np.int64)
    sizes, prefix = np.zeros(n_columns, np.int64), np.empty(0, np.uint8)
    encode_columns(values, lengths, sizes, prefix, slots_for(n), distinct, ends[1:], gap, runs, run_ends[1:])
    for c in range(n_columns):
        found = distinct[ends[c] : ends[c + 1]]
        assert found.tolist() == list(dict.fromkeys(values[c].tolist()))
        of_bytes = runs_of_bytes(runs[run_ends[c] + gap : run_ends[c + 1]].tobytes(), bytes_of_numbers(len(found)))
        rows = np.concatenate([np.full(length, found[number]) for number, length in of_bytes])
        assert (rows == np.repeat(values[c], lengths)).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_columns_of_values_of_their_own_need_no_dictionary(dtype: type) -> None:
    rng = np.random.default_rng(0)
    n, gap, prefix = LEAST_PLAIN_RUNS * 2, 5, np.arange(8, dtype=np.uint8)
    spans = [2, 60, 1000, 10**4, 10**5, 10**9]
    columns = [rng.integers(-span, span, n) for span in [*spans, 10**9]]
    columns += [np.where(np.arange(n) < 4, columns[-1], 7), columns[-1]]
    values, lengths = np.array(columns).astype(dtype), rng.integers(5, 9, n)
    sizes = np.full(len(values), 4)
    sizes[-1] = 0  # may not be plain
    distinct = np.empty(values.size + 1, dtype)
    more = gap + len(prefix) + END_BYTES + 8 * int(lengths.sum()) // PACKED_PER_BYTE
    runs = np.empty(values.size * MOST_RUN_BYTES + len(values) * more, np.uint8)
    ends, run_ends = np.zeros((2, len(values) + 1), np.int64)
    encode_columns(values, lengths, sizes, prefix, slots_for(n), distinct, ends[1:], gap, runs, run_ends[1:])
    plain = [ends[c] == ends[c + 1] for c in range(len(values))]
    assert plain == [False, False, False, False, True, True, True, False, False]
    for c in range(len(values)):
        written = runs[run_ends[c] + gap : run_ends[c + 1]].tobytes()
        rows = np.repeat(values[c], lengths).astype(np.int32)
        if not plain[c]:
            found = distinct[ends[c] : ends[c + 1]]
            of_bytes = runs_of_bytes(written, bytes_of_numbers(len(found)))
            assert (np.concatenate([np.full(length, found[number]) for number, length in of_bytes]) == rows).all()
            continue
        assert unpacked_lz4(written) == prefix.tobytes() + rows.tobytes()
        n_distinct = len(np.unique(values[c]))
        assert len(written) < 1.05 * MOST_GROWTH * (n * (1 + bytes_of_numbers(n_distinct)) + 4 * n_distinct)
