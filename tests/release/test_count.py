"""Counting on a release (R+-tree paper, section 2.3): the paper's example, every kind of condition, never too few."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from tests.release.by_hand import category_sets, interval, labels, release_of, states
from tests.release.mixed import FLAVOURS, Mixed, mixed_tables

UTC = datetime.UTC


def test_the_example_of_the_paper() -> None:
    """Query (25 <= age <= 35): half of [30-40] with 10 rows, nothing of [40-50] and [20-24]."""
    release = release_of([interval("age", [(30, 40), (40, 50), (20, 24)], 40)], [10, 7, 5])
    assert release.count(age=(25, 35), estimate="uniform") == pytest.approx(5)
    assert release.count(age=(25, 35)) == release.count(age=(25, 35), estimate="intersect") == 10
    assert release.count(age=(40, 40)) == 17
    assert release.count() == release.count(estimate="uniform") == 22


def test_numbers() -> None:
    release = release_of([interval("age", [(20, 24), (30, 30)], 40, type=pa.int8())], [4, 6])
    assert release.count(age=30) == release.count(age=30, estimate="uniform") == 6
    assert release.count(age=22, estimate="uniform") == pytest.approx(4 / 5)  # one of five values
    assert release.count(age=24.5) == release.count(age=(24.2, 29.9)) == release.count(age=(40, 10)) == 0
    assert release.count(age=(-1000, 10**30)) == release.count(age=(-math.inf, math.inf)) == 10
    assert release.count(age=(1000, 2000)) == release.count(age=(-2000, -1000)) == release.count(age=10**30) == 0
    assert release.count(age=[20, 30]) == release.count(age={20, 30}) == 10
    assert release.count(age=[20, 21], estimate="uniform") == pytest.approx(8 / 5)
    assert release.count(age=np.int64(30)) == release.count(age=Decimal(30)) == 6


def test_wide_numbers_and_floats_are_compared_exactly() -> None:
    big = 2**62
    release = release_of([interval("x", [(big, big), (big + 1, big + 1)], 1)], [2, 3])
    assert (release.count(x=big), release.count(x=big + 1), release.count(x=(big - 1, big))) == (2, 3, 2)
    unsigned = release_of([interval("x", [(2**64 - 1, 2**64 - 1), (0, 0)], 1, type=pa.uint64())], [2, 3])
    assert (unsigned.count(x=2**64 - 1), unsigned.count(x=(-5, 0)), unsigned.count(x=-1)) == (2, 3, 0)
    floats = release_of([interval("x", [(-1e308, 1e308), (0.1, 0.1)], 1)], [4, 2])
    assert floats.count(x=(0, 1e308), estimate="uniform") == pytest.approx(4 / 2 + 2)
    single = release_of([interval("x", [(np.float32(0.1), np.float32(0.1))], 1, type=pa.float32())], [2])
    assert single.count(x=0.1) == 2


def test_decimals() -> None:
    release = release_of([interval("price", [(Decimal("1.00"), Decimal("2.50"))], type=pa.decimal128(5, 2))], [4])
    assert release.count(price=2) == release.count(price=(2, 10**20)) == release.count(price=Decimal("2.500")) == 4
    assert release.count(price=2.501) == release.count(price=(2.505, 3)) == release.count(price=(-math.inf, 0)) == 0
    assert release.count(price=(1, 1.75), estimate="uniform") == pytest.approx(2)


def test_dates_and_moments() -> None:
    day = datetime.date
    release = release_of(
        [interval("d", [(day(2020, 1, 1), day(2020, 1, 11)), (day(2021, 1, 1), day(2021, 1, 1))])], [10, 3]
    )
    assert release.count(d=(day(2020, 1, 6), day(2020, 12, 31))) == 10
    assert release.count(d=(day(2020, 1, 6), day(2020, 12, 31)), estimate="uniform") == pytest.approx(5)
    assert release.count(d="2021-01-01") == 3
    with pytest.raises(ra.UsageError, match="cannot be compared"):
        release.count(d=datetime.datetime(2020, 1, 1))
    seconds = [(datetime.datetime(2020, 1, 1, 0, 0, 1, tzinfo=UTC), datetime.datetime(2020, 1, 1, 0, 0, 3, tzinfo=UTC))]
    zoned = release_of([interval("t", seconds, type=pa.timestamp("s", tz="Europe/Paris"))], [4])
    assert (
        zoned.count(t=(datetime.datetime(2020, 1, 1, 0, 0, 2, tzinfo=UTC), datetime.datetime(2021, 1, 1, tzinfo=UTC)))
        == 4
    )
    assert zoned.count(t="2020-01-01T01:00:03+01:00") == 4
    assert zoned.count(t=datetime.datetime(2020, 1, 1, 0, 0, 2, 500, tzinfo=UTC)) == 0  # between two seconds
    for wrong in (datetime.datetime(2020, 1, 1), "2020-01-01T00:00:02", 5, "noon"):
        with pytest.raises(ra.UsageError, match="cannot be compared"):
            zoned.count(t=wrong)
    clock = release_of([interval("t", [(datetime.time(8), datetime.time(9))], type=pa.time32("s"))], [4])
    assert (clock.count(t=datetime.time(8, 30)), clock.count(t="08:30:00"), clock.count(t=datetime.time(10))) == (
        4,
        4,
        0,
    )


def test_categories_by_value_and_never_by_code() -> None:
    release = release_of([category_sets("c", ["zebra", "ant", "cow"], [[0, 1], [2], [1]])], [4, 5, 6])
    assert release.count(c="ant") == 10
    assert release.count(c="ant", estimate="uniform") == 4 / 2 + 6
    assert release.count(c=["zebra", "cow"]) == 9
    assert release.count(c=("b", "d")) == 5
    assert release.count(c="unknown") == release.count(c=[]) == 0
    numbers = release_of([category_sets("c", [30, 4, 200], [[0, 1], [2]])], [4, 5])
    assert (numbers.count(c=(4, 30)), numbers.count(c=(31, 10**30)), numbers.count(c=4)) == (4, 5, 4)
    truth = release_of([category_sets("c", [False, True], [[0], [0, 1]])], [4, 5])
    assert (truth.count(c=True), truth.count(c=False), truth.count(c=True, estimate="uniform")) == (5, 9, 2.5)


def test_hierarchies() -> None:
    leaves = ["53703", "53706", "53715"]
    release = release_of([labels("zip", leaves, [("5370*", 0, 2), ("53715", 2, 3)], [0, 1])], [4, 5])
    assert release.count(zip="53706") == 4
    assert release.count(zip="53706", estimate="uniform") == 2
    assert release.count(zip=("53700", "53715")) == 9
    assert release.count(zip=["53715"]) == 5


def test_conditions_combine() -> None:
    columns = [interval("age", [(20, 40), (20, 20)], 20), category_sets("sex", ["F", "M"], [[0, 1], [1]])]
    release = release_of(columns, [8, 3])
    assert release.count(age=(20, 30), sex="F") == 8
    assert release.count(age=(20, 30), sex="F", estimate="uniform") == pytest.approx(8 * 0.5 * 0.5)


def test_groups_of_missing_values_match_nothing() -> None:
    missing = states("all", "some", "none")
    columns = [interval("age", [(0, 0), (0, 5), (9, 9)], 9, missing=missing),
               category_sets("sex", ["F"], [[], [0], [0]], missing=missing)]  # fmt: skip
    release = release_of(columns, [3, 4, 5])
    assert release.count(age=(0, 9)) == release.count(sex="F") == 9
    assert release.count(age=0) == 4


@pytest.mark.parametrize(
    "wrong", [{"age": "old"}, {"age": (1, 2, 3)}, {"age": (1,)}, {"age": math.nan}, {"age": True}, {"age": None},
              {"age": (None, 3)}, {"sex": 5}, {"sex": ("A", 2)}, {"sex": [1]}, {"sex": None}, {"height": 3}]
)  # fmt: skip
def test_wrong_conditions(wrong: dict[str, Any]) -> None:
    release = release_of([interval("age", [(20, 24)], 40), category_sets("sex", ["F"], [[0]])], [4])
    with pytest.raises(ra.UsageError, match=next(iter(wrong))):
        release.count(**wrong)
    with pytest.raises(ra.UsageError, match="estimate"):
        release.count(estimate="guess", age=20)


def in_range(value: Any, lo: Any, hi: Any) -> bool:
    return value is not None and lo <= value <= hi


@settings(max_examples=60, deadline=None)
@given(mixed=mixed_tables(max_rows=80, flavours=[flavour for flavour in FLAVOURS if "absent" not in flavour]),
       k=st.integers(1, 8), compact=st.booleans(), data=st.data())  # fmt: skip
def test_intersect_is_never_below_the_true_count(mixed: Mixed, k: int, compact: bool, data: st.DataObject) -> None:
    k = min(k, mixed.table.num_rows)
    release = ra.anonymize(mixed.table, k=k, base_k=min(k, 2), compact=compact, threads=1, **mixed.options)
    rows = mixed.table.to_pylist()
    conditions: dict[str, Any] = {}
    matching = rows
    for name in mixed.names:
        values = [row[name] for row in rows if row[name] is not None]
        if not values or data.draw(st.booleans()):
            continue
        pair = sorted((data.draw(st.sampled_from(values)), data.draw(st.sampled_from(values))))
        if data.draw(st.booleans()) and not isinstance(values[0], bool):
            conditions[name] = tuple(pair)
            matching = [row for row in matching if in_range(row[name], *pair)]
        else:
            conditions[name] = pair
            matching = [row for row in matching if row[name] in pair]
    found = release.count(**conditions)
    assert len(matching) <= found <= len(rows)
    assert 0 <= release.count(estimate="uniform", **conditions) <= found + 1e-9
    if k == 1 and compact and not conditions:
        assert found == len(rows)
