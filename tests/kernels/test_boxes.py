"""Boxes and their widths: the kernels say what the values that occur say, on every kind of axis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels import gauge as g
from rtree_anon.kernels.boxes import boxes_of_runs, ends_of_columns, unions_of_boxes, widths_of_boxes
from rtree_anon.space import Axis, Kind, Space
from rtree_anon.tree.build import Boxes
from rtree_anon.tree.grid import Grid, make_grid
from tests import naive
from tests.tables import Table, make_table, tables


def boxes_and_widths(grid: Grid, rows: np.ndarray, starts: np.ndarray) -> tuple[Boxes, np.ndarray]:
    boxes = Boxes.empty(len(starts) - 1, grid)
    boxes_of_runs(rows, starts, grid.gauge, boxes.lo, boxes.hi, boxes.mask)
    widths = np.empty(len(starts) - 1)
    widths_of_boxes(grid.gauge, boxes.lo, boxes.hi, boxes.mask, widths)
    return boxes, widths


def assert_box_holds_exactly(table: Table, grid: Grid, boxes: Boxes, box: int, rows: list[naive.Row]) -> None:
    """The box is the smallest one: its corners, or the members of its sets, are values of these rows."""
    for column, a in enumerate(grid.axis_of_column):
        values = {row[a] for row in rows}
        if grid.gauge.kind[column] == g.MASK:
            bits = int(boxes.mask[box, column - grid.gauge.n_linear])
            assert {bit for bit in range(64) if bits >> bit & 1} == {63 if v == table.missing else v for v in values}
        else:
            corners = grid.codes_of(a, np.array([boxes.lo[box, column], boxes.hi[box, column]]))
            assert corners.tolist() == [min(values), max(values)]


@settings(max_examples=150, deadline=None)
@given(tables() | tables(min_axes=7, max_axes=18), st.data())
def test_boxes_are_tight_and_widths_are_those_of_the_values(table: Table, data: st.DataObject) -> None:
    grid, rows = make_grid(table.codes, table.space)
    cuts = data.draw(st.sets(st.integers(1, len(rows) - 1), max_size=8)) if len(rows) > 1 else set()
    starts = np.array([0, *sorted(cuts), len(rows)], np.int64)
    boxes, widths = boxes_and_widths(grid, rows, starts)
    for run in range(len(starts) - 1):
        members = table.rows[starts[run] : starts[run + 1]]
        assert_box_holds_exactly(table, grid, boxes, run, members)
        assert widths[run] == pytest.approx(naive.width(table.space, members, table.missing), rel=1e-9, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(tables(min_rows=2), st.randoms(use_true_random=False), st.integers(1, 6))
def test_unions_hold_the_rows_of_their_boxes(table: Table, random: object, n_unions: int) -> None:
    grid, rows = make_grid(table.codes, table.space)
    rng = np.random.default_rng(random.randrange(2**32))  # type: ignore[attr-defined]
    starts = np.unique(np.concatenate(([0, len(rows)], rng.integers(1, len(rows), 8)))).astype(np.int64)
    boxes, _ = boxes_and_widths(grid, rows, starts)
    n_boxes = len(starts) - 1
    order = rng.permutation(n_boxes)
    ends = np.unique(np.append(rng.integers(1, n_boxes + 1, n_unions), n_boxes)).astype(np.int64)
    unions = Boxes.empty(len(ends), grid)
    half = len(ends) // 2  # in two parts, as two threads would do it
    for first, last in ((half, len(ends)), (0, half)):
        unions_of_boxes(order, ends, first, last, boxes.lo, boxes.hi, boxes.mask, unions.lo, unions.hi, unions.mask)
    begin = 0
    for union, end in enumerate(ends.tolist()):
        members = [row for box in order[begin:end] for row in table.rows[starts[box] : starts[box + 1]]]
        assert_box_holds_exactly(table, grid, unions, union, members)
        begin = end


def test_the_whole_domain_has_width_one() -> None:
    axes = (
        Axis("linear", Kind.LINEAR, -7, 93, weight=2.0),
        Axis("limits", Kind.LINEAR, -(2**31) + 1, 2**31 - 1),
        Axis("wide", Kind.LINEAR, -(2**63) + 1, 2**63 - 1, weight=0.5),
        Axis("float", Kind.FLOAT, naive.code_of_float(-1.7e308), naive.code_of_float(1.7e308)),
        Axis("set", Kind.SET, 0, 1, n_categories=2),
        Axis("span", Kind.SPAN, 0, 999, n_categories=1000),
        Axis(
            "tree", Kind.TREE, 0, 3, n_categories=4, ancestors=np.array([[0, 1, 2, 3], [0, 0, 1, 1], [0] * 4], np.int32)
        ),
    )
    codes = np.array([[axis.lo for axis in axes], [axis.hi for axis in axes]], np.int64)
    grid, rows = make_grid(codes, Space(axes))
    _, widths = boxes_and_widths(grid, rows, np.array([0, 1, 2], np.int64))
    assert widths.tolist() == [0.0, 0.0]
    _, widths = boxes_and_widths(grid, rows, np.array([0, 2], np.int64))
    assert widths[0] == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("flavour", ["linear", "limits", "wide", "float", "set", "span", "tree"])
def test_missing_among_present_values_is_full_width(flavour: str) -> None:
    table = make_table(3, 40, [flavour, "linear"], gaps=[0.5, 0.0])
    grid, rows = make_grid(table.codes, table.space)
    absent = table.codes[:, 0] == table.missing
    assert 0 < absent.sum() < 40
    present = np.flatnonzero(~absent)[:1]
    for chosen, expected in ((np.flatnonzero(absent), 0.0), (np.append(np.flatnonzero(absent), present), 0.5)):
        picked = rows[chosen].copy()
        picked[:, grid.column_of_axis[1]] = 0
        _, widths = boxes_and_widths(grid, picked, np.array([0, len(picked)], np.int64))
        assert widths[0] == expected


def test_a_mask_uses_all_its_bits() -> None:
    """63 categories and missing: bit 62, bit 63 and both together."""
    axis = Axis("set", Kind.SET, 0, 62, n_categories=63, has_missing=True)
    missing = -(2**31)
    codes = np.array([[62], [0], [missing], [missing], *([c] for c in range(63))], np.int32)
    grid, rows = make_grid(codes, Space((axis,)))
    boxes, widths = boxes_and_widths(grid, rows, np.array([0, 1, 2, 4, 67], np.int64))
    assert boxes.mask[:, 0].tolist() == [1 << 62, 1, 1 << 63, (1 << 63) - 1]
    assert widths.tolist() == [0.0, 0.0, 0.0, pytest.approx(1.0)]
    boxes, widths = boxes_and_widths(grid, rows, np.array([0, 3], np.int64))
    assert boxes.mask[0, 0] == (1 << 63) | (1 << 62) | 1
    assert widths[0] == 1.0


@settings(deadline=None)  # the first call may compile
@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_ends_of_columns(n: int, d: int, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(-(2**31), 2**31, (n, d)).astype(np.int32)
    lo, hi = np.empty(d, np.int64), np.empty(d, np.int64)
    ends_of_columns(rows, lo, hi)
    assert lo.tolist() == rows.min(axis=0).tolist() and hi.tolist() == rows.max(axis=0).tolist()
