"""Any table can be checked: files of other tools, frames of other libraries; bad input gets one clear sentence."""

from __future__ import annotations

import datetime as dt
import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from rtree_anon.checking import check
from rtree_anon.errors import InputError, SchemaError, UsageError

TABLE = pa.table({"age": [20, 20, None, None, 30], "zip": ["01", "01", "1", "1", "1"], "disease": list("ababa")})


class Release:
    """Something that only knows how to become an Arrow table."""

    def to_arrow(self) -> pa.Table:
        return TABLE


@pytest.mark.parametrize(
    "frame",
    [
        TABLE,
        TABLE.combine_chunks().to_batches()[0],
        TABLE.to_reader(max_chunksize=2),
        TABLE.to_pandas(),
        pl.from_arrow(TABLE),
        Release(),
    ],
    ids=["table", "batch", "reader", "pandas", "polars", "release"],
)
def test_frames(frame: Any) -> None:
    report = check(frame, ["age", "zip"], ["disease"])
    assert report.sizes.tolist() == [2, 2, 1] and report.unique_rows.tolist() == [4]
    assert report.distinct_l == 1 and report.n_rows == 5


def write_csv(table: pa.Table, path: Path) -> None:
    pyarrow.csv.write_csv(table, path)


def write_gzipped(table: pa.Table, path: Path) -> None:
    with gzip.open(path, "wb") as file:
        pyarrow.csv.write_csv(table, file)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("t.parquet", pyarrow.parquet.write_table),
        ("t.csv", write_csv),
        ("t.csv.gz", write_gzipped),
        ("t.arrow", pyarrow.feather.write_feather),
    ],
)
@pytest.mark.parametrize("as_path", [str, Path])
def test_files(tmp_path: Path, name: str, write: Any, as_path: type) -> None:
    write(TABLE, tmp_path / name)
    report = check(as_path(tmp_path / name), ["age", "zip"], ["disease"])
    assert report.sizes.tolist() == [2, 2, 1] and report.unique_rows.tolist() == [4]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_text_files_of_other_tools(tmp_path: Path, delimiter: str) -> None:
    """A byte-order mark, other delimiters, quotes, missing fields; texts stay as they are."""
    lines = ["age,zip,note", '"[20-24]",01,x', "[20-24],1,x", "[20-24],01,x", ",01,y", ",01,y", '"",01,y']
    path = tmp_path / "t.csv"
    path.write_text("\ufeff" + "\n".join(lines).replace(",", delimiter) + "\n", encoding="utf-8")
    report = check(path, ["age", "zip"])
    assert [group.rows.tolist() for group in report.groups()] == [[0, 2], [1], [3, 4], [5]]


def test_a_line_break_inside_quotes_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    n_rows = 200_000  # longer than one block of the reader, which must not end inside quotes
    path.write_text("age,zip\n" + '"a\nbb",1\n' * n_rows)
    assert check(path, ["age", "zip"]).k == n_rows


def test_interval_release_is_grouped_by_both_ends_and_missingness() -> None:
    table = pa.table(
        {
            "age_lo": [20, 20, 20, 20],
            "age_hi": [24, 24, 25, 24],
            "age_missing": ["none", "none", "none", "some"],
            "birth_lo": [dt.date(2000, 1, 1)] * 4,
            "birth_hi": [dt.date(2001, 1, 1)] * 4,
            "sex": ["{F,M}"] * 4,
            "sex_missing": ["none"] * 4,
        }
    )
    report = check(table, ["age", "birth", "sex"])
    assert report.columns == ("age_lo", "age_hi", "age_missing", "birth_lo", "birth_hi", "sex", "sex_missing")
    assert report.sizes.tolist() == [2, 1, 1]
    assert report.to_dict()["below"]["listed"][0]["values"]["birth_lo"] == "2000-01-01"


def test_other_columns_may_hold_anything() -> None:
    frame = pd.DataFrame({"age": [1, 1], "odd": [object(), "text"], 7: [1, 2]})
    assert check(frame, ["age"]).k == 2


def test_a_single_name_needs_no_list() -> None:
    assert check(TABLE, "zip", "disease").k == 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"quasi": ["weight"]}, SchemaError, "no column 'weight'.*age, zip, disease"),
        ({"quasi": ["age"], "sensitive": ["weight"]}, SchemaError, "no column 'weight'"),
        ({"quasi": ["age"], "identity": "weight"}, SchemaError, "no column 'weight'"),
        ({"quasi": []}, UsageError, "at least one quasi-identifier"),
        ({"quasi": ["age", "age"]}, SchemaError, "'age' is named twice"),
        ({"quasi": ["age"], "counts": "disease"}, InputError, "column 'disease': counts have to be whole numbers"),
        ({"quasi": ["zip"], "counts": "age"}, InputError, "row 3, column 'age': a count has to be 1 or more"),
    ],
)
def test_wrong_columns(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check(TABLE, **arguments)


def test_one_end_of_an_interval_is_not_enough() -> None:
    with pytest.raises(SchemaError, match="no pair 'age_lo', 'age_hi'"):
        check(pa.table({"age_lo": [1]}), ["age"])


def test_columns_of_the_same_name_are_refused_only_if_asked_for() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"])
    assert check(table, ["b"]).k == 1
    with pytest.raises(SchemaError, match="2 columns called 'a'"):
        check(table, ["a"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "empty.csv: cannot be read"),
        ("header.csv", b"age,zip\n", "no rows"),
        ("short.csv", b"age,zip\n1,2\n3\n", "short.csv, row 2: the row has 1 fields, the header has 2"),
        ("long.csv", b"age;zip\n" + b"1;2\n" * 400_000 + b"3;4;5\n", "long.csv, row 400001: the row has 3 fields"),
        ("latin.csv", b"age,zip\n\xff\xfe,2\n", "latin.csv: cannot be read"),
        ("broken.parquet", b"PAR1 nothing", "broken.parquet: cannot be read"),
        ("broken.csv.gz", b"no gzip", "broken.csv.gz: cannot be read"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        check(tmp_path / name, ["age"])


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        check(tmp_path / "none.csv", ["age"])
    with pytest.raises(UsageError, match="is a directory"):
        check(tmp_path, ["age"])


def test_not_a_table() -> None:
    with pytest.raises(UsageError, match="Cannot check a int"):
        check(7, ["age"])


def test_mixed_types_in_a_pandas_column() -> None:
    with pytest.raises(InputError, match="one type each"):
        check(pd.DataFrame({"age": [1, "old", object()]}, dtype=object), ["age"])
