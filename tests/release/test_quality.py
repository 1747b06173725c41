"""Definitions 3, 4 and 5 of the R+-tree paper and C_avg, on tables whose figures can be computed by hand."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from tests.release.by_hand import category_sets, interval, labels, release_of, states


def test_discernibility_and_class_size() -> None:
    """Definition 3: the sum of the squares of the groups' sizes. C_avg: rows per group, in units of k."""
    quality = release_of([interval("x", [(0, 1), (2, 2), (3, 9)], 9)], [2, 3, 5], k=2).quality()
    assert quality["discernibility"] == 4 + 9 + 25
    assert quality["average_class_size"] == pytest.approx(10 / 3 / 2)


def test_certainty_of_numbers_sets_and_hierarchies() -> None:
    """Two groups of 2 and 3 rows.

    age of a domain of 40: 10/40 and 0. sex of 2 values: 1/1 and 0. zip of 5 leaves: (3-1)/(5-1) and 0.
    """
    columns = [
        interval("age", [(20, 30), (35, 35)], domain=40),
        category_sets("sex", ["F", "M"], [[0, 1], [1]]),
        labels("zip", list("abcde"), [("abc", 0, 3), ("e", 4, 5)], [0, 1]),
    ]
    quality = release_of(columns, [2, 3]).quality()
    assert quality["certainty_sum"] == pytest.approx(2 * (0.25 + 1 + 0.5))
    assert quality["certainty"] == pytest.approx(2 * 1.75 / (5 * 3))
    weighted = release_of(columns, [2, 3], weights=(4.0, 1.0, 0.5)).quality()
    assert weighted["certainty_sum"] == pytest.approx(2 * (4 * 0.25 + 1 + 0.5 * 0.5))
    assert weighted["certainty"] == pytest.approx(2 * 2.25 / (5 * 5.5))


def test_missing_and_present_values_in_one_group_cost_everything() -> None:
    missing = states("none", "some", "all")
    columns = [
        interval("age", [(20, 30), (30, 30), (0, 0)], domain=40, missing=missing),
        category_sets("sex", ["F", "M"], [[0], [1], []], missing=missing),
        labels("zip", list("ab"), [("a", 0, 1)], [0, 0, 0], missing=missing),
    ]
    assert [column.penalty.tolist() for column in columns] == [[0.25, 1, 0], [0, 1, 0], [0, 1, 0]]
    assert [column.cells.tolist() for column in columns] == [[11, 2, 1], [1, 2, 1], [1, 2, 1]]


def test_a_group_that_is_everything_costs_1_and_exact_groups_nothing() -> None:
    table = pa.table({"n": list(range(20)), "c": list("ABCDE") * 4, "d": [0.5 * value for value in range(20)]})
    quasi = ["n", "c", ra.Numeric("d", continuous=True)]
    assert ra.anonymize(table, k=20, quasi=quasi).quality()["certainty"] == pytest.approx(1)
    twins = pa.concat_tables([table, table])
    assert ra.anonymize(twins, k=2, quasi=quasi).quality()["certainty"] == 0


def test_constant_columns_cost_nothing() -> None:
    table = pa.table({"n": [7] * 12, "c": ["A"] * 12, "f": [0.1] * 12, "b": [True] * 12})
    quasi = ["n", "c", ra.Numeric("f", continuous=True), "b"]
    for compact in (True, False):
        quality = ra.anonymize(table, k=3, quasi=quasi, compact=compact).quality()
        expected = 0.0 if compact else 0.25  # truth values have a domain of two, whatever occurs
        assert quality["certainty"] == pytest.approx(expected)
        assert math.isfinite(quality["kl_divergence"])


def test_the_domain_of_the_schema_counts_and_not_that_of_the_data() -> None:
    table = pa.table({"n": [0, 10]})
    for attribute, expected in (
        (ra.Numeric("n"), 1.0),
        (ra.Numeric("n", domain=(-50, 50)), 0.1),
        (ra.Numeric("n", domain=(-50, 50), continuous=True, type="float64"), 0.1),
        (ra.Numeric("n", domain=(-(2**60), 2**60)), 10 / 2**61),
        (ra.Categorical("n", order=[str(value) for value in range(21)]), 1 / 20),
    ):
        assert ra.anonymize(table, k=2, quasi=[attribute]).quality()["certainty"] == pytest.approx(expected)


