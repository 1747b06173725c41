"""Every kind of source gives the same coded table, reads only the columns that are named, and knows its rows."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from rtree_anon.errors import InputError, SchemaError, UsageError
from rtree_anon.io.sources import open_source
from rtree_anon.io.table import bind_schema, read_table
from rtree_anon.schema import Categorical, Schema

TABLE = pa.table(
    {
        "age": pa.array([31, 25, None, 40, 31, 66], pa.int64()),
        "zip": ["02139", "10001", "02139", None, "94110", "10001"],
        "income": [10.5, None, 3.25, 4.0, 10.5, 0.0],
        "unused": [{"nested": 1}] * 6,
        "illness": ["flu", "cold", "flu", "flu", None, "cold"],
    }
)
FLAT = TABLE.drop_columns(["unused"])
SCHEMA = Schema(("age", "zip", "income"), sensitive=("illness",))


class Streamed:
    """A third party's frame: nothing but the Arrow C stream interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def parquet(folder: Path) -> Any:
    pq.write_table(TABLE, folder / "x.parquet", row_group_size=2)
    return folder / "x.parquet"


def two_parquets(folder: Path) -> Any:
    pq.write_table(TABLE.slice(0, 4), folder / "a.parquet")
    pq.write_table(TABLE.slice(4), folder / "b.parquet")
    return [str(folder / "a.parquet"), folder / "b.parquet"]


def glob(folder: Path) -> Any:
    two_parquets(folder)
    return str(folder / "*.parquet")


def csv(folder: Path) -> Any:
    pa_csv.write_csv(FLAT, folder / "x.csv")
    return folder / "x.csv"


def csv_with_mark(folder: Path) -> Any:
    csv(folder)
    (folder / "y.csv").write_bytes(b"\xef\xbb\xbf" + (folder / "x.csv").read_bytes().replace(b"\n", b"\r\n"))
    return str(folder / "y.csv")


def csv_gz(folder: Path) -> Any:
    (folder / "x.csv.gz").write_bytes(gzip.compress(csv(folder).read_bytes()))
    return folder / "x.csv.gz"


def csv_zst(folder: Path) -> Any:
    (folder / "x.csv.zst").write_bytes(pa.compress(csv(folder).read_bytes(), "zstd", asbytes=True))
    return folder / "x.csv.zst"


def semicolons(folder: Path) -> Any:
    pa_csv.write_csv(FLAT, folder / "x.csv", pa_csv.WriteOptions(delimiter=";"))
    return folder / "x.csv"


def feather_file(folder: Path) -> Any:
    feather.write_feather(TABLE, str(folder / "x.feather"))
    return folder / "x.feather"


def arrow_stream(folder: Path) -> Any:
    with pa.OSFile(str(folder / "x.arrows"), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=4)
    return folder / "x.arrows"


def pandas_frame(folder: Path) -> Any:
    frame = FLAT.to_pandas()
    frame["unused"] = [object()] * 6  # cannot be converted, and is not asked for
    frame.index = pd.Index(range(10, 16), name="age_")
    return frame


def batches(folder: Path) -> Iterator[pa.RecordBatch]:
    yield from TABLE.to_batches(max_chunksize=4)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "table": lambda folder: TABLE,
    "chunked table": lambda folder: pa.concat_tables([TABLE.slice(i, 1) for i in range(6)]),
    "record batch": lambda folder: TABLE.combine_chunks().to_batches()[0],
    "reader": lambda folder: TABLE.to_reader(max_chunksize=2),
    "iterator of batches": batches,
    "list of batches": lambda folder: TABLE.to_batches(max_chunksize=4),
    "c stream": lambda folder: Streamed(TABLE),
    "pandas": pandas_frame,
    "pandas arrow types": lambda folder: FLAT.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas categories": lambda folder: FLAT.to_pandas().astype({"zip": "category"}),
    "polars": lambda folder: pl.from_arrow(FLAT),
    "polars categories": lambda folder: pl.from_arrow(FLAT).with_columns(pl.col("zip").cast(pl.Categorical)),
    "dictionary": lambda folder: FLAT.to_pydict(),
    "rows": lambda folder: FLAT.to_pylist(),
    "parquet": parquet,
    "parquet files": two_parquets,
    "glob": glob,
    "csv": csv,
    "csv with mark and CR LF": csv_with_mark,
    "csv gz": csv_gz,
    "csv zst": csv_zst,
    "csv with semicolons": semicolons,
    "feather": feather_file,
    "arrow stream": arrow_stream,
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_table(name: str, tmp_path: Path) -> None:
    expected = read_table(TABLE, SCHEMA)
    coded = read_table(SOURCES[name](tmp_path), SCHEMA)
    assert coded.codes.tolist() == expected.codes.tolist()
    assert coded.payload.column_names == ["illness"]
    assert coded.payload.to_pydict() == expected.payload.to_pydict()
    for coder, column, ours in zip(coded.coders, SCHEMA.quasi_names, coded.codes.T, strict=True):
        assert coder.decode(ours).to_pylist() == TABLE[column].to_pylist()


@pytest.mark.parametrize("name", SOURCES)
def test_a_schema_is_inferred_without_holding_the_rows(name: str, tmp_path: Path) -> None:
    inferred = bind_schema(SOURCES[name](tmp_path), SCHEMA)
    assert inferred.bound
    assert [column.name for column in inferred.quasi] == ["age", "zip", "income"]  # type: ignore[union-attr]
    zips = inferred.quasi[1]
    assert isinstance(zips, Categorical) and zips.values == ("02139", "10001", "94110")


