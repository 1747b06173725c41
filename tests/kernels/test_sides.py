"""Both sides of every cut: widths and the cheapest cut, against plain loops; on both sides of a vector's end."""

from __future__ import annotations

import math

import numba
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.sides import (
    LANES,
    ROOM,
    SETS,
    cheapest_cut,
    sets_of_members,
    sweep_set_sides,
    sweep_sides,
    unite_sets,
    widest_axis,
)

nodes = st.tuples(st.integers(1, 7), st.integers(0, 40), st.integers(0, 2**32 - 1))  # k, rows beyond 2 k, seed


@numba.njit
def swept(points, order, m, k, more, left, right):  # type: ignore[no-untyped-def]
    sweep_sides(points, order, m, k, more, left, right)


@numba.njit
def swept_sets(bits, order, m, k, axis, n_axes, scale, full, left, right):  # type: ignore[no-untyped-def]
    sweep_set_sides(bits, order, m, k, axis, n_axes, scale, full, left, right)


@numba.njit
def cheapest(left, right, keys, worth, m, k, spare):  # type: ignore[no-untyped-def]
    return cheapest_cut(left, right, keys, worth, m, k, spare)


@numba.njit
def widest(widths, n):  # type: ignore[no-untyped-def]
    return widest_axis(widths, n)


@numba.njit
def united(bits, rows, order, begin, end, one, other):  # type: ignore[no-untyped-def]
    unite_sets(bits, order, begin, end, one)
    sets_of_members(rows, order, begin, end, np.int64(1), other, np.int64(1), np.int64(0))


def sorted_members(rng: np.random.Generator, m: int) -> np.ndarray:
    return np.concatenate((rng.permutation(m), rng.integers(0, m, ROOM))).astype(np.uint32)


@settings(max_examples=100, deadline=None)
@given(nodes)
def test_both_sides_are_measured(node: tuple[int, int, int]) -> None:
    k, beyond, seed = node
    m, rng = 2 * k + beyond, np.random.default_rng(seed)
    points = rng.integers(-50, 50, (m, LANES)).astype(np.float32)
    order = sorted_members(rng, m)
    there = rng.integers(0, 9, (2, m + 1 + ROOM)).astype(np.float64)
    for more in (False, True):
        left, right = there.copy()
        swept(points, order, m, k, more, left, right)
        for i in range(k, m - k + 1):
            for found, before, side in ((left, there[0], order[:i]), (right, there[1], order[i:m])):
                assert found[i] == np.ptp(points[side], axis=0).sum() + (before[i] if more else 0.0)


@settings(max_examples=100, deadline=None)
@given(nodes, st.integers(1, SETS), st.booleans())
def test_sets_of_both_sides_are_measured(node: tuple[int, int, int], n_axes: int, missing: bool) -> None:
    k, beyond, seed = node
    m, rng = 2 * k + beyond, np.random.default_rng(seed)
    codes = rng.integers(0, 5, (m, SETS))
    codes[(codes == 4) & missing] = 63
    bits = np.uint64(1) << codes.astype(np.uint64)
    bits[:, n_axes:] = 0
    order = sorted_members(rng, m)
    scale, full = np.array([0.0, 0.25, 0.5]), np.array([0.0, 7.0, 9.0])
    left, right = np.zeros((2, m + 1 + ROOM))
    swept_sets(bits, order, m, k, 1, 1 + n_axes, scale, full, left, right)

    def width(side: np.ndarray) -> float:
        total = 0.0
        for a in range(n_axes):
            values = set(codes[side, a].tolist())
            total += full[1 + a] if 63 in values and len(values) > 1 else (len(values) - 1) * scale[1 + a]
        return total

    for i in range(k, m - k + 1):
        assert (left[i], right[i]) == (width(order[:i]), width(order[i:m]))


@settings(max_examples=200, deadline=None)
@given(nodes, st.integers(0, 7))
def test_the_first_of_the_cheapest_cuts_is_found(node: tuple[int, int, int], spare: int) -> None:
    k, beyond, seed = node
    m, rng = 2 * k + beyond, np.random.default_rng(seed)
    n_rows = m + int(rng.integers(0, 9))
    left, right = rng.integers(0, 4, (2, m + 1 + ROOM)).astype(np.float64)
    keys = np.concatenate((np.sort(rng.integers(0, 1 + m // 2, m)), rng.integers(0, 9, ROOM)))
    worth = np.zeros((3, n_rows + 1 + ROOM))
    worth[0, : n_rows + 1] = rng.integers(1, 4, n_rows + 1)
    worth[1, : n_rows + 1] = worth[0, n_rows::-1]
    worth[2, : n_rows + 1] = np.arange(n_rows + 1) % k
    prices = {
        i: worth[0, i] * left[i] + worth[0, m - i] * right[i]
        for i in range(k, m - k + 1)
        if keys[i] != keys[i - 1] and i % k <= spare
    }
    expected = min(prices, key=lambda i: prices[i], default=-1)
    at, price = cheapest(left, right, keys, worth, m, k, spare)
    assert (at, price) == (expected, prices.get(expected, math.inf))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_the_first_of_the_widest_axes_is_found(widths: list[int]) -> None:
    padded = np.array([*widths, *[0] * (-len(widths) % LANES)], np.float64)
    expected = widths.index(max(widths)) if max(widths) > 0 else -1
    assert widest(padded, len(widths)) == expected


def test_sets_are_united() -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 64, (30, 4)).astype(np.int32)
    bits = np.uint64(1) << rows[:, 1 : 1 + SETS].astype(np.uint64)
    order = sorted_members(rng, 30)
    for begin, end in ((0, 1), (3, 20), (0, 30)):
        one, other = np.zeros(SETS, np.uint64), np.zeros((2, SETS), np.uint64)
        united(bits, rows, order, begin, end, one, other)
        expected = np.bitwise_or.reduce(bits[order[begin:end]])
        assert one.tolist() == other[1].tolist() == expected.tolist()
