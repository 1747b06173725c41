"""From codes to kernel codes and back: nothing is lost, and order is kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rtree_anon.kernels import gauge as g
from rtree_anon.space import Axis, Kind, Space, missing_code
from rtree_anon.tree.grid import axis_positions, decode_floats, leaves_below, make_grid
from tests import naive
from tests.tables import Table, random_hierarchy, tables


@settings(max_examples=200, deadline=None)
@given(tables())
def test_kernel_codes_come_back_as_the_same_codes(table: Table) -> None:
    grid, rows = make_grid(table.codes, table.space)
    assert rows.dtype == np.int32
    assert rows.flags.c_contiguous
    assert rows[:, -1].tolist() == list(range(len(table.rows)))
    assert sorted(grid.axis_of_column) == list(range(len(table.space)))
    for a, column in enumerate(grid.column_of_axis):
        assert grid.axis_of_column[column] == a
        given_codes = table.codes[:, a].astype(np.int64)
        if table.space.axes[a].kind == Kind.SET:
            back = np.where(rows[:, column] == 63, table.missing, rows[:, column].astype(np.int64))
            assert back.tolist() == given_codes.tolist()
        else:
            assert grid.codes_of(a, rows[:, column]).tolist() == given_codes.tolist()
            assert (np.sign(np.diff(rows[:, column].astype(np.int64))) == signs_of_steps(given_codes)).all()


def signs_of_steps(codes: np.ndarray) -> np.ndarray:
    return np.array([np.sign(b - a) for a, b in zip(codes.tolist(), codes.tolist()[1:], strict=False)])


@settings(max_examples=100, deadline=None)
@given(tables())
def test_columns_are_grouped_by_kind(table: Table) -> None:
    grid, _ = make_grid(table.codes, table.space)
    gauge = grid.gauge
    kinds = gauge.kind.tolist()
    assert kinds[: gauge.n_linear] == [g.LINEAR] * gauge.n_linear
    assert kinds[gauge.n_linear : gauge.n_masked] == [g.MASK] * grid.n_masks
    assert not {g.LINEAR, g.MASK} & set(kinds[gauge.n_masked :])
    for column, a in enumerate(grid.axis_of_column):
        axis = table.space.axes[a]
        assert not (kinds[column] == g.LINEAR and axis.has_missing)  # LINEAR loops do not look for missing values
        assert (kinds[column] == g.TREE) == (axis.kind == Kind.TREE)


@settings(max_examples=100, deadline=None)
@given(tables())
def test_the_domain_holds_every_row(table: Table) -> None:
    grid, rows = make_grid(table.codes, table.space)
    lo, hi, mask = grid.domain()
    for column in range(len(table.space)):
        if grid.gauge.kind[column] == g.MASK:
            bits = int(mask[column - grid.gauge.n_linear])
            assert all(bits >> int(code) & 1 for code in rows[:, column])
        else:
            assert ((lo[column] <= rows[:, column]) & (rows[:, column] <= hi[column])).all()


@pytest.mark.parametrize(
    ("lo", "hi", "ranked"),
    [
        (-(2**31) + 1, 2**31 - 1, False),
        (-(2**31), 0, True),  # the smallest int32 is the kernels' code for missing
        (0, 2**31, True),
        (-(2**63) + 1, 2**63 - 1, True),
    ],
)
def test_ranks_are_used_only_where_codes_do_not_fit(lo: int, hi: int, ranked: bool) -> None:
    codes = np.array([[hi], [lo], [missing_code(np.int64)], [lo]], np.int64)
    grid, rows = make_grid(codes, Space((Axis("x", Kind.LINEAR, lo, hi, has_missing=True),)))
    assert (grid.ranks[0] is not None) == ranked
    assert grid.codes_of(0, rows[:, 0]).tolist() == codes[:, 0].tolist()
    assert rows[2, 0] == g.MISSING
    assert rows[1, 0] != g.MISSING


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_float_codes_sort_as_floats_and_decode(values: list[float]) -> None:
    values = [value + 0.0 for value in values]  # one zero only
    codes = np.array([naive.code_of_float(value) for value in values], np.int64)
    assert decode_floats(codes).tolist() == values
    assert decode_floats(np.sort(codes)).tolist() == sorted(values)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=20))
def test_positions_of_floats_are_shares_of_the_domain(values: list[float]) -> None:
    codes = np.sort(np.array([naive.code_of_float(value + 0.0) for value in values], np.int64))
    axis = Axis("x", Kind.FLOAT, int(codes[0]), int(codes[-1]))
    positions = axis_positions(axis, codes)
    assert (np.diff(positions) >= 0).all()
    assert all(math.isfinite(position) for position in positions)
    span = naive.float_of(axis.hi) - naive.float_of(axis.lo)
    if span > 1e-300:
        exact = [float((naive.float_of(code) - naive.float_of(axis.lo)) / span) for code in codes.tolist()]
        assert positions == pytest.approx(exact, rel=1e-9, abs=1e-12)


@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=2, max_size=20))
@example([2**62, 2**62 + 1, 2**62 + 10])
@example([-(2**63) + 1, -(2**63) + 2, -(2**63) + 3])
def test_positions_of_wide_codes_are_shares_of_the_domain(values: list[int]) -> None:
    codes = np.sort(np.array(values, np.int64))
    axis = Axis("x", Kind.LINEAR, int(codes[0]), int(codes[-1]))
    positions = axis_positions(axis, codes)
    span = axis.hi - axis.lo
    exact = [(code - axis.lo) / span if span else 0.0 for code in codes.tolist()]
    assert positions == pytest.approx(exact, rel=1e-9, abs=1e-12)


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_leaves_below_are_counted(seed: int, n_leaves: int) -> None:
    ancestors = random_hierarchy(np.random.default_rng(seed), n_leaves)
    expected = [[level.count(node) for node in level] for level in ancestors.tolist()]
    assert leaves_below(ancestors).tolist() == expected