def test_wide_numbers_that_floats_cannot_tell_apart() -> None:
    table = pa.table({"n": [2**62, 2**62 + 1, -(2**62), -(2**62) + 1]})
    quality = ra.anonymize(table, k=2, quasi=["n"]).quality()
    assert 0 < quality["certainty"] == pytest.approx(1 / 2**63, rel=1e-6)


# --- Definition 5 ------------------------------------------------------------------------------------------------


def cells_of(column: str, released: dict[str, Any], domains: dict[str, list[Any]]) -> set[Any]:
    """The values that a group's rows may have on one attribute, by looking at every value of the domain."""
    state = released.get(f"{column}_missing", "none")
    if state == "all":
        return {None}
    if f"{column}_lo" in released:
        inside = {
            v for v in domains[column] if v is not None and released[f"{column}_lo"] <= v <= released[f"{column}_hi"]
        }
    else:
        inside = set(released[column].strip("{}").split(","))
    return inside | ({None} if state == "some" else set())


def divergence_by_hand(table: pa.Table, release: ra.Release, domains: dict[str, list[Any]]) -> float:
    """Sum over distinct tuples t of p1(t) log(p1(t) / p2(t)): every row of a group is spread over the group's cells."""
    names = list(release.quasi)
    original = [tuple(row[name] for name in names) for row in table.to_pylist()]
    released = {row["row"]: row for row in release.to_arrow(group_id=True, key=True).to_pylist()}
    sizes = Counter(row["group"] for row in released.values())
    p1 = {point: Fraction(count, len(original)) for point, count in Counter(original).items()}
    total = 0.0
    for point, share in p1.items():
        row = original.index(point)
        cells = list(itertools.product(*(cells_of(name, released[row], domains) for name in names)))
        assert point in cells
        p2 = Fraction(sizes[released[row]["group"]], len(original)) / len(cells)
        total += float(share) * math.log(share / p2)
    return total


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(2, 25), k=st.integers(1, 6), compact=st.booleans(), gap=st.booleans())
def test_divergence_is_that_of_the_definition(seed: int, n: int, k: int, compact: bool, gap: bool) -> None:
    rng = np.random.default_rng(seed)
    missing = [rng.random(n) < (0.3 if gap else 0.0) for _ in range(2)]
    table = pa.table(
        {
            "x": pa.array(rng.integers(0, 5, n), mask=missing[0]),
            "c": pa.array(rng.choice(list("ABC"), n), mask=missing[1]),
            "row": pa.array(np.arange(n)),
        }
    )
    domains = {"x": list(range(5)), "c": list("ABC")}
    release = ra.anonymize(table, k=min(k, n), quasi=["x", "c"], key="row", compact=compact, threads=1)
    expected = divergence_by_hand(table, release, domains)
    assert release.quality()["kl_divergence"] == pytest.approx(expected, abs=1e-9)


def test_divergence_of_a_tiny_table_by_hand() -> None:
    """Rows 0, 0, 1, 3 in one group [0-3]: p1 = 1/2, 1/4, 1/4 and p2 = 1/4 for each of the four values."""
    release = ra.anonymize(pa.table({"x": [0, 0, 1, 3]}), k=4, quasi=["x"])
    assert release.quality()["kl_divergence"] == pytest.approx(0.5 * math.log(2))


def test_the_same_numbers_diverge_the_same_whether_they_need_64_bits_or_not() -> None:
    values = [0, 10, 10, 25]
    narrow = ra.anonymize(pa.table({"x": values}), k=4, quasi=["x"]).quality()["kl_divergence"]
    attribute = ra.Numeric("x", domain=(-(2**60), 2**60))
    wide = ra.anonymize(pa.table({"x": values}), k=4, quasi=[attribute]).quality()["kl_divergence"]
    assert wide == pytest.approx(narrow)


def test_a_release_that_knows_nothing_of_the_original_has_no_divergence() -> None:
    assert math.isnan(release_of([interval("x", [(0, 1)], 1)], [2]).quality()["kl_divergence"])
