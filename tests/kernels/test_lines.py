"""Lines: packed rows as the kernels want them, and boxes of some of them, against plain twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.index.rowlayout import layout_of
from rtree_anon.kernels.boxes import boxes_of_members
from rtree_anon.kernels.lines import LineLayout, load_lines
from rtree_anon.kernels.rowwords import limit_mask, pack_columns
from rtree_anon.tree.grid import make_grid
from tests.tables import Table, tables

MISSING = np.int64(-(2**40))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 19), st.integers(0, 12), st.integers(0, 12), st.integers(0, 2**32))
def test_lines_are_the_columns_of_rows(d: int, n_old: int, n_added: int, seed: int) -> None:
    """Fewer columns than a vector has lanes, as many, and more; in another order; some values missing."""
    generator = np.random.default_rng(seed)
    n = n_old + n_added
    low = generator.integers(-1000, 1000, d)
    span = 2 ** generator.integers(0, 28, d)
    codes = low[:, None] + (generator.random((d, n)) * span[:, None]).astype(np.int64)
    codes[generator.random((d, n)) < 0.1] = MISSING
    layout = layout_of([(int(a), int(a + b)) for a, b in zip(low, span, strict=True)])
    words = layout.empty(n)
    assert pack_columns(codes, 0, n, MISSING, layout.words, words)
    axes = generator.permutation(d)
    missing = generator.integers(-5, 0, d)
    own = layout.words
    masks = np.array([limit_mask(limit) for limit in own.limit[axes]], np.uint64)
    lines_layout = LineLayout(own.word[axes], own.shift[axes], masks, own.below[axes], missing)
    numbers = generator.permutation(n)
    begin = int(generator.integers(0, n + 1))
    end = int(generator.integers(begin, n + 1))
    lines = np.full((n + 1, d + 1), 77, np.int32)
    load_lines(words[:n_old], words[n_old:], numbers, begin, end, lines_layout, lines)
    for i, row in enumerate(numbers[begin:end].tolist()):
        expected = [missing[c] if codes[a, row] == MISSING else codes[a, row] for c, a in enumerate(axes)]
        assert lines[i].tolist() == [*expected, row]
    assert (lines[end - begin :] == 77).all()


@settings(max_examples=100, deadline=None)
@given(tables(max_rows=40), st.integers(0, 2**32))
def test_boxes_of_members(table: Table, seed: int) -> None:
    check_boxes(table, seed)


@pytest.mark.parametrize("d", [7, 8, 9, 16, 17])
def test_boxes_of_members_over_many_axes(d: int) -> None:
    from rtree_anon.space import Axis, Kind, Space

    generator = np.random.default_rng(d)
    space = Space(tuple(Axis(f"a{a}", Kind.LINEAR, 0, 99) for a in range(d)))
    check_boxes(Table(generator.integers(0, 100, (30, d)).astype(np.int32), space), d)


def check_boxes(table: Table, seed: int) -> None:
    generator = np.random.default_rng(seed)
    grid, rows = make_grid(table.codes, table.space)
    gauge, n, d = grid.gauge, len(rows), len(table.space)
    members = generator.permutation(n).astype(np.uint32)
    starts = np.unique(np.concatenate(([0, n], generator.integers(0, n + 1, 4))))
    n_runs = len(starts) - 1
    lo, hi = np.empty((2, n_runs, d), np.int32)
    mask = np.empty((n_runs, gauge.n_masked - gauge.n_linear), np.uint64)
    boxes_of_members(rows, members, starts, n_runs, gauge, lo, hi, mask)
    for run in range(n_runs):
        here = rows[members[starts[run] : starts[run + 1]]]
        for a in range(d):
            if gauge.n_linear <= a < gauge.n_masked:
                assert int(mask[run, a - gauge.n_linear]) == sum(1 << int(code) for code in set(here[:, a].tolist()))
            else:
                assert (lo[run, a], hi[run, a]) == (here[:, a].min(), here[:, a].max())
