"""Loads of streams, and of sources that change, end too early or fail half-way: the same rows, or one clear error."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from rtree_anon.errors import InputError, StorageError
from rtree_anon.io import stream_spool
from rtree_anon.io.loading import PreparedLoad, prepare_load
from rtree_anon.io.table import bind_schema
from rtree_anon.schema import Schema

N_ROWS = 3000
SCHEMA = Schema(["n", "c"], sensitive="s", keep="b")


def table(n_rows: int = N_ROWS) -> pa.Table:
    random = np.random.default_rng(1)
    return pa.table(
        {
            "n": random.integers(0, 10**10, n_rows),
            "c": pa.array([None, *(f"c{i}" for i in random.integers(0, 40, n_rows - 1))]),
            "s": pa.array([f"text {i}" for i in random.integers(0, 700, n_rows)]),
            "b": pa.array(random.integers(0, 2, n_rows).astype(bool)),
        }
    )


def all_codes(prepared: PreparedLoad, batch_rows: int = 512) -> Any:
    return np.concatenate([batch.codes() for batch in prepared.batches(batch_rows)], axis=1)


def encoded(batch: pa.RecordBatch, *, ordered: bool) -> pa.RecordBatch:
    """With dictionaries of its own, which differ from batch to batch."""
    columns = []
    for column in batch.columns:
        if pa.types.is_string(column.type):
            found = column.dictionary_encode()
            column = pa.DictionaryArray.from_arrays(found.indices, found.dictionary, ordered=ordered)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


STREAMS = {
    "reader": lambda: table().to_reader(max_chunksize=700),
    "batches": lambda: iter(table().to_batches(max_chunksize=13)),
    "views": lambda: iter(
        table().set_column(1, "c", table()["c"].cast(pa.string_view())).to_batches(max_chunksize=500)
    ),
    "dictionaries": lambda: (encoded(batch, ordered=False) for batch in table().to_batches(max_chunksize=500)),
    "other columns, too": lambda: iter(table().append_column("x", pa.nulls(N_ROWS)).to_batches(max_chunksize=999)),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_gives_what_its_table_gives(name: str, tmp_path: Path) -> None:
    with prepare_load(table(), SCHEMA, directory=str(tmp_path)) as expected:
        rows = all_codes(expected)
        sample = expected.sample(100)
    with prepare_load(STREAMS[name](), SCHEMA, directory=str(tmp_path)) as prepared:
        assert prepared.schema == expected.schema and prepared.n_rows == N_ROWS
        assert np.array_equal(all_codes(prepared), rows)
        assert np.array_equal(prepared.sample(100), sample)
        assert np.array_equal(all_codes(prepared, 100), rows), "and it can be read again"
    assert list(tmp_path.iterdir()) == []


def test_an_ordered_category_of_a_stream_keeps_its_order(tmp_path: Path) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1, 0]), pa.array(["low", "medium", "high"]), ordered=True)
    batch = pa.record_batch({"c": values})
    with prepare_load(iter([batch, batch]), Schema(["c"]), directory=str(tmp_path)) as prepared:
        assert prepared.schema == bind_schema(batch, Schema(["c"]))
        assert all_codes(prepared).tolist() == [[0, 2, 1, 0, 0, 2, 1, 0]]


def test_a_stream_that_fails_half_way(tmp_path: Path) -> None:
    class OwnError(RuntimeError):
        pass

    def failing(error: Exception) -> Iterator[pa.RecordBatch]:
        yield from table().to_batches(max_chunksize=700)[:2]
        raise error

    with pytest.raises(OwnError):  # a caller's own error reaches the caller
        prepare_load(failing(OwnError()), SCHEMA, directory=str(tmp_path))
    with pytest.raises(InputError, match="batches: cannot be read: Connection reset by peer"):
        prepare_load(failing(OSError(errno.ECONNRESET, "x")), SCHEMA, directory=str(tmp_path))
    other = pa.record_batch({"n": [1]})
    with pytest.raises(InputError, match="row 701, column 'c': a record batch does not have the column once"):
        prepare_load(iter([*table(700).to_batches(), other]), SCHEMA, directory=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="could not make a temporary file"):
        prepare_load(table().to_reader(), SCHEMA, directory=str(tmp_path / "none"))

    class Full:
        def __init__(self, **_: Any) -> None:
            self.closed = False

        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            self.closed = True

        def flush(self) -> None:
            pass

        def tell(self) -> int:
            return 0

    monkeypatch.setattr(stream_spool.tempfile, "TemporaryFile", Full)
    with pytest.raises(StorageError, match=r"could not write to a temporary file: .*[Nn]o space left"):
        prepare_load(table().to_reader(), SCHEMA, directory=str(tmp_path))


def write(path: Path, rows: pa.Table) -> None:
    if path.suffix == ".parquet":
        pq.write_table(rows, path, row_group_size=500)
    elif path.suffix == ".csv":
        pa_csv.write_csv(rows, path)
    else:
        feather.write_feather(rows, str(path), chunksize=500)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".feather"])
@pytest.mark.parametrize("change", ["before", "while reading", "truncated", "gone"])
def test_a_file_that_changes_under_a_load(suffix: str, change: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    write(path, table())
    with prepare_load(path, SCHEMA, directory=str(tmp_path)) as prepared:
        batches = prepared.batches(200)
        if change != "before":
            next(batches).codes()
        if change == "truncated":
            with path.open("r+b") as file:
                file.truncate(path.stat().st_size // 2)
        elif change == "gone":
            path.unlink()
        else:
            write(path, table(N_ROWS + 5))
        with pytest.raises(InputError, match=str(path)):
            for batch in batches:
                batch.codes()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".feather"])
def test_a_file_that_changes_before_its_sample_is_taken(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    write(path, table())
    with prepare_load(path, SCHEMA, directory=str(tmp_path)) as prepared:
        write(path, table(N_ROWS + 5))
        if suffix == ".parquet":
            with pytest.raises(InputError, match="the file was changed while it was read"):
                prepared.sample(100)
        else:  # it was taken along with the first pass
            assert len(prepared.sample(100)) == 100
