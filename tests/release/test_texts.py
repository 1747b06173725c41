"""How generalized values look: intervals, sets, ranges and labels as text; the columns that tell of missing values."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.release.texts import interval_text, quoted, range_text, unambiguous
from tests.release.by_hand import category_sets, interval, labels, release_of, states
from tests.release.mixed import labels_of, range_of

DAY = datetime.date


@pytest.mark.parametrize(
    ("lo", "hi", "expected"),
    [
        ([20, 20], [24, 20], ["[20-24]", "20"]),
        ([-5, 3], [3, 3], ["[-5 - 3]", "3"]),
        ([-5], [-5], ["-5"]),
        ([1.5], [2.25], ["[1.5-2.25]"]),
        ([Decimal("1.50")], [Decimal("2.25")], ["[1.50-2.25]"]),
        ([DAY(2020, 1, 2)], [DAY(2020, 3, 4)], ["[2020-01-02 - 2020-03-04]"]),
        ([DAY(2020, 1, 2)], [DAY(2020, 1, 2)], ["2020-01-02"]),
        ([datetime.time(8, 30)], [datetime.time(9, 0)], ["[08:30:00.000000-09:00:00.000000]"]),
        ([1, None], [2, None], ["[1-2]", None]),
        ([None], [None], [None]),
    ],
)
def test_intervals(lo: list[Any], hi: list[Any], expected: list[str]) -> None:
    kind = pa.int64() if lo == [None] else None
    assert interval_text(pa.array(lo, kind), pa.array(hi, kind)).to_pylist() == expected


def test_moments_show_their_zone() -> None:
    table = pa.table({"t": pa.array([0, 3600, 7200, 10800], pa.timestamp("s", tz="Europe/Paris"))})
    texts = ra.anonymize(table, k=2, quasi=["t"]).to_arrow("text").column("t").to_pylist()
    assert sorted(set(texts)) == [
        "[1970-01-01 01:00:00+0100 - 1970-01-01 02:00:00+0100]",
        "[1970-01-01 03:00:00+0100 - 1970-01-01 04:00:00+0100]",
    ]


def test_sets_in_full_quoted_where_needed() -> None:
    domain = ["A", "B", "a,b", "{x}", 'say "hi"', "", " pad "]
    column = category_sets("c", domain, [[0, 1], [0], [2, 3], [4], [5], [5, 6], [3], [2]])
    assert column.columns("text")["c"].to_pylist() == [
        "{A,B}",
        "A",
        '{"a,b","{x}"}',
        'say "hi"',
        '""',
        '{""," pad "}',
        '"{x}"',
        "a,b",
    ]
    assert column.columns("text")["c"].equals(column.columns("interval")["c"])


def test_sets_of_numbers_and_truth_values() -> None:
    assert category_sets("c", [10, 20, 30], [[0, 2], [1]]).columns("text")["c"].to_pylist() == ["{10,30}", "20"]
    assert category_sets("c", [False, True], [[0, 1], [1]]).columns("text")["c"].to_pylist() == ["{false,true}", "true"]


@given(st.lists(st.text(max_size=4), min_size=1, max_size=6, unique=True))
def test_sets_can_be_read_back(values: list[str]) -> None:
    column = category_sets("c", values, [list(range(len(values))), [0]])
    whole, single = column.columns("text")["c"].to_pylist()
    assert labels_of(whole) == values
    assert labels_of(single) == values[:1]


@given(st.lists(st.text(max_size=4), min_size=2, max_size=2, unique=True))
def test_ranges_of_categories_can_be_read_back(ends: list[str]) -> None:
    text = range_text(pa.array(ends[:1]), pa.array(ends[1:])).to_pylist()[0]
    assert text.startswith("[") and text.endswith("]")
    assert range_of(text) == (ends[0], ends[1])
    assert range_of(range_text(pa.array(ends[:1]), pa.array(ends[:1])).to_pylist()[0]) == (ends[0], ends[0])


@given(st.text(max_size=5), st.text(max_size=5))
def test_no_two_labels_look_alike(one: str, other: str) -> None:
    for show in (quoted, unambiguous):
        first, second = show(pa.array([one, other])).to_pylist()
        assert (first == second) == (one == other)


def test_labels_of_a_hierarchy_are_shown_as_they_are() -> None:
    column = labels("zip", ["53703", "53706", "53715"], [("5370*", 0, 2), ("53715", 2, 3), ("537**", 0, 3)], [1, 0, 2])
    for style in ("text", "interval"):
        assert column.columns(style)["zip"].to_pylist() == ["53715", "5370*", "537**"]


def test_missing_values_are_told_in_a_column_of_their_own() -> None:
    missing = states("none", "some", "all")
    release = release_of(
        [
            interval("age", [(20, 24), (30, 30), (0, 0)], domain=10, missing=missing),
            category_sets("sex", ["F", "M"], [[0], [0, 1], []], missing=missing),
            labels("zip", ["1", "2"], [("1", 0, 1), ("*", 0, 2)], [0, 1, 0], missing=missing),
        ],
        [2, 3, 2],
    )
    groups = release.to_arrow(layout="groups")
    expected = {
        "age_lo": [20, 30, None],
        "age_hi": [24, 30, None],
        "age_missing": ["none", "some", "all"],
        "sex": ["F", "{F,M}", None],
        "sex_missing": ["none", "some", "all"],
        "zip": ["1", "*", None],
        "zip_missing": ["none", "some", "all"],
        "count": [2, 3, 2],
    }
    assert groups.to_pydict() == expected
    assert release.to_arrow("text", "groups").column("age").to_pylist() == ["[20-24]", "30", None]


@pytest.mark.parametrize("data_type", [pa.int32(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.null()])
def test_a_column_without_any_value(data_type: pa.DataType) -> None:
    table = pa.table({"x": pa.nulls(10, data_type), "y": list(range(10))})
    for compact in (True, False):
        release = ra.anonymize(table, k=3, quasi=["x", "y"], compact=compact)
        for style in ("interval", "text"):
            released = release.to_arrow(style)
            columns = [name for name in released.column_names if name in ("x", "x_lo", "x_hi")]
            shown = {value for name in columns for value in released.column(name).to_pylist()}
            state = set(released.column("x_missing").to_pylist())
            # A region of truth values is {false,true} or missing, for all that the cuts tell.
            assert (shown, state) in [({None}, {"all"}), ({"{false,true}"}, {"some"})]
            assert compact <= (state == {"all"})
