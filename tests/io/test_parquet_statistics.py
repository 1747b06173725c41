"""Statistics of Parquet files bind a schema as a pass over the data would, and are never believed blindly."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtree_anon.errors import AnonError, InputError
from rtree_anon.io import files
from rtree_anon.io.loading import prepare_load
from rtree_anon.io.table import bind_schema
from rtree_anon.schema import Date, Schema, Timestamp

from .arrays import any_arrays

in_one_folder = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
STATED = [
    pa.array([-5, 7, None], pa.int32()),
    pa.array([2**40, -(2**62)], pa.int64()),
    pa.array([2**32 - 1, 3], pa.uint32()),
    pa.array([2**63 + 5, 2**63], pa.uint64()),
    pa.array([1, None], pa.date32()),
    pa.array([86_400_000], pa.date64()),
    pa.array([1, 2], pa.timestamp("us", tz="UTC")),
    pa.array([1, 2], pa.timestamp("ns")),
    pa.array([1, 2], pa.time64("us")),
    pa.array([1, 2], pa.time32("ms")),
    pa.array([1, 2], pa.duration("s")),
    pa.array([True, None]),
]


@pytest.fixture
def columns_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns that are read from Parquet files."""
    read: list[str] = []
    before = files.ParquetFile.checked

    def checked(self: Any, file: Any, columns: Any, *rest: Any) -> Any:
        read.extend(columns)
        return before(self, file, columns, *rest)

    monkeypatch.setattr(files.ParquetFile, "checked", checked)
    return read


@in_one_folder
@given(array=any_arrays(), row_group_size=st.integers(1, 12), version=st.sampled_from(["1.0", "2.6"]))
def test_a_schema_is_bound_as_by_reading(array: pa.Array, row_group_size: int, version: str, tmp_path: Path) -> None:
    if pa.types.is_run_end_encoded(array.type) or pa.types.is_float16(array.type):
        return
    table = pa.table({"x": array, "y": array})
    try:
        pq.write_table(table, tmp_path / "x.parquet", row_group_size=row_group_size, version=version)
    except pa.ArrowException:
        return  # not every type can be written
    schema = Schema(["x"], keep=["y"])
    try:
        expected = bind_schema(tmp_path / "x.parquet", schema)
    except AnonError as error:
        with pytest.raises(type(error)):
            prepare_load(tmp_path / "x.parquet", schema, directory=str(tmp_path))
        return
    with prepare_load(tmp_path / "x.parquet", schema, directory=str(tmp_path)) as prepared:
        assert prepared.schema == expected and prepared.n_rows == len(array)
        codes = np.concatenate([batch.codes() for batch in prepared.batches(5)], axis=1)
        ranges = prepared.ranges(own_rows_only=True)
        for row, (lo, hi) in zip(codes, ranges, strict=True):
            present = row[row != np.iinfo(row.dtype).min]
            assert ((present >= lo) & (present <= hi)).all()


@pytest.mark.parametrize("array", STATED, ids=lambda array: str(array.type))
def test_stated_types_are_not_read(array: pa.Array, columns_read: list[str], tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": array, "text": ["a"] * len(array)}), tmp_path / "x.parquet")
    expected = bind_schema(tmp_path / "x.parquet", Schema(["x"]))
    columns_read.clear()
    prepared = prepare_load(tmp_path / "x.parquet", Schema(["x"]), directory=str(tmp_path))
    assert prepared.schema == expected and columns_read == []
    prepare_load(tmp_path / "x.parquet", Schema(["x", "text"]), directory=str(tmp_path))
    assert columns_read == ["text"]


def test_columns_that_do_not_state_their_ends_are_read(columns_read: list[str], tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "b": [3, 4], "c": [0.5, 1.5], "d": [[1], [2]]})
    pq.write_table(table, tmp_path / "x.parquet", write_statistics=["a"])
    prepared = prepare_load(tmp_path / "x.parquet", Schema(["a", "b", "c"]), directory=str(tmp_path))
    assert columns_read == ["b", "c"]
    assert [attribute.domain for attribute in prepared.schema.quasi] == [(1, 2), (3, 4), (0.5, 1.5)]  # type: ignore[union-attr]


def test_a_date_from_moments_is_bound_by_statistics(tmp_path: Path) -> None:
    day = 86_400_000_000
    pq.write_table(pa.table({"x": pa.array([0, 9 * day], pa.timestamp("us"))}), tmp_path / "x.parquet")
    for attribute in (Date("x"), Timestamp("x")):
        prepared = prepare_load(tmp_path / "x.parquet", Schema([attribute]), directory=str(tmp_path))
        assert prepared.schema == bind_schema(tmp_path / "x.parquet", Schema([attribute]))


