"""Leaf codes: what comes back is what went in, missing values have a leaf of their own, and errors name the cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtree_anon.errors import InputError, SchemaError
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.io.leaves import LeafTable, read_leaves
from rtree_anon.io.sources import open_source
from rtree_anon.io.spool import CodeSpool


def read(source: Any, hierarchies: dict[str, Hierarchy | None], *, budget: int = 1 << 20, **extras: str) -> LeafTable:
    return read_leaves(open_source(source), hierarchies, extras, budget_bytes=budget)


def values_of(table: LeafTable, column: int) -> list[str | None]:
    """The values of a column, back from its leaf codes."""
    bound = table.hierarchies[column]
    last = len(bound.leaves) - 1 if table.has_missing[column] else -1
    codes = np.concatenate([chunk[column] for chunk in table.chunks()])
    return [None if code == last else bound.leaves[code] for code in codes.tolist()]


@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=6), min_size=1, max_size=5),
    st.sampled_from([0, 7, 1 << 20]),
)
def test_round_trip_in_chunks_in_memory_and_on_disk(chunks: list[list[str | None]], budget: int) -> None:
    batches = [pa.record_batch({"x": pa.array(chunk, pa.string())}) for chunk in chunks]
    table = read(batches, {"x": Hierarchy.suppress()}, budget=budget)
    expected = [value for chunk in chunks for value in chunk]
    assert table.n_rows == len(expected)
    if expected:
        assert values_of(table, 0) == expected
        assert values_of(table, 0) == expected, "chunks can be walked again"


def test_missing_values_stay_apart_below_the_top() -> None:
    rows = pa.table({"age": pa.array([31, None, 34, 57], pa.int32()), "height": [1.5, float("nan"), None, 1.5]})
    table = read(rows, {"age": Hierarchy.intervals(widths=[5, 10]), "height": Hierarchy.suppress()})
    bound = table.hierarchies[0]
    codes = next(chunk[0] for chunk in table.chunks())
    assert table.has_missing == (True, True)
    assert bound.ancestors[:, codes].tolist() == [[0, 3, 1, 2], [0, 2, 0, 1], [0, 2, 0, 1], [0, 0, 0, 0]]
    assert values_of(table, 1) == ["1.5", None, None, "1.5"], "NaN is missing too"


def test_a_column_without_any_value() -> None:
    table = read(pa.table({"x": pa.array([None, None], pa.string()), "y": ["a", "b"]}), {"x": None, "y": None})
    assert values_of(table, 0) == [None, None]


def test_values_are_matched_by_their_text_whatever_their_type() -> None:
    rows = pa.table(
        {
            "number": pa.array([5, 10], pa.int64()),
            "flag": [True, False],
            "day": pa.array([0, 366], pa.int32()).cast(pa.date32()),
            "coded": pa.array(["x", "y"]).dictionary_encode(),
        }
    )
    hierarchies = {
        "number": Hierarchy.from_tree({"*": ["5", "10"]}),
        "flag": Hierarchy.from_tree({"*": ["true", "false"]}),
        "day": Hierarchy.dates(["year"]),
        "coded": Hierarchy.suppress(),
    }
    table = read(rows, hierarchies)
    assert [values_of(table, i) for i in range(4)] == [
        ["5", "10"],
        ["true", "false"],
        ["1970-01-01", "1971-01-02"],
        ["x", "y"],
    ]


def test_a_value_that_the_hierarchy_lacks_is_named_with_file_row_and_column(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("sex,zip\nf,1\nm,2\nx,3\n")
    with pytest.raises(InputError) as error:
        read(str(file), {"sex": Hierarchy.from_tree({"person": ["f", "m"]})})
    assert (error.value.row, error.value.column) == (3, "sex")
    assert "people.csv" in str(error.value) and "'x'" in str(error.value)
    with pytest.raises(SchemaError, match="'sx'"):
        read(str(file), {"sx": None})


def test_empty_fields_of_csv_are_missing_and_digits_are_numbers(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("age,zip\n31,02139\n,02140\n57,10001\n")
    table = read(str(file), {"age": None, "zip": None})
    assert values_of(table, 0) == ["31", None, "57"]
    assert table.hierarchies[1].labels[1][0] == "0213*"


def test_extra_columns_are_ranked_by_value() -> None:
    rows = pa.table({"q": ["a"] * 4, "cost": pa.array([100, 9, None, 20], pa.int64())})
    table = read(rows, {"q": None}, cost="cost")
    assert [chunk[1].tolist() for chunk in table.chunks()] == [[3, 1, 0, 2]]
    assert table.extra_sizes == (4,)
    without = read(rows.slice(0, 2), {"q": None}, cost="cost")
    assert [chunk[1].tolist() for chunk in without.chunks()] == [[1, 0]]
    assert without.extra_sizes == (2,)


def test_the_spool_goes_to_disk_past_its_budget() -> None:
    spool = CodeSpool(budget_bytes=4)
    chunks = [[np.arange(3), np.arange(3) * 300], [np.arange(2), np.arange(2)], [np.array([70_000]), np.array([1])]]
    for chunk in chunks:
        spool.append(chunk)
    back = [[codes.tolist() for codes in chunk] for chunk in spool.chunks()]
    assert back == [[codes.tolist() for codes in chunk] for chunk in chunks]
    assert spool.n_rows == 6
