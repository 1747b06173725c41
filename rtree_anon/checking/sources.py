"""Reading the table that is to be checked: only the columns that are asked for, values exactly as they are written.

Text files are read as text and never converted: `01` and `1` are different values of a quasi-identifier, as they are to
everybody who reads the file. An empty field is missing; a quoted empty field is an empty text.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from rtree_anon.errors import InputError, SchemaError, UsageError

_DELIMITERS = (",", ";", "\t", "|")

_Measured = TypeVar("_Measured")
ChooseColumns = Callable[[Sequence[str]], Sequence[str]]


class Columns(Protocol):
    """Columns of a table, by name; asked for one at a time, so that a large file need not be in memory as a whole."""

    @property
    def num_rows(self) -> int:
        """Rows of the table."""

    def column(self, name: str) -> pa.ChunkedArray:
        """One of the chosen columns."""


@dataclass(frozen=True)
class Piece:
    """Some rows of a file, of which columns are read when they are asked for: `read` gives the named ones.

    One after the other they can do with the memory of one, which is still in the processor's cache when it is used.
    """

    num_rows: int
    names: Sequence[str]
    read: Callable[[list[str]], pa.Table]

    def column(self, name: str) -> pa.ChunkedArray:
        """One of the chosen columns."""
        column = self.read([name]).column(0)
        if len(column) != self.num_rows:
            raise pa.ArrowInvalid(f"the column {name!r} has {len(column)} rows where there should be {self.num_rows}")
        return column

    def table(self, names: Sequence[str] | None = None) -> pa.Table:
        """Some of the chosen columns, or all of them, at once."""
        return self.read(list(dict.fromkeys(self.names if names is None else names)))


@contextmanager
def open_columns(table: Any, choose: ChooseColumns) -> Iterator[Columns]:
    """The columns of `table` that `choose` picks from its column names.

    `table` is a path (Parquet, CSV, Arrow IPC), an Arrow table, batch or stream, a pandas or polars frame, or anything
    else that speaks the Arrow C stream interface or has a method `to_arrow`.
    """
    if not isinstance(table, str | os.PathLike):
        yield _from_object(table, choose)
        return
    path = Path(table)
    if not path.is_file():
        what = "is a directory, not a table; name one of its files" if path.is_dir() else "does not exist"
        raise UsageError(f"{path} {what}.")
    with _named_errors(path), _from_path(path, choose) as columns:
        yield columns


def map_pieces(
    path: str | os.PathLike[str], choose: ChooseColumns, measure: Callable[[Piece], _Measured]
) -> list[_Measured]:
    """measure(piece) for every piece of a file, in order; of the chosen columns, and only a few pieces at a time.

    A piece is a row group of Parquet, measured in threads, or a block of a CSV file.
    """
    path = Path(path)
    with _named_errors(path):
        if path.suffix == ".parquet":
            with pyarrow.parquet.ParquetFile(path) as file:
                names = _chosen(file.schema_arrow.names, choose)
                metadata = file.metadata
            local, opened = threading.local(), []

            def read_and_measure(group: int) -> _Measured:
                if not hasattr(local, "file"):  # a reader for each thread
                    local.file = pyarrow.parquet.ParquetFile(path, metadata=metadata, page_checksum_verification=True)
                    opened.append(local.file)

                def read(some: list[str]) -> pa.Table:
                    return local.file.read_row_group(group, some, use_threads=False)

                return measure(Piece(metadata.row_group(group).num_rows, names, read))

            try:
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    return list(pool.map(read_and_measure, range(metadata.num_row_groups)))
            finally:
                for file in opened:
                    file.close()
        with pyarrow.csv.open_csv(path, **_csv_options(path, _delimiter(path), choose)) as stream:
            tables = (pa.Table.from_batches([batch]) for batch in stream)
            return [measure(Piece(len(table), table.column_names, table.select)) for table in tables]


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Errors of Arrow and of the system as errors that name the file."""
    try:
        yield
    except MemoryError:  # Arrow's is an ArrowException too, but says nothing against the file
        raise
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        raise InputError(f"cannot be read: {error}", source=str(path)) from error


def _from_object(table: Any, choose: ChooseColumns) -> pa.Table:
    try:
        return _as_arrow(table, choose)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InputError(f"The frame cannot be read as columns of one type each: {error}") from error


