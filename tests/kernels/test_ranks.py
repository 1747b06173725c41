"""Ranks of a few numbers, with and without equal ones, on both sides of a vector's end."""

from __future__ import annotations

import numba
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.ranks import FEW, ROOM, count_smaller, cut_few_near, rank_all
from tests import naive

few_codes = st.lists(st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=FEW)


@numba.njit
def found_out(codes: np.ndarray, n: int, counts: np.ndarray, ranks: np.ndarray) -> None:
    count_smaller(codes, n, counts)
    rank_all(codes, n, ranks)


def with_room(codes: list[int]) -> np.ndarray:
    """What lies behind the numbers must not matter."""
    return np.array([*codes, *range(-ROOM, 0)], np.int32)


@settings(max_examples=200, deadline=None)
@given(few_codes)
def test_every_number_finds_its_place(codes: list[int]) -> None:
    n = len(codes)
    counts, ranks = np.full(n + ROOM, -1, np.int32), np.full(n + ROOM, -1, np.int32)
    found_out(with_room(codes), n, counts, ranks)
    assert counts[:n].tolist() == [sum(other < code for other in codes) for code in codes]
    assert sorted(range(n), key=lambda i: int(ranks[i])) == sorted(range(n), key=lambda i: codes[i])
    assert sorted(ranks[:n].tolist()) == list(range(n))


@settings(max_examples=200, deadline=None)
@given(few_codes, st.integers(1, 10), st.integers(0, 2 * FEW))
def test_the_nearest_cut_is_found_without_sorting(codes: list[int], k: int, twice: int) -> None:
    n = len(codes)
    left, threshold = cut_few_near(with_room(codes), n, k, twice, np.empty(n + ROOM, np.int32))
    assert (left, threshold if left else None) == naive.cut_near(codes, k, twice)
