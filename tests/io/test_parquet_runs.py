"""Parquet files from runs: Arrow reads back exactly the rows, whatever the types, and finds every flipped bit."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import InputError
from rtree_anon.io.parquet_runs import RunFile
from rtree_anon.io.run_batches import RunBatch
from rtree_anon.io.thrift import from_bytes, to_bytes

DAY = datetime.date(1999, 12, 31)
NOON = datetime.datetime(2001, 2, 3, 12)
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, 0, 127],
    pa.int16(): [-(2**15), 5],
    pa.int32(): [-(2**31), -1, 0, 2**31 - 1],
    pa.int64(): [-(2**63), 2**63 - 1, 7],
    pa.uint8(): [0, 255],
    pa.uint16(): [65535, 1],
    pa.uint32(): [2**32 - 1, 1],
    pa.uint64(): [2**64 - 1, 3],
    pa.float16(): [0.5, -2.0],
    pa.float32(): [0.5, -0.0, 0.0, 1e30],
    pa.float64(): [-1e300, 0.1, -0.0, float("inf")],
    pa.bool_(): [True, False],
    pa.date32(): [DAY, DAY.replace(year=1)],
    pa.date64(): [DAY],
    pa.time64("us"): [datetime.time(1, 2, 3)],
    pa.timestamp("s"): [NOON],
    pa.timestamp("us", "Europe/Rome"): [NOON, NOON.replace(year=1901)],
    pa.timestamp("ns"): [NOON],
    pa.decimal128(9, 2): [Decimal("1.25"), Decimal("-99.99")],
    pa.decimal128(30, 5): [Decimal("12345678901234567890.5"), Decimal("-1")],
    pa.string(): ["", "a", "ä€", "x" * 300],
    pa.large_string(): ["b", "{c,d}"],
    pa.list_(pa.int32()): [[1, 2], []],
}


@st.composite
def batches(draw: st.DrawFn) -> list[RunBatch]:
    """A few batches with the same columns."""
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    n_repeated = draw(st.integers(1, len(types)))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        lengths = draw(st.lists(st.integers(1, 4) | st.integers(1, 300), min_size=1, max_size=12))
        columns = []
        for place, kind in enumerate(types):
            n = len(lengths) if place < n_repeated else sum(lengths)
            some = st.sampled_from(VALUES[kind])
            values = draw(st.lists(some | st.none() if draw(st.booleans()) else some, min_size=1, max_size=6))
            columns.append(pa.array([values[i * i % len(values)] for i in range(n)], kind))
        names = [f"c{place}" for place in range(len(types))]
        made = dict(zip(names, columns, strict=True))
        repeated = {name: made[name] for name in names[:n_repeated]}
        found.append(RunBatch(np.array(lengths), repeated, {name: made[name] for name in names[n_repeated:]}))
    return found


def write(path: Path, groups: list[list[RunBatch]], schema: pa.Schema | None = None) -> None:
    with RunFile(str(path), schema or groups[0][0].schema, "test version 1.0") as file:
        for group in groups:
            file.append(file.encoded(group))


@settings(deadline=None)
@given(parts=batches(), together=st.booleans())
def test_arrow_reads_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, parts: list[RunBatch], together: bool
) -> None:
    path = tmp_path_factory.mktemp("runs") / "f.parquet"
    write(path, [parts] if together else [[part] for part in parts])
    expected = pa.Table.from_batches([part.to_record_batch() for part in parts])
    # Arrow stores seconds as milliseconds and days in milliseconds as days; a file of its own does so too.
    by_arrow = path.with_name("arrow.parquet")
    pq.write_table(expected, by_arrow)
    assert pq.read_table(path, page_checksum_verification=True).equals(pq.read_table(by_arrow))
    with pq.ParquetFile(path) as file:
        assert file.metadata.num_rows == len(expected) and file.metadata.created_by == "test version 1.0"
        assert file.metadata.num_row_groups == (1 if together else len(parts))
        if together:
            for place, name in enumerate(expected.column_names):
                if not pa.types.is_nested(expected[name].type):
                    check_statistics(file.metadata.row_group(0).column(place), expected[name])


def check_statistics(chunk: pq.ColumnChunkMetaData, values: pa.ChunkedArray) -> None:
    assert chunk.num_values == len(values)
    statistics = chunk.statistics
    if statistics is None:
        return
    assert statistics.null_count == values.null_count
    numeric = pa.types.is_integer(values.type) or values.type in (pa.float32(), pa.float64())
    if statistics.has_min_max and numeric:
        ends = pc.min_max(values).as_py()
        assert (statistics.min, statistics.max) == (ends["min"], ends["max"])


def test_columns_that_are_never_missing_need_no_levels(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string(), nullable=False)])
    batch = RunBatch(np.array([3, 2]), {"a": pa.array([1, 2], pa.int32())}, {"b": pa.array(list("vwxyz"))})
    write(tmp_path / "f.parquet", [[batch]], schema)
    assert pq.read_table(tmp_path / "f.parquet").to_pydict() == {"a": [1, 1, 1, 2, 2], "b": list("vwxyz")}


def test_long_runs_and_many_groups_cost_bytes_by_group(tmp_path: Path) -> None:
    few = RunBatch(np.array([2**30, 2**30]), {"a": pa.array([1, 2])}, {})
    write(tmp_path / "few.parquet", [[few]])
    assert (tmp_path / "few.parquet").stat().st_size < 1000
    with pq.ParquetFile(tmp_path / "few.parquet") as file:
        assert file.metadata.num_rows == 2**31
    numbers = np.arange(70_000)  # three bytes each
    many = RunBatch(numbers % 3 + 1, {"a": pa.array(numbers)}, {})
    write(tmp_path / "many.parquet", [[many]])
    assert (
        pq.read_table(tmp_path / "many.parquet")["a"].to_numpy().tolist()
        == np.repeat(numbers, numbers % 3 + 1).tolist()
    )


def many_runs(n: int, longest: int = 90) -> RunBatch:
    """Runs of columns that zstd makes no smaller, of some that it does, and of texts; some values are missing."""
    rng = np.random.default_rng(n)
    columns = {
        "random": pa.array(rng.integers(-(2**31), 2**31, n).astype(np.int32)),
        "wide": pa.array(rng.integers(-(2**63), 2**63 - 1, n)),
        "missing": pa.array(rng.integers(-(2**31), 2**31, n).astype(np.int32), mask=rng.random(n) < 0.3),
        "float": pa.array(rng.normal(size=n)),
        "few": pa.array(rng.integers(0, 100, n).astype(np.int16)),
        "regular": pa.array(np.arange(n, dtype=np.int64) // 2 * 1000),
        "text": pa.array([f"between {value} and more" for value in range(n)]),
    }
    return RunBatch(rng.integers(1, longest, n), columns, {})


def codecs(path: Path) -> dict[str, str]:
    with pq.ParquetFile(path) as file:
        group = file.metadata.row_group(0)
        return {group.column(i).path_in_schema: group.column(i).compression for i in range(group.num_columns)}


@pytest.mark.parametrize("longest", [90, 9])
def test_chunks_are_packed_where_that_saves_enough(tmp_path: Path, longest: int) -> None:
    parts = [many_runs(20_000, longest), many_runs(9_000, longest), many_runs(300, longest)]
    path = tmp_path / "f.parquet"
    write(path, [parts])
    # Short runs of values of their own are packed as plain values; long ones would have too many rows for that.
    of_column = dict.fromkeys(parts[0].repeated, "LZ4" if longest == 9 else "UNCOMPRESSED")
    of_column |= {"few": "UNCOMPRESSED", "text": "ZSTD", "regular": "ZSTD"}
    assert codecs(path) == of_column
    expected = pa.Table.from_batches([part.to_record_batch() for part in parts])
    assert pq.read_table(path, page_checksum_verification=True).equals(expected)
    assert pl.read_parquet(path).equals(pl.from_arrow(expected))
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table().equals(expected)
    with pq.ParquetFile(path) as file:
        for place, name in enumerate(expected.column_names):
            check_statistics(file.metadata.row_group(0).column(place), expected[name])


def test_whether_a_chunk_is_compressed_depends_on_its_rows_alone(tmp_path: Path) -> None:
    for name in ("f", "g"):
        write(tmp_path / name, [[many_runs(9_000)], [many_runs(20_000)]])
    assert (tmp_path / "f").read_bytes() == (tmp_path / "g").read_bytes()


@pytest.mark.parametrize("n", [3000, 20_000])  # many values that are nearly all different are plain ones
def test_a_flipped_bit_of_a_page_is_found(tmp_path: Path, n: int) -> None:
    numbers = np.arange(n)
    random = np.random.default_rng(0).integers(-(2**31), 2**31, n).astype(np.int32)
    columns = {"a": pa.array(numbers * 7919 % 4001), "b": pa.array(map(str, numbers)), "c": pa.array(random)}
    batch = RunBatch(numbers % 7 + 1, columns, {})
    write(tmp_path / "f.parquet", [[batch]])
    assert codecs(tmp_path / "f.parquet")["c"] == ("LZ4" if n > 3000 else "ZSTD")
    content = (tmp_path / "f.parquet").read_bytes()
    n_footer = int.from_bytes(content[-8:-4], "little")
    for place in range(4, len(content) - 8 - n_footer, n // 3 - 3):
        flipped = bytearray(content)
        flipped[place] ^= 16
        (tmp_path / "g.parquet").write_bytes(flipped)
        with pytest.raises(OSError):
            pq.read_table(tmp_path / "g.parquet", page_checksum_verification=True)


def test_a_file_that_fails_has_no_footer(tmp_path: Path) -> None:
    batch = RunBatch(np.array([1]), {"a": pa.array([1])}, {})
    with pytest.raises(RuntimeError), RunFile(str(tmp_path / "f.parquet"), batch.schema, "test") as file:
        file.append(file.encoded([batch]))
        raise RuntimeError
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(tmp_path / "f.parquet")


def test_footers_of_arrow_are_read_and_written_unchanged(tmp_path: Path) -> None:
    columns = {"a": [1, None, -(2**40)], "s": ["x", "y", None], "l": [[1], [], [2, 3]], "b": [True, False, None]}
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=1, write_page_index=True)
    content = (tmp_path / "f.parquet").read_bytes()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
    struct, end = from_bytes(footer)
    assert end == len(footer) and to_bytes(struct) == footer
    for n in (1, 40, len(footer) - 1):
        with pytest.raises(InputError):
            from_bytes(footer[:n])
