"""Choosing a cut from a sample: what is drawn, how it is binned, what widths are expected; the cheapest cut wins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels import gauge as g
from rtree_anon.kernels.forecast import (
    MAX_BINS,
    SPAN_ROWS,
    Forecast,
    _bin_axis,
    _expected_widths,
    draw_numbers,
    forecast,
    forecast_cut,
    median_cut,
)
from rtree_anon.tree.grid import Grid, make_grid
from tests import naive
from tests.tables import Table, make_table, tables

SHARE_STEP = 1 / 1024  # the kernel reads powers from a table of this resolution


def sampled(table: Table) -> tuple[Grid, Forecast, int]:
    """A work space whose sample is the whole table."""
    grid, rows = make_grid(table.codes, table.space)
    work = forecast(len(table.space), len(rows))
    work.sample[:] = rows[:, :-1].T
    return grid, work, len(rows)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 64), st.integers(0, 2**40), st.integers(0, 500))
def test_a_sample_has_one_row_of_each_part(m: int, n_sample: int, seed: int, start: int) -> None:
    drawn, again = np.full(n_sample, -1, np.int64), np.full(n_sample, -1, np.int64)
    draw_numbers(start, m, n_sample, seed, drawn)
    for i, number in enumerate(drawn.tolist()):
        assert math.floor(i * m / n_sample) <= number <= math.ceil((i + 1) * m / n_sample)
        assert 0 <= number < m
    draw_numbers(start, m, n_sample, seed, again)
    assert (again == drawn).all()


@settings(max_examples=150, deadline=None)
@given(tables(min_rows=1, max_rows=120), st.sampled_from([2, 4, 8, 64]))
def test_bins_follow_their_edges(table: Table, n_bins: int) -> None:
    grid, work, n = sampled(table)
    for column, a in enumerate(grid.axis_of_column):
        _bin_axis(grid.gauge, column, n, n_bins, work)
        codes, bins, n_found = work.sample[column], work.bins[column, :n], int(work.n_bins[column])
        edge, total = work.edge[column], work.total[column]
        assert 1 <= n_found <= MAX_BINS
        assert total[:n_found].tolist() == np.bincount(bins, minlength=n_found).tolist()
        assert total[:n_found].min() >= 1
        assert total.sum() == n
        if grid.gauge.kind[column] == g.MASK:
            assert (edge[bins] == codes).all()
            assert (np.diff(total[:n_found]) <= 0).all()
            continue
        assert (np.diff(edge[:n_found].astype(np.int64)) > 0).all()
        assert (bins == np.searchsorted(edge[1:n_found], codes, side="right")).all()
        if n_found < 2:
            continue
        places = np.array([float(naive_place(table, a, row[a])) for row in table.rows])
        full = grid.gauge.full[column]
        centres = [np.mean(places[bins == b]) for b in range(n_found)]
        expected = np.diff(centres) * full
        if any(row[a] == table.missing for row in table.rows):
            expected[0] = full
        assert work.gap[column, : n_found - 1] == pytest.approx(expected, rel=1e-6, abs=1e-9)


def naive_place(table: Table, a: int, code: int) -> float:
    """Where a value lies on its axis, as a share of the domain; anything for missing values and axes without width."""
    axis = table.space.axes[a]
    if code == table.missing or axis.lo >= axis.hi:
        return 0.0
    spread = axis.n_categories - 1 if axis.n_categories else None
    if spread is not None:
        return code / spread
    return float(naive.axis_share(axis, [axis.lo, code], table.missing))


@settings(max_examples=150, deadline=None)
@given(tables(min_rows=2, max_rows=200), st.integers(0, 2**32))
def test_expected_widths_are_those_of_random_draws(table: Table, seed: int) -> None:
    """E[max] - E[min] by the distribution of the extremes, which is another formula than the kernel's sum over gaps."""
    grid, work, n = sampled(table)
    rng = np.random.default_rng(seed)
    n_left = int(rng.integers(1, n))
    on_left = rng.permutation(n) < n_left
    expected, slack = [0.0, 0.0], [1e-9, 1e-9]
    work.left[:] = 0
    for column in range(len(table.space)):
        _bin_axis(grid.gauge, column, n, 16, work)
        n_bins = int(work.n_bins[column])
        bins = work.bins[column, :n]
        work.left[column, :n_bins] = np.bincount(bins[on_left], minlength=n_bins)
        if n_bins < 2:
            continue
        full = grid.gauge.full[column]
        for side, chosen in enumerate((on_left, ~on_left)):
            counts = np.bincount(bins[chosen], minlength=n_bins).tolist()
            # A share is off by one step of the table at most, and a power by SPAN_ROWS as much.
            if grid.gauge.kind[column] == g.MASK:
                exact = (naive.expected_distinct(counts, SPAN_ROWS) - 1) * grid.gauge.scale[column]
                off = SPAN_ROWS * SHARE_STEP * sum(count > 0 for count in counts) * grid.gauge.scale[column]
            else:
                gaps = work.gap[column, : n_bins - 1]
                places = np.concatenate(([0.0], np.cumsum(gaps))).tolist()
                exact = naive.expected_range(places, counts, SPAN_ROWS)
                off = 2 * SPAN_ROWS * SHARE_STEP * float(gaps.sum())
            expected[side] += min(exact, full)
            slack[side] += off
    widths = _expected_widths(grid.gauge, n_left, n - n_left, work)
    for side in (0, 1):
        assert abs(widths[side] - expected[side]) <= slack[side]


