"""Bad input gets one clear sentence that names the file, the row and the column, and never another kind of error.

Each case is a file (bytes under a name) or an object, the schema to read it with, and what the sentence must say.
"""

from __future__ import annotations

import datetime
import gzip
import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rtree_anon.errors import AnonError, InputError
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.io.table import bind_schema, read_table
from rtree_anon.schema import Boolean, Categorical, Date, Numeric, Schema, Timestamp

A = Schema(["a"])
AB = Schema(["a"], sensitive=["b"])
MANY = b"a,b\n" + b"".join(b"%d,x\n" % i for i in range(700_000))  # more than one block of the reader


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def arrow_file(table: pa.Table, *, stream: bool = False) -> bytes:
    sink = io.BytesIO()
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


TABLE = pa.table({"a": list(range(1000)), "b": [f"text {i}" for i in range(1000)]})
DUPLICATE = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
NESTED = pa.table({"a": [[1], [2, 3]], "b": [{"x": 1}, {"x": 2}]})

# name -> (file name, bytes, schema, what the message says)
FILES: dict[str, tuple[str, bytes, Schema, tuple[str, ...]]] = {
    # the file as a whole
    "empty": ("x.csv", b"", A, ("x.csv", "empty")),
    "only a byte order mark": ("x.csv", b"\xef\xbb\xbf", A, ("x.csv", "empty")),
    "only blank lines": ("x.csv", b"\n\n\r\n", A, ("x.csv", "empty")),
    "header only": ("x.csv", b"a,b\n", A, ("x.csv", "no rows")),
    "header only, line not ended": ("x.csv", b"a,b", A, ("x.csv", "no rows")),
    "header only, one column": ("x.csv", b"a", A, ("x.csv", "no rows")),
    "utf-16 with mark": ("x.csv", "a,b\n1,2\n".encode("utf-16"), A, ("x.csv", "UTF-16")),
    "utf-16 without mark": ("x.csv", "a,b\n1,2\n".encode("utf-16-le"), A, ("x.csv", "NUL")),
    "utf-32": ("x.csv", "a,b\n1,2\n".encode("utf-32-be"), A, ("x.csv", "NUL")),
    "NUL in a field": ("x.csv", b"a,b\n1,2\n3,4\n5\0,6\n", A, ("x.csv", "NUL")),
    "NUL late": ("x.csv", MANY + b"1,\0\n", A, ("x.csv", "row 700001", "NUL")),
    "not UTF-8": ("x.csv", b"a,b\nx,2\n\xff\xfe,4\n", A, ("x.csv", "row 2", "'a'", "UTF-8")),
    "Latin-1": ("x.csv", "a,b\nMünchen,2\n".encode("latin-1"), A, ("row 1", "'a'", "UTF-8")),
    "header not UTF-8": ("x.csv", "ä,b\n1,2\n".encode("latin-1"), A, ("header", "UTF-8")),
    "zip archive": ("x.csv", b"PK\x03\x04" + b"x" * 40, A, ("x.csv", "zip")),
    "excel": ("x.xlsx", b"PK\x03\x04" + b"x" * 40, A, ("x.xlsx", "Excel")),
    "old excel": ("x.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 40, A, ("Excel",)),
    "bzip2": ("x.csv.bz2", b"BZh91AY&SY", A, ("bzip2",)),
    "xz": ("x.csv.xz", b"\xfd7zXZ\x00\x00", A, ("xz",)),
    "sqlite": ("x.db", b"SQLite format 3\0", A, ("SQLite",)),
    "binary rubbish": ("x.csv", bytes(range(256)) * 4, A, ("x.csv",)),
    # the header
    "duplicate column": ("x.csv", b"a,b,a\n1,2,3\n", A, ("x.csv", "'a'", "twice")),
    "duplicate column that is not asked for": ("x.csv", b"a,b,b\n1,2,3\n", A, ("x.csv", "'b'", "twice")),
    "column without a name": ("x.csv", b"a,,b\n1,2,3\n", A, ("x.csv", "no name")),
    "trailing comma in the header": ("x.csv", b"a,b,\n1,2,3\n", A, ("x.csv", "no name")),
    "unclosed quote in the header": ("x.csv", b'a,"b\n1,2\n', A, ("x.csv", "header")),
    "unknown column": ("x.csv", b"age,b\n1,2\n", Schema(["agee"]), ("x.csv", "'agee'", "did you mean 'age'")),
    "unknown sensitive column": ("x.csv", b"a,b\n1,2\n", Schema(["a"], sensitive=["c"]), ("x.csv", "'c'")),
    # rows
    "too few fields": ("x.csv", b"a,b\n1,2\n3\n", A, ("x.csv", "row 2", "1 field", "2")),
    "too many fields": ("x.csv", b"a,b\n1,2\n3,4\n5,6,7\n", A, ("x.csv", "row 3", "3 fields")),
    "trailing comma in a row": ("x.csv", b"a,b\n1,2,\n", A, ("row 1", "3 fields")),
    "ragged late": ("x.csv", MANY + b"1\n", A, ("x.csv", "row 700001")),
    "ragged after blank lines": ("x.csv", b"a,b\n\n\n1,2\n\n3\n", A, ("row 2",)),
    "unclosed quote": ("x.csv", b'a,b\n1,2\n3,"4\n5,6\n', A, ("x.csv", "row 2", "quote")),
    "unclosed quote in the last field": ("x.csv", b'a,b\n1,2\n3,"4', A, ("row 2", "quote")),
    "unclosed quote early in a large file": ("x.csv", b'a,b\n1,"x\n' + MANY[4:], A, ("row 1", "quote")),
    "quote that swallows rows": ("x.csv", b'a,b\n1,"2\n3,4\n5,"6\n7,8\n', A, ("row 1", "quote")),
    "text behind a closing quote": ("x.csv", b'a,b\n1,"2"x\n', A, ("row 1", "quote")),
    "row longer than a block": ("x.csv", b"a,b\n1," + b"x" * (9 << 20) + b"\n", A, ("row 1", "longer")),
    # values
    "text in a numeric column": ("x.csv", b"a,b\n1,2\n2,3\nthree,4\n", A, ("x.csv", "row 3", "'a'", "'three'")),
    "text late in a numeric column": ("x.csv", MANY + b"oops,1\n", A, ("row 700001", "'a'", "'oops'", "not a number")),
    "text in a declared number": ("x.csv", b"a\nx\ny\n3\n", Schema([Numeric("a")]), ("row 1", "'a'", "not a number")),
    "infinity": ("x.csv", b"a\n1\n2.5\ninf\n", A, ("x.csv", "row 3", "'a'", "infinite")),
    "minus infinity": ("x.csv", b"a\n1\n-Infinity\n", A, ("row 2", "'a'", "infinite")),
    "infinity in a declared number": ("x.csv", b"a\n1\nInf\n", Schema([Numeric("a")]), ("row 2", "infinite")),
    "a number too large for a float": ("x.csv", b"a\n1.5\n1e999\n", A, ("row 2", "'a'")),
    "too many digits": ("x.csv", b"a\n1\n123456789012345678901234567890\n", A, ("row 2", "digits")),
    "text among dates": ("x.csv", b"a\n2020-01-01\n2020-01-02\nsoon\n", A, ("row 3", "'soon'", "date")),
    "a day that does not exist": ("x.csv", b"a\n2020-01-01\n2023-02-30\n", A, ("row 2", "'2023-02-30'")),
    "a month that does not exist": ("x.csv", b"a\n2020-13-01\n", Schema([Date("a")]), ("row 1", "2020-13-01")),
    "an hour that does not exist": ("x.csv", b"a\n2020-01-01T25:00:00\n", Schema([Timestamp("a")]), ("row 1",)),
    "zones mixed": ("x.csv", b"a\n2020-01-01T00:00:00Z\n2020-01-01T00:00:00\n", A, ("row 2", "zone")),
    "neither true nor false": ("x.csv", b"a\ntrue\n2\n", Schema([Boolean("a")]), ("row 2", "true or false")),
    "a date that is text": ("x.csv", b"a\n2020-01-01\nx\n", Schema([Date("a")]), ("row 2", "date")),
    "unseen category": ("x.csv", b"a\nlow\nhuge\n", Schema([Categorical("a", order=["low"])]), ("row 2", "'huge'")),
    "value that a hierarchy lacks": (
        "x.csv",
        b"a\nasian\nblack\nwhite\n",
        Schema([Categorical("a", hierarchy=Hierarchy.from_tree({"person": ["asian", "black"]}))]),
        ("x.csv", "row 3", "'a'", "white"),
    ),
    "hierarchy of numbers for text": (
        "x.csv",
        b"a\n1\nx\n",
        Schema([Categorical("a", hierarchy=Hierarchy.intervals([5]))]),
        ("x.csv", "row 2", "'a'"),
    ),
    "outside a domain that must not grow": (
        "x.csv",
        b"a\n1\n200\n",
        Schema([Numeric("a", domain=(0, 120), grow=False)]),
        ("x.csv", "row 2", "'a'", "200", "120"),
    ),
    # compressed
    "gzip cut short": ("x.csv.gz", gzip.compress(MANY)[:-20], A, ("x.csv.gz", "cannot be read")),
    "gzip damaged": ("x.csv.gz", gzip.compress(MANY)[:5000] + b"\0\1\2" * 30, A, ("x.csv.gz",)),
    "zstd cut short": ("x.csv.zst", pa.compress(MANY, "zstd", asbytes=True)[:-9], A, ("x.csv.zst",)),
    "gz by name only": ("x.csv.gz", b"a,b\n1,2\n", A, ("x.csv.gz", "not what its name says")),
    "gzip of nothing": ("x.csv.gz", gzip.compress(b""), A, ("x.csv.gz", "empty")),
    # Parquet and Arrow
    "parquet cut short": ("x.parquet", parquet(TABLE)[:-10], A, ("x.parquet", "cannot be read")),
    "parquet of four bytes": ("x.parquet", b"PAR1", A, ("x.parquet",)),
    "parquet footer of rubbish": ("x.parquet", parquet(TABLE)[:-8] + b"\xff\xff\xff\x7fPAR1", A, ("x.parquet",)),
    "parquet by name only": ("x.parquet", b"a,b\n1,2\n", A, ("x.parquet", "not what its name says")),
    "parquet with duplicate columns": ("x.parquet", parquet(DUPLICATE), A, ("x.parquet", "'a'")),
    "parquet nested": ("x.parquet", parquet(NESTED), A, ("x.parquet", "'a'", "nested")),
    "parquet nested sensitive": ("x.parquet", parquet(NESTED.set_column(0, "a", [[1, 2]])), AB, ("'b'", "nested")),
    "parquet without rows": ("x.parquet", parquet(TABLE.slice(0, 0)), A, ("x.parquet", "no rows")),
    "parquet without columns": ("x.parquet", parquet(pa.table({})), A, ("x.parquet", "'a'")),
    "parquet infinity": ("x.parquet", parquet(pa.table({"a": [1.0, np.inf]})), A, ("x.parquet", "row 2", "infinite")),
    "arrow cut short": ("x.arrow", arrow_file(TABLE)[:-200], A, ("x.arrow",)),
    "arrow stream cut short": ("x.arrows", arrow_file(TABLE, stream=True)[:-400], A, ("x.arrows",)),
    "arrow by name only": ("x.arrow", b"a,b\n1,2\n", A, ("x.arrow", "not what its name says")),
    "feather of the old kind": ("x.feather", b"FEA1xxxx", A, ("x.feather", "Feather")),
    "arrow without rows": ("x.arrow", arrow_file(TABLE.slice(0, 0)), A, ("x.arrow", "no rows")),
}

# name -> (makes the source, schema, what the message says)
OBJECTS: dict[str, tuple[Callable[[], Any], Schema, tuple[str, ...]]] = {
    "no such file": (lambda: "nowhere/x.csv", A, ("nowhere", "no such file")),
    "no file for a pattern": (lambda: "nowhere/*.csv", A, ("nowhere", "no file matches")),
    "directory": (lambda: Path(__file__).parent, A, ("directory",)),
    "path with NUL": (lambda: "x\0.csv", A, ("not a path",)),
    "empty path": (lambda: "", A, ("not a path",)),
    "number": (lambda: 5, A, ("cannot read a table",)),
    "nothing": (lambda: None, A, ("cannot read a table",)),
    "bytes": (lambda: b"a,b\n1,2\n", A, ("cannot read a table",)),
    "empty list": (list, A, ("no rows",)),
    "list of numbers": (lambda: [1, 2], A, ("cannot read a table",)),
    "mixed list": (lambda: [TABLE.to_batches()[0], "x.csv"], A, ("record batch was expected",)),
    "table with duplicate columns": (lambda: DUPLICATE, A, ("'a'", "two columns")),
    "table without rows": (lambda: TABLE.slice(0, 0), A, ("no rows",)),
    "nested": (lambda: NESTED, A, ("'a'", "nested")),
    "struct": (lambda: NESTED, Schema(["b"]), ("'b'", "nested")),
    "binary": (lambda: pa.table({"a": [b"x"]}), A, ("'a'", "binary")),
    "infinity": (lambda: pa.table({"a": [1.0, None, -np.inf]}), A, ("row 3", "'a'", "infinite")),
    "infinity in a second chunk": (
        lambda: pa.table({"a": pa.chunked_array([[1.0, 2.0], [np.inf]])}),
        A,
        ("row 3", "'a'", "infinite"),
    ),
    "text as Numeric": (lambda: pa.table({"a": ["1", "x"]}), Schema([Numeric("a")]), ("row 2", "'a'", "not a number")),
    "dates as Numeric": (lambda: pa.table({"a": [datetime.date.min]}), Schema([Numeric("a")]), ("'a'", "Numeric")),
    "floats as Boolean": (lambda: pa.table({"a": [1.5]}), Schema([Boolean("a")]), ("'a'", "Boolean")),
    "numbers other than 0 and 1 as Boolean": (lambda: {"a": [0, 1, 2]}, Schema([Boolean("a")]), ("row 3", "'a'")),
    "time of day cut off": (
        lambda: {"a": [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, 12)]},
        Schema([Date("a")]),
        ("row 2", "'a'"),
    ),
    "date before the year 1": (
        lambda: pa.table({"a": pa.array([0, -(10**6)], pa.int32()).cast(pa.date32())}),
        A,
        ("row 2", "'a'", "years 1 to 9999"),
    ),
    "64 bits are not enough": (lambda: pa.table({"a": pa.array([0, 2**64 - 1], pa.uint64())}), A, ("'a'", "64 bits")),
    "decimal with too many digits": (lambda: {"a": [Decimal("1" * 25)]}, A, ("row 1", "'a'", "digits")),
    "more decimals than declared": (
        lambda: {"a": [1.5, 1.25]},
        Schema([Numeric("a", decimals=1)]),
        ("row 2", "'a'", "1.25"),
    ),
    "unseen category": (lambda: {"a": ["x", "y"]}, Schema([Categorical("a", order=["x"])]), ("row 2", "'y'")),
    "listed values of another type": (
        lambda: {"a": [1, 2]},
        Schema([Categorical("a", order=["low", "high"])]),
        ("'a'", "listed values"),
    ),
    "a time zone that does not exist": (
        lambda: pa.table({"a": pa.array([0], pa.timestamp("s", "Nowhere/Land"))}),
        Schema([Categorical("a")]),
        ("row 1", "'a'"),
    ),
    "batches that differ": (
        lambda: iter([pa.record_batch({"a": [1]}), pa.record_batch({"b": [1]})]),
        A,
        ("row 2", "'a'"),
    ),
    "batches of another type": (
        lambda: iter([pa.record_batch({"a": [1]}), pa.record_batch({"a": ["x"]})]),
        A,
        ("row 2", "'a'"),
    ),
    "rows that are not alike": (lambda: [{"a": 1}, {"a": "x"}], A, ("cannot be read",)),
    "columns of different lengths": (lambda: {"a": [1, 2], "b": [1]}, A, ("cannot be read",)),
}


