"""The exact search finds the best cut that there is: compared with every cut of every axis, priced from the rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.search import (
    Finding,
    cut_near,
    divide_members,
    finding,
    load_points,
    members_width,
    search_cut,
    worth_table,
)
from rtree_anon.tree.grid import Grid, make_grid
from tests import naive
from tests.tables import Table, make_table, tables

INFINITE = float("inf")


class Search:
    """A node of a table, searched: members are a random subset of a block in random order, not at its beginning.

    `probe_for`: the k of a tree of which these rows are a probe. Sides then have k rows, and leaves one.
    """

    def __init__(
        self,
        table: Table,
        seed: int,
        k: int,
        n_candidates: int | None = None,
        bias: tuple[int, ...] = (),
        spare: int | None = None,
        probe_for: int | None = None,
    ):
        rng = np.random.default_rng(seed)
        self.table, self.k, self.growth = table, k, -float(rng.random())
        self.grid, rows = make_grid(table.codes, table.space)
        self.block = np.ascontiguousarray(rows[:, :-1]).T
        n = len(rows)
        self.members = rng.permutation(n).astype(np.uint32)
        self.start = int(rng.integers(0, n - 2 * k + 1))
        self.m = int(rng.integers(2 * k, n - self.start + 1))
        self.found: Finding = finding(len(table.space), n)
        preferred = np.zeros(len(table.space), np.bool_)
        preferred[[self.grid.column_of_axis[a] for a in bias]] = True
        self.leaf_rows = k if probe_for is None else 1
        worth = worth_table(k, n, self.growth)[0] if probe_for is None else worth_table(probe_for, n, self.growth)[1]
        candidates = len(table.space) if n_candidates is None else n_candidates
        gauge = self.grid.gauge
        load_points(self.block, n, gauge, self.found)
        self.column = int(
            search_cut(
                self.block,
                self.members,
                self.start,
                self.m,
                gauge,
                preferred,
                candidates,
                k,
                worth,
                None,
                spare,
                self.found,
            )
        )

    @property
    def rows(self) -> list[naive.Row]:
        return [self.table.rows[i] for i in self.members[self.start : self.start + self.m]]

    def cheapest(self, a: int) -> float:
        space, missing = self.table.space, self.table.missing
        cuts = naive.cuts_of_axis(space, a, self.rows, self.k, missing)
        costs = (naive.cost_of_cut(space, cut, self.leaf_rows, self.growth, missing) for cut in cuts)
        return min(costs, default=INFINITE)

    def divide(self, column: int) -> naive.Cut:
        threshold, left_set = self.found.threshold[column], self.found.left_set[column]
        others = np.empty_like(self.members)
        gauge = self.grid.gauge
        left = divide_members(self.block, self.members, self.start, self.m, gauge, column, threshold, left_set, others)
        rows = self.rows
        return naive.Cut(rows[:left], rows[left:])


# More axes than one vector has lanes: two, three, four vectors.
many_axes = tables(min_rows=2, max_rows=30, flavours=("linear", "linear", "linear", "set"), min_axes=9, max_axes=27)


def nearly(cost: float) -> object:
    """Prices are sums of widths in single precision, of at most 50 rows."""
    return pytest.approx(cost, rel=1e-5, abs=1e-5)


@settings(max_examples=150, deadline=None)
@given(tables(min_rows=2, max_rows=50) | many_axes, st.integers(0, 2**32), st.data())
def test_the_best_cut_of_every_axis_is_found(table: Table, seed: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(table.rows) // 2))
    search = Search(table, seed, k, probe_for=data.draw(st.none() | st.integers(k, 5 * k)))
    grid: Grid = search.grid
    costs = [search.cheapest(a) for a in grid.axis_of_column]
    assert search.found.cost.tolist() == [nearly(cost) for cost in costs]
    if min(costs) == INFINITE:
        assert search.column == -1
        return
    assert costs[search.column] == nearly(min(costs))
    # The cut itself, not only its price: what it divides is what was priced.
    space, missing = table.space, table.missing
    for column in range(len(space)):
        if costs[column] < INFINITE:
            cut = search.divide(column)
            a = grid.axis_of_column[column]
            assert any(
                sorted(cut.left) == sorted(other.left)
                for other in naive.cuts_of_axis(space, a, search.rows, search.k, missing)
            )
            assert naive.cost_of_cut(space, cut, search.leaf_rows, search.growth, missing) == nearly(costs[column])


@settings(max_examples=100, deadline=None)
@given(tables(min_rows=2, max_rows=40), st.integers(0, 2**32), st.data())
def test_a_sparing_cut_is_the_best_of_those_that_spare_rows(table: Table, seed: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(table.rows) // 2))
    spare = data.draw(st.integers(0, k))
    search = Search(table, seed, k, spare=spare)
    space, missing = table.space, table.missing
    for column, a in enumerate(search.grid.axis_of_column):
        cuts = [cut for cut in naive.cuts_of_axis(space, a, search.rows, k, missing) if len(cut.left) % k <= spare]
        costs = [naive.cost_of_cut(space, cut, k, search.growth, missing) for cut in cuts]
        assert search.found.cost[column] == nearly(min(costs, default=INFINITE))


@settings(max_examples=100, deadline=None)
@given(tables(min_rows=4, max_rows=40), st.integers(0, 2**32), st.integers(1, 3), st.data())
def test_few_candidates_are_the_widest_axes_that_can_be_cut(
    table: Table, seed: int, n_candidates: int, data: st.DataObject
) -> None:
    search = Search(table, seed, data.draw(st.integers(1, len(table.rows) // 4)), n_candidates)
    axes = search.grid.axis_of_column
    priced = {axes[c] for c in range(len(axes)) if search.found.cost[c] < INFINITE}
    possible = {a for a in axes if search.cheapest(a) < INFINITE}
    widths = {a: naive.axis_width(table.space, a, search.rows, table.missing) for a in axes}
    assert priced <= possible
    assert len(priced) == min(n_candidates, len(possible))
    for a in possible - priced:
        assert all(widths[a] <= widths[b] + 1e-12 for b in priced)
    if possible:
        assert search.found.cost[search.column] == nearly(min(search.cheapest(a) for a in priced))


@settings(max_examples=100, deadline=None)
@given(tables(min_rows=4, max_rows=40), st.integers(0, 2**32), st.data())
def test_a_preferred_axis_is_cut_while_it_can_be(table: Table, seed: int, data: st.DataObject) -> None:
    bias = tuple(data.draw(st.sets(st.integers(0, len(table.space) - 1), min_size=1)))
    search = Search(table, seed, data.draw(st.integers(1, len(table.rows) // 4)), bias=bias)
    costs = {a: search.cheapest(a) for a in range(len(table.space))}
    eligible = {a: cost for a, cost in costs.items() if a in bias and cost < INFINITE} or costs
    if min(eligible.values()) == INFINITE:
        assert search.column == -1
    else:
        chosen = search.grid.axis_of_column[search.column]
        assert chosen in eligible
        assert eligible[chosen] == nearly(min(eligible.values()))


@settings(max_examples=50, deadline=None)
@given(tables(min_rows=2, max_rows=40), st.integers(0, 2**32))
def test_the_width_of_members_is_that_of_their_rows(table: Table, seed: int) -> None:
    search = Search(table, seed, 1)
    found = members_width(search.block, search.members, search.start, search.m, search.grid.gauge, search.found)
    assert found == nearly(naive.width(table.space, search.rows, table.missing))
    expected = [naive.axis_width(table.space, a, search.rows, table.missing) for a in search.grid.axis_of_column]
    assert search.found.width.tolist() == [nearly(width) for width in expected]


@settings(max_examples=100, deadline=None)
@given(tables(min_rows=4, max_rows=60), st.integers(0, 2**32), st.data())
def test_a_cut_near_the_middle_is_the_nearest_there_is(table: Table, seed: int, data: st.DataObject) -> None:
    search = Search(table, seed, data.draw(st.integers(1, len(table.rows) // 4)))
    m, k, gauge = search.m, search.k, search.grid.gauge
    middle = data.draw(st.integers(k, m - k))
    for column, a in enumerate(search.grid.axis_of_column):
        cuts = naive.cuts_of_axis(table.space, a, search.rows, k, table.missing)
        off = min((abs(len(cut.left) - middle) for cut in cuts), default=None)
        cut = cut_near(search.block, search.members, search.start, m, gauge, column, k, middle, None, search.found)
        assert (cut > 0) == (off is not None)
        if cut:
            assert abs(cut - middle) == off
            assert abs(len(search.divide(column).left) - middle) == off


def test_sorting_is_right_on_both_sides_of_the_switch_of_algorithms() -> None:
    """Codes at both ends of int32 with many members: the packed sort keys keep sign and member apart."""
    for n in (38, 39, 40, 41, 42, 60):
        table = make_table(n, n, ["limits", "linear"])
        search = Search(table, n, 2)
        costs = [search.cheapest(a) for a in search.grid.axis_of_column]
        assert search.found.cost.tolist() == [nearly(cost) for cost in costs]


def test_worth_counts_whole_leaves() -> None:
    worth = worth_table(5, 20, -0.5)
    assert worth[0, 0, 4] == 4.0
    assert worth[0, 0, 9] == 9.0
    assert worth[0, 0, 10] == pytest.approx(10 * 2**-0.5)
    assert worth[0, 0, 14] == pytest.approx(14 * 2**-0.5)
    assert worth[1, 0, 0] == 0.0
    assert worth[1, 0, 9] == pytest.approx(9 * 9**-0.5)
    assert worth[0, 1, :21].tolist() == worth[0, 0, 20::-1].tolist()
    assert worth[1, 2, :21].tolist() == [n % 5 for n in range(21)]
