"""Loads: whatever the source, the batches have all rows once and in order, and decode to what was handed in."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.reading import measured
from rtree_anon.errors import BudgetError, InputError
from rtree_anon.io import csv_files
from rtree_anon.io.loading import PreparedLoad, prepare_load
from rtree_anon.io.table import bind_schema
from rtree_anon.schema import Categorical, Numeric, Schema

from .test_sources import FLAT, SCHEMA, SOURCES


def load(source: Any, schema: Schema, folder: Path, batch_rows: int = 4, **options: Any) -> tuple[PreparedLoad, Any]:
    """A prepared load and all its codes (rows, columns)."""
    stored = options.pop("stored", None)
    prepared = prepare_load(source, schema, stored, directory=str(folder))
    batches = list(prepared.batches(batch_rows, **options))
    assert all(1 <= batch.n_rows <= batch_rows for batch in batches)
    codes = [batch.codes() for batch in reversed(batches)][::-1]  # in any order
    n_columns = len(prepared.ranges(with_ids="first_id" in options))
    return prepared, np.concatenate([*codes, np.empty((n_columns, 0), np.int32)], axis=1).T


def decoded(prepared: PreparedLoad, codes: Any) -> dict[str, list[Any]]:
    columns = {}
    for place, coder in enumerate(prepared.coder.coders):
        columns[coder.name] = coder.decode(np.ascontiguousarray(codes[:, place])).to_pylist()
    carried = codes[:, len(columns) :]
    return columns | {name: column.to_pylist() for name, column in prepared.stored.decode(carried).items()}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("batch_rows", [1, 4, 1000])
def test_every_source_gives_the_same_rows(name: str, batch_rows: int, tmp_path: Path) -> None:
    expected = bind_schema(SOURCES[name](tmp_path), SCHEMA)
    prepared, codes = load(SOURCES[name](tmp_path), SCHEMA, tmp_path, batch_rows)
    with prepared:
        assert prepared.n_rows == 6
        assert prepared.schema == expected
        assert prepared.may_have_missing == (True, True, True)
        assert decoded(prepared, codes) == {column: FLAT[column].to_pylist() for column in SCHEMA.column_names}
        sample = prepared.sample(100)
        assert sorted(sample.tolist()) == sorted(codes[:, :3].tolist())


def test_codes_fit_their_ranges_and_may_be_made_by_any_thread(tmp_path: Path) -> None:
    n = 5000
    random = np.random.default_rng(0)
    columns = {
        "a": random.integers(-50, 50, n).astype(np.int32),
        "b": random.integers(0, 9, n).astype(np.int32),
        "text": pa.array(random.integers(0, 500, n)).cast(pa.string()),
        "when": pa.array(random.integers(0, 2**40, n)).cast(pa.timestamp("us")),
        "number": random.integers(-7, 7, n).astype(np.int8),
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=700)
    schema = Schema(["a", "b"], sensitive="text", keep=["when", "number"])
    one, other = (prepare_load(tmp_path / "x.parquet", schema, directory=str(tmp_path)) for _ in range(2))
    expected = [batch.codes() for batch in one.batches(512)]
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda batch: batch.codes(), list(other.batches(512))))
    assert all(np.array_equal(a, b) and b.flags.c_contiguous for a, b in zip(expected, codes, strict=True))
    rows = np.concatenate(codes, axis=1)
    wide, narrow = other.ranges(), other.ranges(own_rows_only=True)
    assert len(wide) == len(narrow) == len(rows) == 6
    for column, (lo, hi), (least, most) in zip(rows, narrow, wide, strict=True):
        assert least <= lo <= column.min() and column.max() <= hi <= most
    assert narrow[2:] == [(0, 500 + n - 1), (0, 255), (0, 2**32 - 1), (-7, 6)]  # 500 values were known already
    assert list(next(other.batches(512)).columns) == ["a", "b", "text", "when", "when", "number"]


def test_the_narrowest_matrix_that_holds_all_codes(tmp_path: Path) -> None:
    table = pa.table(
        {"a": pa.array([1, 2], pa.int32()), "c": ["x", "y"], "d": pa.array([1, 2], pa.int32()), "e": [2**40, 1]}
    )
    kinds = {
        (("a",), ("c",)): np.int32,
        (("a",), ("d",)): np.int64,  # its smallest number is that of a missing value in 32 bits
        (("a", "e"), ()): np.int64,
    }
    for (quasi, keep), dtype in kinds.items():
        prepared = prepare_load(table, Schema(quasi, keep=keep), directory=str(tmp_path))
        assert next(prepared.batches(10)).codes().dtype == dtype
        assert next(prepared.batches(10, first_id=1)).codes().dtype == np.int64


def test_ids(tmp_path: Path) -> None:
    table = pa.table({"a": [5, 6, 7, 8, 9], "k": pa.array([50, 60, 70, 80, 90], pa.int16())})
    prepared, codes = load(table, Schema(["a"]), tmp_path, batch_rows=2, first_id=100)
    assert not prepared.key_is_id and codes.tolist() == [[5, 100], [6, 101], [7, 102], [8, 103], [9, 104]]
    prepared, codes = load(table, Schema(["a"], key="k"), tmp_path, batch_rows=2)
    assert prepared.key_is_id and codes.tolist() == [[5, 50], [6, 60], [7, 70], [8, 80], [9, 90]]
    assert prepared.ranges() == [(5, 9), (0, 2**62)]


def test_three_hundred_files(tmp_path: Path) -> None:
    for i in range(300):
        columns = {"a": pa.array([i, i + 1], pa.int32() if i % 2 else pa.int64()), "s": [f"text {i % 7}", None]}
        pq.write_table(pa.table(columns), tmp_path / f"{i:03}.parquet")
    prepared, codes = load(str(tmp_path / "*.parquet"), Schema(["a"], sensitive="s"), tmp_path, batch_rows=1000)
    assert prepared.n_rows == 600 and prepared.schema.quasi[0].domain == (0, 300)  # type: ignore[union-attr]
    assert decoded(prepared, codes) == {
        "a": [n for i in range(300) for n in (i, i + 1)],
        "s": [text for i in range(300) for text in (f"text {i % 7}", None)],
    }
    assert sorted(prepared.sample(600)[:, 0].tolist()) == sorted(codes[:, 0].tolist())


def test_a_bound_schema_grows(tmp_path: Path) -> None:
    first = pa.table({"n": [5, 9], "c": ["b", "a"], "s": ["x", None]})
    schema = Schema(["n", Categorical("c", allow_new=True)], sensitive="s")
    prepared, _ = load(first, schema, tmp_path)
    pq.write_table(pa.table({"n": [100, 7], "c": ["z", "a"], "s": ["y", "x"]}), tmp_path / "x.parquet")
    later, codes = load(tmp_path / "x.parquet", prepared.schema, tmp_path, stored=prepared.stored)
    assert later.schema.quasi[0].domain == (5, 100)  # type: ignore[union-attr]
    assert later.schema.quasi[1].values == ("a", "b", "z")  # type: ignore[union-attr]
    assert codes.tolist() == [[100, 2, 1], [7, 0, 0]]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_what_a_bound_schema_does_not_accept(kind: str, tmp_path: Path) -> None:
    prepared, _ = load(pa.table({"n": [5, 9], "c": ["b", "a"]}), Schema([Numeric("n", grow=False), "c"]), tmp_path)
    for columns, row, column, problem in (
        ({"n": [6] * 99 + [10], "c": ["a"] * 100}, 100, "n", "10 is outside the domain 5 to 9"),
        ({"n": [6] * 100, "c": ["b"] * 90 + ["q"] * 10}, 91, "c", "the value 'q' is not known to the schema"),
    ):
        path = tmp_path / f"x.{kind}"
        if kind == "csv":
            pa.csv.write_csv(pa.table(columns), path)
        else:
            pq.write_table(pa.table(columns), path)
        with pytest.raises(InputError, match=problem) as caught:
            later = prepare_load(path, prepared.schema, prepared.stored, directory=str(tmp_path))
            if kind == "csv":
                assert later.sample(1000).shape == (0, 2)  # the load itself will tell which row it is
            for batch in later.batches(30):
                batch.codes()
        assert (caught.value.source, caught.value.row, caught.value.column) == (str(path), row, column)


@pytest.mark.parametrize("empty", ["table", "parquet", "csv", "stream"])
def test_no_rows(empty: str, tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([], pa.int64()), "s": pa.array([], pa.string())})
    pq.write_table(table, tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("a,s\n")
    sources = {
        "table": table,
        "parquet": tmp_path / "x.parquet",
        "csv": tmp_path / "x.csv",
        "stream": table.to_reader(),
    }
    schema = Schema(["a"], sensitive="s")
    with pytest.raises(InputError, match="there are no rows"):
        prepare_load(sources[empty], schema, directory=str(tmp_path))
    known, _ = load(pa.table({"a": [1], "s": ["x"]}), schema, tmp_path)
    sources["stream"] = table.to_reader()
    later, codes = load(sources[empty], known.schema, tmp_path, stored=known.stored)
    with later:
        assert later.n_rows == 0 and codes.shape == (0, 2) and later.sample(5).shape == (0, 1)
        assert later.schema == known.schema


def test_dictionaries_are_limited(tmp_path: Path) -> None:
    table = pa.table({"a": [1] * 9000, "note": [f"note {i}" for i in range(9000)]})
    schema = Schema(["a"], keep="note")
    with (
        prepare_load(table, schema, directory=str(tmp_path), dictionary_bytes=100_000) as prepared,
        pytest.raises(BudgetError, match="column 'note'"),
    ):
        list(prepared.batches(1000))


def test_categories_are_limited(tmp_path: Path) -> None:
    """A name that nearly every row has of its own is no category that a load could keep in memory."""
    table = pa.table({"name": [f"name {i}" for i in range(9000)]})
    with pytest.raises(BudgetError, match=r"column 'name': its 9,000 distinct values .* more memory, or leave"):
        prepare_load(table, Schema(["name"]), directory=str(tmp_path), dictionary_bytes=1_000_000)
    prepare_load(table, Schema(["name"]), directory=str(tmp_path), dictionary_bytes=2_000_000)


CSV_COLUMNS = {
    "whole, then fractions": [*range(2000), 0.5, 1.25],
    "missing, then numbers": [*[""] * 2000, 5, 7],
    "the word NA, then dates": [*["NA"] * 2000, "2024-05-31"],
    "dates, then moments": [*["2024-05-31"] * 2000, "2024-05-31T12:00:00"],
    "numbers, then long ones": [*range(2000), 2**40, -(2**50)],
    "categories": [*["a", "b"] * 1000, "c"],
    "numbers, then padded": [*range(2000), "007"],
    "nothing": [""] * 2000,
    "nothing but NA": ["NA"] * 2000,
    "times of day": ["12:30:00"] * 2000,
    "truth": ["true", "false"] * 1000,
}


@pytest.mark.parametrize("name", CSV_COLUMNS)
def test_types_of_text_are_those_of_all_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The type that is guessed from the first block may be wrong; what is bound in the end is not."""
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 1 << 12)
    values = CSV_COLUMNS[name]
    path = tmp_path / "x.csv"
    path.write_text("x,y\n" + "".join(f"{value},{i}\n" for i, value in enumerate(values)))
    prepared, codes = load(path, Schema(["x"], keep=["y"]), tmp_path, batch_rows=700)
    assert prepared.schema == bind_schema(path, Schema(["x"], keep=["y"]))
    rows = decoded(prepared, codes)
    assert rows["y"] == list(range(len(values))) and prepared.n_rows == len(values)
    missing = [value in ("", "NA") for value in values]
    assert [value is None for value in rows["x"]] == missing
    assert prepared.may_have_missing == (any(missing),)
    coder = prepared.coder.coders[0]
    assert Counter(coder.decode(prepared.sample(5000)[:, 0].copy()).to_pylist()) == Counter(rows["x"])


def test_text_in_typed_columns_is_parsed(tmp_path: Path) -> None:
    batch = pa.record_batch({"n": ["5", "NA", "7.5"], "d": pa.array(["1", "2", "1"]).dictionary_encode()})
    prepared, codes = load(iter([batch, batch]), Schema([Numeric("n"), Numeric("d")]), tmp_path)
    with prepared:
        assert decoded(prepared, codes) == {"n": [5.0, None, 7.5] * 2, "d": [1, 2, 1] * 2}


def test_the_benchmark_runs_at_tiny_size(tmp_path: Path) -> None:
    results = measured(tmp_path, n_rows=300, repeats=1)
    assert (
        all(set(steps) == {"decode", "prepare", "sample", "codes"} for steps in results.values()) and len(results) == 3
    )