def lying_file(path: Path, data: pa.Table, stated: pa.Table) -> None:
    """The data of one table under the footer (and so the statistics) of another one of the same layout."""
    options = {"compression": "none", "use_dictionary": False, "data_page_version": "1.0"}
    contents = []
    for table in (data, stated):
        pq.write_table(table, path, **options)
        content = path.read_bytes()
        n_footer = struct.unpack("<I", content[-8:-4])[0] + 8
        contents.append((content[:-n_footer], content[-n_footer:]))
    (body, _), (_, footer) = contents
    path.write_bytes(body + footer)


@pytest.mark.parametrize("true_value", [11, -1, 2**31 - 1, -(2**31) + 1, -(2**31)])
@pytest.mark.parametrize("data_type", [pa.int32(), pa.int64()])
def test_wrong_statistics_are_noticed(true_value: int, data_type: pa.DataType, tmp_path: Path) -> None:
    path = tmp_path / "liar.parquet"
    columns = {"y": pa.array([1] * 100, pa.int32()), "x": pa.array([0, 10] * 50, data_type)}
    stated = pa.table(columns)
    columns["x"] = pa.array([0, 10] * 40 + [true_value] + [10] * 19, data_type)
    lying_file(path, pa.table(columns), stated)
    with prepare_load(path, Schema(["y", "x"]), directory=str(tmp_path)) as prepared:
        assert prepared.ranges() == [(1, 1), (0, 10)]
        batches = list(prepared.batches(30))
        with pytest.raises(InputError, match=r"liar.parquet, row 81, column 'x'"):
            for batch in batches:
                codes = batch.codes()
                missing = np.iinfo(codes.dtype).min
                lo, hi = np.array(prepared.ranges()).T[:, :, None]
                if (((codes < lo) | (codes > hi)) & (codes != missing)).any():  # as the packing of codes finds out
                    raise batch.outside(codes, prepared.ranges())


def test_missing_values_that_the_statistics_deny(tmp_path: Path) -> None:
    path = tmp_path / "liar.parquet"
    stated = pa.table({"x": pa.array([1, 2, 3, 4], pa.int32())})
    lying_file(path, stated, stated)
    assert prepare_load(path, Schema(["x"]), directory=str(tmp_path)).may_have_missing == (False,)
    content = path.read_bytes()
    # definition levels of the only page: a run of four ones becomes a run of four zeros, and the values stay unused
    run = bytes([2, 0, 0, 0, 4 << 1, 1])
    assert content.count(run) == 1
    path.write_bytes(content.replace(run, bytes([2, 0, 0, 0, 4 << 1, 0])))
    with prepare_load(path, Schema(["x"]), directory=str(tmp_path)) as prepared:
        (batch,) = prepared.batches(10)
        with pytest.raises(InputError, match=r"row 1, column 'x': the value is missing, which contradicts"):
            batch.codes()


def test_ends_that_cannot_be_are_not_used(tmp_path: Path) -> None:
    """A day in the year 50000 is no reason to refuse a file that has no such day."""
    path = tmp_path / "liar.parquet"
    fine = pa.table({"x": pa.array([1, 2, 3], pa.date32())})
    lying_file(path, fine, pa.table({"x": pa.array([1, 2, 17_000_000], pa.date32())}))
    assert prepare_load(path, Schema(["x"]), directory=str(tmp_path)).schema == bind_schema(fine, Schema(["x"]))


def test_a_footer_that_promises_more_rows(tmp_path: Path) -> None:
    path = tmp_path / "liar.parquet"
    few, many = (pa.table({"x": pa.array(np.arange(n) % 10, pa.int32())}) for n in (100, 200))
    pq.write_table(few, path, compression="none", use_dictionary=False)
    body = path.read_bytes()
    pq.write_table(many, path, compression="none", use_dictionary=False)
    footer = path.read_bytes()
    n_footer = struct.unpack("<I", footer[-8:-4])[0] + 8
    path.write_bytes(body[:-8].ljust(len(footer) - n_footer, b"\0") + footer[-n_footer:])
    with (
        pytest.raises(InputError, match=r"liar\.parquet"),
        prepare_load(path, Schema(["x"]), directory=str(tmp_path)) as prepared,
    ):
        for batch in prepared.batches(64):
            batch.codes()