@pytest.mark.parametrize("flavour", ["linear", "set", "float"])
def test_expected_widths_are_close(flavour: str) -> None:
    """The bound above is loose where shares are small; on ordinary data the table of powers costs a few percent."""
    table = next(t for t in (make_table(s, 500, [flavour]) for s in range(99)) if len(set(t.rows)) > 10)
    grid, work, n = sampled(table)
    _bin_axis(grid.gauge, 0, n, 16, work)
    n_bins = int(work.n_bins[0])
    assert n_bins > 5
    counts = np.bincount(work.bins[0, :n], minlength=n_bins)
    work.left[0, :n_bins] = counts
    width, _ = _expected_widths(grid.gauge, n, 1, work)
    if flavour == "set":
        exact = (naive.expected_distinct(counts.tolist(), SPAN_ROWS) - 1) * grid.gauge.scale[0]
    else:
        places = np.concatenate(([0.0], np.cumsum(work.gap[0, : n_bins - 1])))
        exact = naive.expected_range(places.tolist(), counts.tolist(), SPAN_ROWS)
    assert width == pytest.approx(min(exact, 1.0), rel=0.05)


@settings(max_examples=60, deadline=None)
@given(tables(min_rows=8, max_rows=120), st.integers(1, 4), st.sampled_from([1, 10]), st.data())
def test_the_cheapest_cut_between_bins_is_chosen(table: Table, k: int, rows_each: int, data: st.DataObject) -> None:
    """Every boundary of every axis, priced one by one from the sample, against the kernel's sweep."""
    grid, work, n = sampled(table)
    d = len(table.space)
    bias = data.draw(st.sets(st.integers(0, d - 1), max_size=2))
    preferred = np.array([grid.axis_of_column[c] in bias for c in range(d)])
    growth, n_bins = -0.9 / d, 8
    column = int(forecast_cut(grid.gauge, preferred, n * rows_each, n, n_bins, k, growth, work))
    prices: dict[tuple[int, int], float] = {}
    for cut_column in range(d):
        for boundary in range(1, int(work.n_bins[cut_column])):
            on_left = work.bins[cut_column, :n] < boundary
            s1, s2 = int(on_left.sum()), int((~on_left).sum())
            if min(s1, s2) * rows_each < k:
                continue
            for c in range(d):
                work.left[c] = np.bincount(work.bins[c, :n][on_left], minlength=MAX_BINS)
            widths = _expected_widths(grid.gauge, s1, s2, work)
            sides = zip((s1 * rows_each, s2 * rows_each), widths, strict=True)
            prices[cut_column, boundary] = sum(size * w * max(size / k, 1.0) ** growth for size, w in sides)
    eligible = {cut: price for cut, price in prices.items() if preferred[cut[0]]} or prices
    if not eligible:
        assert column == -1
        return
    best = min(eligible.values())
    if grid.gauge.kind[column] == g.MASK:
        left_set = int(work.left_set[0])
        on_left = np.array([bool(left_set >> int(code) & 1) for code in work.sample[column]])
    else:
        on_left = work.sample[column] < work.threshold[0]
    boundary = len(set(work.bins[column, :n][on_left].tolist()))
    assert (on_left == (work.bins[column, :n] < boundary)).all()
    assert eligible[column, boundary] == pytest.approx(best, rel=1e-9, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(tables(min_rows=2, max_rows=32), st.data())
def test_the_fast_cut_halves_the_widest_axis(table: Table, data: st.DataObject) -> None:
    grid, work, n = sampled(table)
    d, space = len(table.space), table.space
    bias = data.draw(st.sets(st.integers(0, d - 1), max_size=2))
    preferred = np.array([grid.axis_of_column[c] in bias for c in range(d)])
    column = int(median_cut(grid.gauge, preferred, n, work))
    widths = {a: naive.axis_width(space, a, table.rows, table.missing) for a in range(d)}
    eligible = {a: w for a, w in widths.items() if a in bias and w > 0} or widths
    if max(eligible.values()) == 0:
        assert column == -1
        return
    a = grid.axis_of_column[column]
    assert eligible[a] == pytest.approx(max(eligible.values()), rel=1e-9)
    if grid.gauge.kind[column] == g.MASK:
        left = sum(int(work.left_set[0]) >> int(code) & 1 for code in work.sample[column])
    else:
        left = int((work.sample[column] < work.threshold[0]).sum())
    evenness = [
        abs(len(cut.left) - len(cut.right)) for cut in naive.cuts_of_axis(space, a, table.rows, 1, table.missing)
    ]
    assert abs(2 * left - n) == min(evenness)