def _as_arrow(table: Any, choose: ChooseColumns) -> pa.Table:
    if type(table).__module__.partition(".")[0] == "pandas":  # chosen before conversion: others may hold anything
        names = [str(name) for name in table.columns]
        positions = [names.index(name) for name in _chosen(names, choose)]
        return pa.Table.from_pandas(table.iloc[:, positions], preserve_index=False)
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    elif isinstance(table, pa.RecordBatchReader):
        table = table.read_all()
    elif not isinstance(table, pa.Table):
        if hasattr(table, "__arrow_c_stream__"):
            table = pa.table(table)
        elif hasattr(table, "to_arrow"):
            table = table.to_arrow()
        else:
            raise UsageError(
                f"Cannot check a {type(table).__name__}. Give a file name or an Arrow, pandas or polars frame."
            )
    return table.select(_chosen(table.column_names, choose))


@contextmanager
def _from_path(path: Path, choose: ChooseColumns) -> Iterator[Columns]:
    if path.suffix == ".parquet":
        with pyarrow.parquet.ParquetFile(path) as file:
            _chosen(file.schema_arrow.names, choose)
            yield _ParquetColumns(file)
    elif path.suffix in (".arrow", ".feather", ".ipc"):
        yield _read_ipc(path, choose)
    else:
        yield _read_csv(path, choose)


@dataclass(frozen=True)
class _ParquetColumns:
    """The columns of an open Parquet file, read when they are asked for."""

    file: pyarrow.parquet.ParquetFile

    @property
    def num_rows(self) -> int:
        n_rows: int = self.file.metadata.num_rows
        return n_rows

    def column(self, name: str) -> pa.ChunkedArray:
        return self.file.read(columns=[name]).column(0)


def _read_ipc(path: Path, choose: ChooseColumns) -> pa.Table:
    table = pyarrow.feather.read_table(path)
    return table.select(_chosen(table.column_names, choose))


def _read_csv(path: Path, choose: ChooseColumns) -> pa.Table:
    delimiter = _delimiter(path)
    try:
        return _parse_csv(path, delimiter, choose)
    except pa.ArrowInvalid:
        _refuse_ragged_rows(path, delimiter)
        raise


def _parse_csv(path: Path, delimiter: str, choose: ChooseColumns) -> pa.Table:
    options = _csv_options(path, delimiter, choose)
    return pyarrow.csv.read_csv(path, **options)


def _csv_options(path: Path, delimiter: str, choose: ChooseColumns) -> dict[str, Any]:
    with pyarrow.csv.open_csv(path, parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter)) as stream:
        chosen = _chosen(stream.schema.names, choose)
    return {
        "parse_options": pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": pyarrow.csv.ConvertOptions(
            include_columns=chosen,
            column_types=dict.fromkeys(chosen, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }


def _refuse_ragged_rows(path: Path, delimiter: str) -> None:
    """Raise an error that names the first row with more or fewer fields than the header, if one is found."""
    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "skip"

    parsing = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note)
    one_thread = pyarrow.csv.ReadOptions(use_threads=False)  # otherwise Arrow does not number the rows
    with (
        suppress(pa.ArrowInvalid),  # something else is wrong, which was said already
        pyarrow.csv.open_csv(path, read_options=one_thread, parse_options=parsing) as stream,
    ):
        for _ in stream:
            if ragged:
                break
    if ragged:
        problem = f"the row has {ragged[0].actual_columns} fields, the header has {ragged[0].expected_columns}"
        raise InputError(problem, source=str(path), row=ragged[0].number - 1)  # Arrow counts the header


def _delimiter(path: Path) -> str:
    """The first of the usual delimiters that the header has: other tools write semicolons or tabs."""
    with pa.input_stream(path, compression="detect") as stream:
        header = stream.read(1 << 16).decode("utf-8", errors="replace").partition("\n")[0]
    return next((delimiter for delimiter in _DELIMITERS if delimiter in header), _DELIMITERS[0])


def _chosen(names: Sequence[str], choose: ChooseColumns) -> list[str]:
    chosen = list(dict.fromkeys(choose(names)))
    for name in chosen:
        if names.count(name) > 1:
            raise SchemaError(
                f"There are {names.count(name)} columns called {name!r}; rename them, so that one is meant."
            )
    return chosen