@pytest.mark.parametrize("name", ["table", "parquet", "csv", "pandas", "polars", "feather", "arrow stream"])
def test_columns_that_are_not_named_are_not_read(name: str, tmp_path: Path) -> None:
    source = open_source(SOURCES[name](tmp_path))
    for piece in source.pieces(["zip"]):
        assert piece.batch.schema.names == ["zip"]


def test_a_stream_can_be_read_once() -> None:
    source = open_source(TABLE.to_reader())
    assert sum(piece.batch.num_rows for piece in source.pieces(["age"])) == 6
    with pytest.raises(UsageError, match="already"):
        list(source.pieces(["age"]))


def test_rows_are_counted_per_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n2\n")
    (tmp_path / "b.csv").write_text("a\n3\nx\n4\n5\n")
    with pytest.raises(InputError) as caught:
        read_table([tmp_path / "a.csv", tmp_path / "b.csv"], Schema(("a",)))
    assert (caught.value.source, caught.value.row, caught.value.column) == (str(tmp_path / "b.csv"), 2, "a")


def test_the_first_bad_row_of_several_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n2\n3\n4\n5\nx\n")
    (tmp_path / "b.csv").write_text("a\n?\n3\n4\n5\n")
    with pytest.raises(InputError) as caught:
        read_table([tmp_path / "a.csv", tmp_path / "b.csv"], Schema(("a",)))
    assert (caught.value.source, caught.value.row) == (str(tmp_path / "a.csv"), 6)


def test_files_of_different_types_are_widened(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int16()), "b": ["x", "y"]}), tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"b": pa.array(["z", "x"]).dictionary_encode(), "a": pa.array([2.5, 3.5], pa.float64())}),
        tmp_path / "b.parquet",
    )
    coded = read_table(str(tmp_path / "*.parquet"), Schema(("a", "b")))
    assert coded.coders[0].decode(coded.codes[:, 0]).to_pylist() == [1.0, 2.0, 2.5, 3.5]
    assert coded.coders[1].decode(coded.codes[:, 1]).to_pylist() == ["x", "y", "z", "x"]


def test_files_that_do_not_fit_together(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"b": [1]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"a": [[1]]}), tmp_path / "c.parquet")
    (tmp_path / "d.csv").write_text("a\n1\n")
    for other, said in (("b.parquet", "does not have"), ("c.parquet", "differs"), ("d.csv", "mixed")):
        with pytest.raises(InputError, match=said) as caught:
            read_table([tmp_path / "a.parquet", tmp_path / other], Schema(("a",)))
        assert caught.value.source == str(tmp_path / other)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\n" + "1\n" * 3_000_000)
    pieces = open_source(path).pieces(["a"])
    next(pieces)
    with path.open("a") as file:
        file.write("2\n")
    with pytest.raises(InputError, match="changed while it was read"):
        list(pieces)


def test_column_names_of_pandas_that_are_not_text() -> None:
    coded = read_table(pd.DataFrame({0: [1, 2], 1: ["x", "y"]}), Schema(("0", "1")))
    assert coded.codes.tolist() == [[1, 0], [2, 1]]


def test_pandas_columns_of_mixed_objects() -> None:
    with pytest.raises(InputError, match="cannot be read") as caught:
        read_table(pd.DataFrame({"a": [1, "x", None]}, dtype=object), Schema(("a",)))
    assert caught.value.column == "a"


def test_missing_values_of_pandas() -> None:
    frame = pd.DataFrame(
        {
            "a": pd.array([1, pd.NA], "Int64"),
            "b": [np.nan, 1.5],
            "c": [None, "x"],
            "d": [pd.NaT, pd.Timestamp("2020-01-01")],
            "e": pd.array([True, pd.NA], "boolean"),
            "f": pd.Categorical(["y", None]),
        }
    )
    coded = read_table(frame, Schema(tuple(frame.columns)))
    missing = np.iinfo(coded.codes.dtype).min
    assert (coded.codes == missing).tolist() == frame.isna().to_numpy().tolist()


def test_ordered_categories_keep_their_order() -> None:
    sizes = pd.Categorical(["big", "small", "big"], categories=["small", "middle", "big"], ordered=True)
    coded = read_table(pd.DataFrame({"size": sizes}), Schema(("size",)))
    assert coded.schema.quasi[0].order == ("small", "middle", "big")  # type: ignore[union-attr]
    assert coded.space.axes[0].ordered and coded.codes[:, 0].tolist() == [2, 0, 2]


def test_unused_categories_are_not_carried_along() -> None:
    """A dictionary may list values of rows that were filtered out; they must not reach a release."""
    column = pd.Categorical(["a", "b"], categories=["a", "b", "secret"])
    frame = pd.DataFrame({"q": column, "s": column})
    coded = read_table(frame, Schema(("q",), sensitive=("s",)))
    assert coded.schema.quasi[0].values == ("a", "b")  # type: ignore[union-attr]
    assert not pa.types.is_dictionary(coded.payload["s"].type)


def test_unknown_columns_of_every_source(tmp_path: Path) -> None:
    for name in SOURCES:
        with pytest.raises((SchemaError, InputError), match="agee"):
            read_table(SOURCES[name](tmp_path), Schema(("agee",)))


def test_empty_parts_are_no_rows(tmp_path: Path) -> None:
    empty, one = pa.table({"a": pa.array([], pa.int64())}), pa.table({"a": [1]})
    assert (
        read_table([*empty.to_batches(), *pa.concat_tables([one, empty, one]).to_batches()], Schema(("a",))).n_rows == 2
    )
    with pq.ParquetWriter(tmp_path / "x.parquet", one.schema) as writer:
        for part in (empty, one, empty, one, empty):
            writer.write_table(part)
    assert read_table(tmp_path / "x.parquet", Schema(("a",))).n_rows == 2
