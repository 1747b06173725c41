"""Groups are exact for every type of column: equal values together, different ones apart, missing ones on their own."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_checking import groups_of

from rtree_anon.checking import check
from rtree_anon.checking import grouping as grouping_module
from rtree_anon.checking.columns import Coded
from rtree_anon.errors import InputError

TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.integers(-3, 3)),
    (pa.int64(), st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])),
    (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    (pa.float64(), st.sampled_from([0.0, -0.0, 0.1, math.nan, -math.inf, math.inf, 5e-324])),
    (pa.float32(), st.sampled_from([0.0, -0.0, 0.5, math.nan])),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.sampled_from(["", "0", "00", "a", "é", "null"])),
    (pa.large_string(), st.sampled_from(["", "0", "00"])),
    (pa.string_view(), st.sampled_from(["", "a", "a longer text than fits inline"])),
    (pa.binary(), st.sampled_from([b"", b"\x00", b"\x00\x00"])),
    (pa.date32(), st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 2))),
    (
        pa.timestamp("us", "UTC"),
        st.sampled_from([dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(1, 1, 1, tzinfo=dt.UTC)]),
    ),
    (pa.time64("us"), st.sampled_from([dt.time(1), dt.time(2)])),
    (pa.decimal128(20, 2), st.sampled_from([decimal.Decimal("1.10"), decimal.Decimal("99999999999999999.99")])),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["x", "y"])),
    (pa.null(), st.none()),
]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    n_rows = draw(st.integers(1, 25))
    columns = {}
    for number in range(draw(st.integers(1, 4))):
        kind, values = draw(st.sampled_from(TYPES))
        cells = draw(st.lists(st.none() | values, min_size=n_rows, max_size=n_rows))
        column = pa.array(cells, kind)
        cut = draw(st.integers(0, n_rows))  # in several chunks
        columns[f"c{number}"] = pa.chunked_array([column[:cut], column[cut:]], type=kind)
    return pa.table(columns)


@settings(deadline=None)
@given(tables())
def test_groups_are_those_of_the_values(table: pa.Table) -> None:
    report = check(table, table.column_names)
    expected = list(groups_of(list(zip(*table.to_pydict().values(), strict=True))).values())
    assert report.sizes.tolist() == [len(rows) for rows in expected]
    assert [group.rows.tolist() for group in report.groups()] == expected
    assert report.k == min(map(len, expected)) and report.n_groups == len(expected) and report.n_rows == len(table)
    for k in (1, 2, 3, 5):
        assert report.rows_below(k).tolist() == sorted(row for rows in expected if len(rows) < k for row in rows)
        assert [group.size for group in report.groups_below(k)] == sorted(
            len(rows) for rows in expected if len(rows) < k
        )
    assert report.unique_rows.tolist() == [rows[0] for rows in expected if len(rows) == 1]


@settings(deadline=None)
@given(tables())
def test_every_type_can_be_sensitive(table: pa.Table) -> None:
    """Codes in value order are a renumbering of the values: as many as there are distinct ones."""
    with_group = table.append_column("g", pa.array([0] * len(table)))
    for name in table.column_names:
        expected = len(groups_of([(cell,) for cell in table[name].to_pylist()]))
        column = check(with_group, ["g"], [name]).sensitive[name]
        assert column.distinct_l == column.n_values == expected


def test_more_combinations_than_a_machine_number_holds() -> None:
    """Twelve columns of a million values each need 240 bits; no two of these rows are equal, and none may collide."""
    rng = np.random.default_rng(1)
    n_rows = 3000
    columns = [rng.integers(0, 1_000_000, n_rows) for _ in range(12)]
    table = pa.table({f"c{number}": np.concatenate([column, column]) for number, column in enumerate(columns)})
    report = check(table, table.column_names)
    assert report.n_groups == n_rows and set(report.sizes) == {2}


def test_overflow_would_lose_the_first_column() -> None:
    """Columns of exactly 2**20 values: in 64 bits, the fifth would push the first one out."""
    ends = [0, 2**20 - 1]
    table = pa.table({"c0": [0, 1, *ends], **{f"c{number}": [7, 7, *ends] for number in range(1, 9)}})
    assert check(table, table.column_names).sizes.tolist() == [1, 1, 1, 1]


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 2)] * 5), min_size=1, max_size=30))
def test_renumbering_before_overflow_keeps_the_groups(rows: list[tuple[int, ...]]) -> None:
    columns = [Coded(np.array(cells, dtype=np.int64), 3) for cells in zip(*rows, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping_module, "_LARGEST", 10)  # overflow at once
        tight = grouping_module.group_rows(columns)
    assert tight.group_of_row.tolist() == grouping_module.group_rows(columns).group_of_row.tolist()


def test_order_of_values() -> None:
    """Missing first, then by value, NaN last: seen from the ordered distance of a group with one value each."""
    values = [None, -math.inf, -1.5, -0.5, 0.0, 2.0, math.nan]
    table = pa.table({"g": list(range(7)), "x": pa.array(values, pa.float64())})
    column = check(table, ["g"], ["x"]).sensitive["x"]
    # from rank r of 0..6, the mean distance to all ranks, divided by 6
    expected = [sum(abs(rank - other) for other in range(7)) / 7 / 6 for rank in range(7)]
    assert column.t_ordered_per_group == pytest.approx(expected)


def test_every_nan_is_the_same_value() -> None:
    """NaNs come with different bits: a negative one, one with a payload."""
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001], dtype=np.uint64)
    table = pa.table({"g": [0] * 3, "x": pa.array(bits.view(np.float64), from_pandas=False)})
    assert check(table, ["x"]).k == 3 and check(table, ["g"], ["x"]).distinct_l == 1


def test_missing_identities_count_as_one_person() -> None:
    table = pa.table({"g": [1, 1, 1], "person": [None, None, 7]})
    assert check(table, ["g"], identity="person").individuals == 2


def test_nested_columns_are_refused() -> None:
    with pytest.raises(InputError, match="column 'x': has the type list"):
        check(pa.table({"x": [["a"], ["b"]]}), ["x"])


@pytest.mark.parametrize("name", ["decimal32", "decimal64", "decimal128", "decimal256"])
def test_decimals_of_every_width_are_grouped_by_value(name: str) -> None:
    """Arrow cannot dictionary-encode decimal32 and decimal64: the checker used to fail on them."""
    if not hasattr(pa, name):
        pytest.skip(f"this pyarrow has no {name}")
    values = pa.array(
        [decimal.Decimal("1.50"), decimal.Decimal("2.25"), decimal.Decimal("1.50"), None], getattr(pa, name)(5, 2)
    )
    assert check(pa.table({"price": values}), quasi=["price"]).sizes.tolist() == [2, 1, 1]
