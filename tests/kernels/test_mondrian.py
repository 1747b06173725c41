"""Strict Mondrian: every cut is the median cut of the widest axis that has a valid one, and no leaf has any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels import gauge as g
from rtree_anon.space import Axis, Kind, Space
from rtree_anon.tree.build import build_mondrian
from tests import naive
from tests.tables import Table, tables


def mondrian_width(table: Table, a: int, rows: list[naive.Row]) -> float:
    """The normalized range; categories by the span of their codes, as the paper has it."""
    axis = table.space.axes[a]
    values = {row[a] for row in rows}
    if axis.kind == Kind.SET and table.missing not in values:
        axis = replace(axis, kind=Kind.SPAN)
    share = float(naive.axis_share(axis, list(values), table.missing))
    return share * axis.weight / sum(other.weight for other in table.space.axes)


@settings(max_examples=150, deadline=None)
@given(tables(max_rows=80), st.integers(1, 8))
def test_mondrian_follows_its_rule_at_every_node(table: Table, k: int) -> None:
    tree = build_mondrian(table.codes, table.space, k)
    n, starts = len(table.rows), tree.starts.tolist()
    assert sorted(tree.rows[:, -1].tolist()) == list(range(n))
    ordered = [table.rows[i] for i in tree.rows[:, -1]]
    root = naive.tree_of_depths(tree.depth.tolist())

    def rows_below(node: naive.Node | int) -> list[naive.Row]:
        leaves = naive.leaves_of(node)
        return ordered[starts[leaves[0]] : starts[leaves[-1] + 1]]

    def valid_axes(members: list[naive.Row]) -> dict[int, float]:
        """Axes of positive width whose median cut leaves k rows on both sides, with their widths."""
        widths = {a: mondrian_width(table, a, members) for a in range(len(table.space))}
        cut = {a: min(naive.median_cut(table.space, a, members, table.missing)) for a in widths}
        return {a: w for a, w in widths.items() if w > 0 and cut[a] >= k}

    for node in naive.inner_nodes(root):
        members, left, right = rows_below(node), rows_below(node.left), rows_below(node.right)
        column = int(tree.axis[node.number])
        a = tree.grid.axis_of_column[column]
        axes = valid_axes(members)
        assert axes[a] == pytest.approx(max(axes.values()), rel=1e-9)
        assert {row[a] for row in left}.isdisjoint({row[a] for row in right})
        evenness = abs(len(left) - len(right))
        expected = naive.median_cut(table.space, a, members, table.missing)
        assert evenness == abs(expected[0] - expected[1])
        if tree.grid.gauge.kind[column] != g.MASK:
            assert max(row[a] for row in left) < min(row[a] for row in right)
    for leaf in range(len(starts) - 1):
        members = ordered[starts[leaf] : starts[leaf + 1]]
        assert len(members) >= min(k, n)
        assert len(members) < 2 * k or not valid_axes(members)


def test_many_equal_values_do_not_slow_the_median_down() -> None:
    """Quickselect on 300,000 rows, sorted and all but equal: a quadratic one would not finish."""
    codes = np.zeros((300_000, 1), np.int32)
    codes[-3:] = 1
    tree = build_mondrian(codes, Space((Axis("x", Kind.LINEAR, 0, 1),)), 2)
    assert tree.sizes.tolist() == [299_997, 3]
    assert set(tree.rows[-3:, -1].tolist()) == {299_997, 299_998, 299_999}
