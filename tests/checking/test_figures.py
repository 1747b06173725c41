"""Every figure of the checker equals its definition, on random tables."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_checking import Naive, groups_of

from rtree_anon.checking import check
from rtree_anon.errors import UsageError

rows = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", None])), min_size=n, max_size=n),
        st.lists(st.integers(0, 5), min_size=n, max_size=n),
        st.lists(st.integers(0, 9), min_size=n, max_size=n),
    )
)


def table_of(quasi: list[tuple[int, str | None]], values: list[int], people: list[int]) -> pa.Table:
    first, second = zip(*quasi, strict=True)
    return pa.table({"first": first, "second": pa.array(second, pa.string()), "disease": values, "person": people})


@settings(deadline=None)
@given(rows)
def test_sensitive_figures(drawn: tuple[list[tuple[int, str | None]], list[int], list[int]]) -> None:
    quasi, values, people = drawn
    report = check(table_of(quasi, values, people), ["first", "second"], ["disease"])
    naive, column = Naive(quasi, values), report.sensitive["disease"]
    assert column.n_values == len(set(values))
    assert column.distinct_per_group.tolist() == naive.per_group(naive.distinct)
    assert column.entropy_l_per_group == pytest.approx(naive.per_group(naive.entropy_l))
    assert column.t_per_group == pytest.approx(naive.per_group(naive.t), abs=1e-12)
    assert column.t_ordered_per_group == pytest.approx(naive.per_group(naive.t_ordered), abs=1e-12)
    assert column.alpha_per_group == pytest.approx(naive.per_group(naive.alpha))
    for ell in range(1, 8):
        expected = naive.per_group(lambda group, ell=ell: naive.recursive_c(group, ell))
        assert column.recursive_c_per_group(ell) == pytest.approx(expected)
    assert column.beta == pytest.approx(naive.beta(), abs=1e-12)
    assert column.beta_enhanced == pytest.approx(naive.beta_enhanced(), abs=1e-12)
    assert column.delta == pytest.approx(naive.delta(), abs=1e-12)
    assert report.distinct_l == min(column.distinct_per_group) and report.alpha == max(column.alpha_per_group)
    assert report.t == max(column.t_per_group) and report.t_ordered == max(column.t_ordered_per_group)
    assert report.entropy_l == min(column.entropy_l_per_group)


@settings(deadline=None)
@given(rows, st.floats(0.1, 20))
def test_largest_recursive_l(drawn: tuple[list[tuple[int, str | None]], list[int], list[int]], c: float) -> None:
    quasi, values, people = drawn
    column = check(table_of(quasi, values, people), ["first", "second"], ["disease"]).sensitive["disease"]
    naive = Naive(quasi, values)
    fitting = [ell for ell in range(1, 8) if all(naive.recursive_c(group, ell) < c for group in naive.groups)]
    assert column.recursive_l(c) == max(fitting, default=0)


@settings(deadline=None)
@given(rows)
def test_people(drawn: tuple[list[tuple[int, str | None]], list[int], list[int]]) -> None:
    quasi, values, people = drawn
    report = check(table_of(quasi, values, people), ["first", "second"], identity="person")
    groups = [[people[position] for position in rows] for rows in groups_of(quasi).values()]
    assert report.identity is not None and report.identity.n_individuals == len(set(people))
    assert report.identity.individuals_per_group.tolist() == [len(set(group)) for group in groups]
    assert report.individuals == min(len(set(group)) for group in groups)
    assert report.identity.alpha == max(max(Counter(group).values()) / len(group) for group in groups)
    assert report.identity.n_single == sum(len(set(group)) == 1 for group in groups)
    for k in (1, 2, 3, 5):
        vulnerable = [len(group) >= k > len(set(group)) for group in groups]
        assert report.identity.vulnerable(k).tolist() == vulnerable
        short = [rows for rows in groups_of(quasi).values() if len({people[row] for row in rows}) < k]
        assert report.rows_below(k).tolist() == sorted(row for rows in short for row in rows)


@settings(deadline=None)
@given(rows, st.data())
def test_a_count_stands_for_that_many_rows(
    drawn: tuple[list[tuple[int, str | None]], list[int], list[int]], data: st.DataObject
) -> None:
    table = table_of(*drawn)
    counts = data.draw(st.lists(st.integers(1, 4), min_size=len(table), max_size=len(table)))
    written_out = table.take(np.repeat(np.arange(len(table)), counts))
    names = {"quasi": ["first", "second"], "sensitive": ["disease"], "identity": "person"}
    expected = check(written_out, **names)
    found = check(table.append_column("count", pa.array(counts)), **names, counts="count")
    assert found.sizes.tolist() == expected.sizes.tolist() and found.n_rows == expected.n_rows
    assert found.sensitive["disease"].to_dict() == expected.sensitive["disease"].to_dict()
    assert found.identity is not None and expected.identity is not None
    assert found.identity.to_dict() == expected.identity.to_dict()


def test_known_distances() -> None:
    """Li, Li, Venkatasubramanian 2007, Section 4: of salaries 3k to 11k, {3,4,5} is 0.375 away and {6,8,11} 0.167."""
    salaries = [3, 4, 5, 6, 11, 8, 7, 9, 10]
    table = pa.table({"group": [1, 1, 1, 2, 2, 2, 3, 3, 3], "salary": salaries})
    column = check(table, ["group"], ["salary"]).sensitive["salary"]
    assert column.t_ordered_per_group[:2] == pytest.approx([0.375, 1 / 6])
    assert column.t_per_group == pytest.approx([2 / 3] * 3)


def test_ordered_distance_reads_texts_of_numbers_as_numbers() -> None:
    group = [1, 2, 2, 2]
    as_numbers = check(pa.table({"g": group, "x": [2, 9, 10, 100]}), ["g"], ["x"]).t_ordered
    as_texts = check(pa.table({"g": group, "x": ["2", "9", "10", "100"]}), ["g"], ["x"]).t_ordered
    as_words = check(pa.table({"g": group, "x": ["2", "9", "10", "100x"]}), ["g"], ["x"]).t_ordered
    assert as_numbers == as_texts != as_words


def test_equal_shares_have_a_whole_entropy_l() -> None:
    for n_values in range(1, 50):
        table = pa.table({"g": [0] * n_values, "x": list(range(n_values))})
        assert check(table, ["g"], ["x"]).entropy_l == n_values


def test_worst_of_several_sensitive_columns() -> None:
    table = pa.table({"g": [1, 1, 2, 2], "x": [1, 2, 1, 2], "y": [1, 1, 1, 2]})
    report = check(table, ["g"], ["x", "y"])
    assert report.distinct_l == 1 and report.alpha == 1.0 and report.t == 0.25 and report.entropy_l == 1.0


def test_figures_without_sensitive_columns_are_none() -> None:
    report = check(pa.table({"g": [1]}), ["g"])
    assert [report.distinct_l, report.entropy_l, report.t, report.t_ordered, report.alpha] == [None] * 5
    assert report.individuals is None


def test_l_below_one_is_refused() -> None:
    column = check(pa.table({"g": [1], "x": [1]}), ["g"], ["x"]).sensitive["x"]
    with pytest.raises(UsageError, match="1 or more"):
        column.recursive_c(0)
    assert column.recursive_c(2) == math.inf
