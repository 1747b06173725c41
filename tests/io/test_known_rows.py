"""Rows that teach nothing are coded as the long way would code them, and whatever teaches something is left to it."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rtree_anon.io.coding import RowCoder
from rtree_anon.io.known_rows import known_codes, one_batch
from rtree_anon.io.loading import prepare_load
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.schema import Categorical, Numeric, Schema

DAY = datetime.date(2020, 1, 1)
FIELDS = pa.schema(
    [
        ("age", pa.int32()),
        ("wage", pa.float64()),
        ("born", pa.date32()),
        ("price", pa.decimal128(9, 2)),
        ("city", pa.string()),
        ("closed", pa.string()),
        ("note", pa.string()),
        ("score", pa.int64()),
    ]
)
SCHEMA = Schema(
    ["age", "wage", "born", "price", Categorical("city", allow_new=True), Categorical("closed")], keep=["note", "score"]
)
BASE = [
    {
        "age": 10,
        "wage": 0.5,
        "born": DAY,
        "price": Decimal("1.00"),
        "city": "a",
        "closed": "x",
        "note": "n",
        "score": 1,
    },
    {"age": 90, "wage": 9.5, "born": DAY.replace(year=2024), "price": Decimal("9.99"), "city": "b", "closed": "y"},
]


def values(known: st.SearchStrategy[Any], *new: Any) -> st.SearchStrategy[Any]:
    """Known values as a rule; a missing or another one now and then."""
    return st.one_of(known, known, known, st.sampled_from([None, *new]))


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "age": values(st.integers(10, 90), 9, 91),
            "wage": values(st.integers(5, 95).map(lambda tenths: tenths / 10), float("nan"), 9.6),
            "born": values(st.integers(0, 1000).map(lambda n: DAY + datetime.timedelta(n)), DAY.replace(year=1900)),
            "price": values(st.integers(100, 999).map(lambda n: Decimal(n) / 100), Decimal("10.00")),
            "city": values(st.sampled_from("ab"), "c"),
            "closed": values(st.sampled_from("xy")),
            "note": values(st.sampled_from(["n", "other", "third"])),
            "score": values(st.integers(-(2**62), 2**62)),
        }
    ),
    min_size=1,
    max_size=6,
)


def prepared(rows: pa.Table, directory: Path, schema: Schema, stored: StoredColumns | None) -> Any:
    return prepare_load(rows, schema, stored, directory=str(directory), sample_rows=1)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("known")


@settings(deadline=None)
@given(rows=ROWS)
@example(rows=[{**BASE[0], "wage": None}, {**BASE[0], "wage": float("nan")}])
def test_as_the_long_way(directory: Path, rows: list[dict[str, Any]]) -> None:
    with prepared(pa.Table.from_pylist(BASE, FIELDS), directory, SCHEMA, None) as first:
        schema, stored = first.schema, first.stored
        assert len([work() for work in first.coded_rows(100)]) == 1
    table = pa.Table.from_pylist(rows, FIELDS)
    sizes = stored.sizes()
    batch = one_batch(table, list(schema.column_names), 100)
    assert batch is not None
    found = known_codes(RowCoder(schema), stored, batch)
    grown = stored.sizes()
    stored.cut_back(sizes)
    with prepared(table, directory, schema, stored) as again:
        ((same_rows, _, expected),) = [work() for work in again.coded_rows(100)]
        if found is not None:
            assert again.schema == schema and stored.sizes() == grown
            assert found.dtype == np.int64 and np.array_equal(found, expected)
            assert batch.equals(same_rows)


def test_known_rows_take_the_short_way(directory: Path) -> None:
    with prepared(pa.Table.from_pylist(BASE, FIELDS), directory, SCHEMA, None) as first:
        coder, stored, names = RowCoder(first.schema), first.stored, list(first.schema.column_names)
    missing = {"city": None, "age": None}
    for rows in ([BASE[0]], BASE, [BASE[0], {**BASE[1], **missing}]):
        batch = one_batch(pa.Table.from_pylist(rows, FIELDS), names, 100)
        assert batch is not None and known_codes(coder, stored, batch) is not None
    for new in ({"age": 91}, {"city": "c"}, {"closed": "z"}, {"wage": 0.25}, {"wage": float("nan")}):
        batch = one_batch(pa.Table.from_pylist([{**BASE[0], **new}], FIELDS), names, 100)
        assert batch is not None and known_codes(coder, stored, batch) is None
    other = pa.Table.from_pylist([BASE[0]], FIELDS).set_column(7, "score", pa.array([1], pa.int16()))
    batch = one_batch(other, names, 100)
    assert batch is not None and known_codes(coder, stored, batch) is None


def test_rows_as_one_batch() -> None:
    table = pa.table({"a": [1, 2, 3], "b": [4, 5, 6]})
    (batch,) = table.to_batches()
    for rows in (table, batch, [batch], [table]):
        found = one_batch(rows, ["b"], 3)
        assert found is not None and found.to_pydict() == {"b": [4, 5, 6]}
    assert one_batch(table, ["b"], 2) is None
    assert one_batch(table, ["b", "c"], 3) is None
    assert one_batch(table.slice(3), ["b"], 3) is None
    assert one_batch(pa.concat_tables([table, table]), ["b"], 10) is None
    assert one_batch(pa.RecordBatch.from_arrays([batch.column(0)] * 2, ["b", "b"]), ["b"], 3) is None
    assert one_batch([{"b": 1}], ["b"], 3) is None
    assert one_batch("rows.csv", ["b"], 3) is None


def test_a_schema_with_a_key_takes_the_long_way(directory: Path) -> None:
    fields = pa.schema([("age", pa.int32()), ("id", pa.int64())])
    table = pa.Table.from_pylist([{"age": 1, "id": 5}, {"age": 2, "id": 6}], fields)
    with prepared(table, directory, Schema([Numeric("age")], key="id"), None) as first:
        batch = one_batch(table, list(first.schema.column_names), 100)
        assert batch is not None and known_codes(RowCoder(first.schema), first.stored, batch) is None