def test_there_are_enough_cases() -> None:
    assert len(FILES) + len(OBJECTS) >= 60


@pytest.mark.parametrize("case", FILES)
def test_bad_file(case: str, tmp_path: Path) -> None:
    name, content, schema, said = FILES[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(AnonError) as caught:
        read_table(path, schema)
    check_message(str(caught.value), said)
    if caught.type is InputError:
        assert caught.value.source == str(path)


@pytest.mark.parametrize("case", OBJECTS)
def test_bad_object(case: str) -> None:
    make, schema, said = OBJECTS[case]
    with pytest.raises(AnonError) as caught:
        read_table(make(), schema)
    check_message(str(caught.value), said)


@pytest.mark.parametrize("case", ["text late in a numeric column", "ragged late", "infinity", "parquet cut short"])
def test_inferring_a_schema_says_the_same(case: str, tmp_path: Path) -> None:
    name, content, schema, said = FILES[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AnonError) as caught:
        bind_schema(tmp_path / name, schema)
    check_message(str(caught.value), said)


def check_message(message: str, said: tuple[str, ...]) -> None:
    assert "\n" not in message, "one sentence"
    assert len(message) < 500
    for part in said:
        assert part in message


def test_values_that_python_cannot_hold_are_named_too() -> None:
    """A duration of three million years, a time outside the years 1 to 9999, a time of one nanosecond."""
    small = bind_schema({"a": pa.array([0], pa.duration("s"))}, A)
    with pytest.raises(InputError, match="-86399999913601 is outside"):
        read_table({"a": pa.array([-86399999913601], pa.duration("s"))}, small)
    with pytest.raises(InputError, match="years 1 to 9999"):
        read_table({"a": pa.array([0, 2**60], pa.timestamp("s"))}, A)
    day = bind_schema({"a": pa.array([datetime.date(2020, 1, 1)])}, A)
    with pytest.raises(InputError, match=r"00:00:00\.000000001 does not fit"):
        read_table({"a": pa.array([1], pa.timestamp("ns"))}, day)
