"""Sources: anything that users hand in as a table, opened as record batches of only the columns that are needed.

    path, list of paths, glob                    Parquet, CSV (.gz, .zst), Arrow files and streams
    pyarrow Table, RecordBatch, RecordBatchReader, iterator of record batches
    pandas and polars frames, anything else that offers the Arrow C stream interface
    a list of rows (dictionaries), a dictionary of columns

Invariant: a column that is not asked for is never read from a file nor kept in memory, and every batch knows which file
and which row it begins at.
"""

from __future__ import annotations

import difflib
import glob
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from rtree_anon.errors import InputError, SchemaError, UsageError
from rtree_anon.io.cells import Origin
from rtree_anon.io.files import BATCH_ROWS, TableFile, guarded, open_file, reading
from rtree_anon.io.types import is_dictionary_of, plain_type


@dataclass(frozen=True)
class Piece:
    """One batch and where it came from."""

    batch: pa.RecordBatch
    origin: Origin


class Source(Protocol):
    """An opened table.

    `untyped`: all columns come as text whose types are not known (CSV). `repeatable`: `pieces` may be called again.
    """

    @property
    def name(self) -> str: ...

    @property
    def names(self) -> list[str]: ...

    @property
    def untyped(self) -> bool: ...

    @property
    def repeatable(self) -> bool: ...

    def fields(self, columns: Sequence[str]) -> pa.Schema:
        """The given columns with their types."""
        ...

    def pieces(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[Piece]:
        """Batches of the given columns, in the given order, of about `batch_rows` rows where that can be chosen."""
        ...


def open_source(source: Any) -> Source:
    """Opens a path, glob, list of paths, frame, Arrow table, stream or iterator of batches."""
    if isinstance(source, FileSource | _BatchSource | _FrameSource):
        return source
    if isinstance(source, str | os.PathLike):
        return FileSource(_expanded(source))
    if isinstance(source, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return _table_source(source)
    if _is_frame(source, "pandas") or _is_frame(source, "polars"):
        return _FrameSource(source)
    if hasattr(source, "__arrow_c_stream__"):
        with reading("stream"):
            return _table_source(pa.RecordBatchReader.from_stream(source))
    if hasattr(source, "__arrow_c_array__"):
        with reading("table"):
            return _table_source(pa.record_batch(source))
    if isinstance(source, Mapping):
        with reading("table"):
            return _table_source(pa.table(dict(source)))
    if isinstance(source, Iterable) and not isinstance(source, bytes | bytearray):
        return _from_items(source)
    raise UsageError(
        f"cannot read a table from a {type(source).__name__}; give a path, a frame, an Arrow table or record batches"
    )


def checked_columns(source: Source, columns: Iterable[str]) -> list[str]:
    """The columns that are asked for; refuses duplicate names in the source and names that it does not have."""
    if len(set(source.names)) != len(source.names):
        twice = next(name for name, count in Counter(source.names).items() if count > 1)
        raise InputError("two columns have this name", source=source.name, column=twice)
    wanted = list(columns)
    for column in wanted:
        if column not in source.names:
            near = difflib.get_close_matches(column, source.names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {_listed(source.names)}"
            raise SchemaError(f"{source.name} has no column {column!r}; {hint}")
    return wanted


def resized(pieces: Iterable[Piece], batch_rows: int) -> Iterator[Piece]:
    """Pieces of at most `batch_rows` rows: large ones are cut, small neighbours of one file are joined."""
    waiting: list[Piece] = []
    n_rows = 0
    for piece in pieces:
        for start in range(0, piece.batch.num_rows, batch_rows):
            batch = piece.batch.slice(start, batch_rows)
            origin = Origin(piece.origin.name, piece.origin.first_row + start)
            if waiting and (n_rows + batch.num_rows > batch_rows or waiting[0].origin.name != origin.name):
                yield joined(waiting)
                waiting, n_rows = [], 0
            waiting.append(Piece(batch, origin))
            n_rows += batch.num_rows
    if waiting:
        yield joined(waiting)


def joined(pieces: Sequence[Piece]) -> Piece:
    """Neighbouring pieces of one file as one."""
    if len(pieces) == 1:
        return pieces[0]
    (whole,) = pa.Table.from_batches([piece.batch for piece in pieces]).combine_chunks().to_batches()
    return Piece(whole, pieces[0].origin)


class FileSource:
    """One file after the other, all with the columns that are asked for."""

    repeatable = True

    def __init__(self, paths: Sequence[Path]) -> None:
        self.files: list[TableFile] = [open_file(path) for path in paths]
        first = self.files[0]
        self.name = first.name if len(paths) == 1 else f"{first.name} and {len(paths) - 1} more"
        self.names = first.names
        self.untyped = first.untyped
        for file in self.files[1:]:
            if file.untyped != self.untyped:
                problem = f"CSV cannot be mixed with typed files such as {first.name} in one source"
                raise InputError(problem, source=file.name)

    def fields(self, columns: Sequence[str]) -> pa.Schema:
        wanted = checked_columns(self, columns)
        return pa.schema([(column, self._common_type(column)) for column in wanted])

    def pieces(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[Piece]:
        target = self.fields(columns)
        for file in self.files:
            with guarded(file):
                for batch, origin in file.batches(columns, batch_rows):
                    yield Piece(as_fields(batch, target, origin), origin)

    def _common_type(self, column: str) -> pa.DataType:
        """A type that holds the column's values of all files."""
        common = None
        for file in self.files:
            if len(file.fields.get_all_field_indices(column)) != 1:
                problem = "the file does not have this column once, though the first file does"
                raise InputError(problem, source=file.name, column=column)
            own = file.fields.field(column).type
            common = own if common is None else _wider(common, own, file.name, column)
        return common


class _BatchSource:
    """Batches that are already in memory or come from a stream."""

    untyped = False

    def __init__(self, name: str, schema: pa.Schema, batches: Iterable[Any], *, repeatable: bool) -> None:
        self.name, self.names, self.repeatable = name, list(schema.names), repeatable
        self._schema, self._batches = schema, batches
        self._used = False

    def fields(self, columns: Sequence[str]) -> pa.Schema:
        wanted = checked_columns(self, columns)
        return pa.schema([self._schema.field(column) for column in wanted])

    def pieces(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[Piece]:
        target = self.fields(columns)
        if self._used and not self.repeatable:
            raise UsageError("the stream was read already; give a file, a table or a new stream")
        self._used = True
        first_row = 1
        with reading(self.name):
            for item in self._batches:
                if not isinstance(item, pa.RecordBatch):
                    problem = f"a {type(item).__name__} where a record batch was expected"
                    raise InputError(problem, source=self.name, row=first_row)
                lacking = [column for column in columns if len(item.schema.get_all_field_indices(column)) != 1]
                if lacking:
                    problem = "a record batch does not have the column once, though the first one does"
                    raise InputError(problem, source=self.name, row=first_row, column=lacking[0])
                origin = Origin(self.name, first_row)
                yield Piece(as_fields(item.select(list(columns)), target, origin), origin)
                first_row += item.num_rows


class _TableBatches:
    """The batches of a table, made when they are asked for."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._table.to_batches())


def _table_source(table: Any, name: str = "table") -> _BatchSource:
    if isinstance(table, pa.RecordBatchReader):
        return _BatchSource("stream", table.schema, table, repeatable=False)
    batches = [table] if isinstance(table, pa.RecordBatch) else _TableBatches(table)
    return _BatchSource(name, table.schema, batches, repeatable=True)


class _FrameSource:
    """A pandas or polars frame; only the columns that are asked for are converted, so the others may hold anything."""

    untyped = False
    repeatable = True
    name = "frame"

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._labels = list(frame.columns)
        self.names = [str(label) for label in self._labels]
        self._converted: dict[str, Any] = {}

    def fields(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([(column, self._column(column).type) for column in checked_columns(self, columns)])

    def pieces(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[Piece]:
        converted = {column: self._column(column) for column in checked_columns(self, columns)}
        yield from _table_source(pa.table(converted), self.name).pieces(columns, batch_rows)

    def _column(self, column: str) -> Any:
        if column not in self._converted:
            self._converted[column] = self._convert(column)
        return self._converted[column]

    def _convert(self, column: str) -> Any:
        label = self._labels[self.names.index(column)]
        try:
            if _is_frame(self._frame, "pandas"):
                return pa.Table.from_pandas(self._frame[[label]], preserve_index=False).column(0)
            return pa.table(self._frame[[label]]).column(0)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            problem = f"the column cannot be read: {str(error).splitlines()[0][:200]}"
            raise InputError(problem, source=self.name, column=column) from None


def _from_items(source: Iterable[Any]) -> Source:
    items = iter(source)
    try:
        first = next(items)
    except StopIteration:
        raise InputError("there are no rows", source="source") from None
    if isinstance(first, pa.RecordBatch):
        chained = itertools.chain([first], items)
        repeatable = isinstance(source, Sequence)
        return _BatchSource("batches", first.schema, source if repeatable else chained, repeatable=repeatable)
    rest = [first, *items]
    if isinstance(first, str | os.PathLike):
        return FileSource([path for item in rest for path in _expanded(item)])
    if isinstance(first, Mapping):
        with reading("rows"):
            return _table_source(pa.Table.from_pylist([dict(row) for row in rest]), "rows")
    raise UsageError(f"cannot read a table from a list of {type(first).__name__}; give paths, record batches or rows")


def _expanded(path: Any) -> list[Path]:
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"a list of paths may not hold a {type(path).__name__}")
    text = os.fsdecode(path)
    if "\0" in text or not text:
        raise InputError("this is not a path", source=repr(text))
    if Path(text).exists() or not glob.has_magic(text):
        return [Path(text)]
    found = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - Path.glob cannot take absolute patterns
    if not found:
        raise InputError("no file matches this pattern", source=text)
    return [Path(name) for name in found]


def as_fields(batch: pa.RecordBatch, target: pa.Schema, origin: Origin) -> pa.RecordBatch:
    """The batch in the source's common types, where files or batches differ; a dictionary may stand for its values."""
    if batch.schema.equals(target):
        return batch
    columns = []
    for column, field in zip(batch.columns, target, strict=True):
        if column.type != field.type and not is_dictionary_of(column.type, field.type):
            try:
                column = column.cast(field.type)
            except pa.ArrowException as error:
                problem = f"a {column.type} does not fit the {field.type} of the first rows ({str(error)[:100]})"
                raise InputError(problem, source=origin.name, row=origin.first_row, column=field.name) from None
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=target.names)


def _wider(one: pa.DataType, other: pa.DataType, file: str, column: str) -> pa.DataType:
    if one == other:
        return one
    try:
        if plain_type(one) == plain_type(other):
            return plain_type(one)  # only the layout differs, as with a dictionary
        both = [pa.schema([("x", one)]), pa.schema([("x", other)])]
        return pa.unify_schemas(both, promote_options="permissive").field(0).type
    except (pa.ArrowException, TypeError):
        raise InputError(f"the type {other} differs from {one} in the first file", source=file, column=column) from None


def _is_frame(source: Any, package: str) -> bool:
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] == package


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
