"""Parquet and Arrow files as record batches, and which format a file has (told by its first bytes, not by its name).

Files are not trusted: they are read with plain reads (a mapped file that shrinks would kill the process), page
checksums are verified where a file has them, and every batch is validated before anything computes on it, because
Arrow's compute functions trust offsets and text encodings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rtree_anon.errors import AnonError, InputError
from rtree_anon.io.cells import Origin
from rtree_anon.io.csv_files import CsvFile
from rtree_anon.io.file_stamps import Stamp, stamp, unchanged

BATCH_ROWS = 1 << 17
_BUFFER_BYTES = 1 << 18  # read at a time per column: a row group may be larger than memory
_DICTIONARY_BYTES = 5 << 18  # Parquet writers give a dictionary up at a megabyte, and write plain values from there on
_INDEX_BYTES = 3  # of a value that is given by its place in such a dictionary
_MAGIC_BYTES = 8
_REFUSED = {
    b"PK\x03\x04": "a zip archive or an Excel workbook; save the table as CSV or Parquet",
    b"BZh": "compressed with bzip2; use gzip or zstd",
    b"\xfd7zXZ\x00": "compressed with xz; use gzip or zstd",
    b"FEA1": "an old Feather file; save it as Parquet",
    b"SQLite f": "an SQLite database; export the table as CSV or Parquet",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the table as CSV or Parquet",
}


class TableFile(Protocol):
    """A file that gives record batches of chosen columns."""

    path: Path
    name: str
    stamp: Stamp
    untyped: bool
    fields: pa.Schema
    names: list[str]

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[tuple[pa.RecordBatch, Origin]]:
        """Batches of the given columns, of at most `batch_rows` rows where the format leaves the choice."""
        ...


def open_file(path: Path) -> TableFile:
    """Opens a file of any supported format and reads its column names."""
    name = str(path)
    with reading(name):
        if not path.exists():
            raise InputError("there is no such file", source=name)
        if path.is_dir():
            raise InputError(f"this is a directory; name its files, as in {path / '*.parquet'}", source=name)
        with path.open("rb") as file:
            magic = file.read(_MAGIC_BYTES)
        if not magic:
            raise InputError("the file is empty", source=name)
        for start, what in _REFUSED.items():
            if magic.startswith(start):
                raise InputError(f"the file is {what}", source=name)
        if magic.startswith(b"PAR1"):
            return ParquetFile(path)
        if magic.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
            return ArrowFile(path)
        if magic.startswith(b"\x1f\x8b"):
            return CsvFile(path, "gzip")
        if magic.startswith(b"\x28\xb5\x2f\xfd"):
            return CsvFile(path, "zstd")
        if path.suffix in (".parquet", ".arrow", ".feather", ".ipc", ".gz", ".zst"):
            raise InputError(f"the file is not what its name says ({path.suffix}) or it is damaged", source=name)
        return CsvFile(path, None)


class ParquetFile:
    """One Parquet file. Text that the file holds as a dictionary comes as one, which is several times cheaper."""

    untyped = False

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.stamp = path, str(path), stamp(path)
        self._dictionaries: list[str] = []
        with self.opened() as file:
            self.fields = file.schema_arrow
            self._dictionaries = _kept_as_dictionaries(file)
        self.names = list(self.fields.names)

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[tuple[pa.RecordBatch, Origin]]:
        first_row = 1
        with self.opened() as file:
            for batch in self.checked(file, columns, batch_rows):
                yield batch, Origin(self.name, first_row)
                first_row += batch.num_rows
            if first_row - 1 != file.metadata.num_rows:
                found = f"{first_row - 1} rows where the file says {file.metadata.num_rows}"
                raise InputError(f"{found}; the file is damaged", source=self.name)

    def checked(
        self, file: Any, columns: Sequence[str], batch_rows: int, row_groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Validated batches of an opened file."""
        chosen = {} if row_groups is None else {"row_groups": list(row_groups)}
        # Arrow's own threads would take four times the processor's time for the same work (measured).
        for batch in file.iter_batches(batch_size=batch_rows, columns=list(columns), use_threads=False, **chosen):
            batch = batch.select(list(columns))
            batch.validate(full=True)
            yield batch

    def opened(self) -> Any:
        """The file, opened anew; a context manager."""
        return pq.ParquetFile(
            str(self.path),
            page_checksum_verification=True,
            memory_map=False,
            pre_buffer=False,
            buffer_size=_BUFFER_BYTES,
            read_dictionary=self._dictionaries,
        )


def _kept_as_dictionaries(file: Any) -> list[str]:
    """The columns of text that a Parquet file holds as dictionaries in all row groups, to the end of each."""
    metadata = file.metadata
    if len(metadata.schema) != len(file.schema_arrow):  # nested columns: the numbers of columns differ
        return []
    texts = [(place, field.name) for place, field in enumerate(file.schema_arrow) if pa.types.is_string(field.type)]
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]

    def is_kept(chunk: Any) -> bool:
        most_bytes = _INDEX_BYTES * chunk.num_values + _DICTIONARY_BYTES
        return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most_bytes)

    return [name for place, name in texts if all(is_kept(group.column(place)) for group in groups)]


class ArrowFile:
    """One Arrow IPC file (Feather) or stream."""

    untyped = False

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.stamp = path, str(path), stamp(path)
        with path.open("rb") as file:
            self._is_stream = file.read(4) == b"\xff\xff\xff\xff"
        with pa.OSFile(self.name, "rb") as file:
            self.fields = self._reader(file, None).schema
        self.names = list(self.fields.names)

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[tuple[pa.RecordBatch, Origin]]:
        first_row = 1
        with pa.OSFile(self.name, "rb") as file:
            wanted = [self.fields.get_field_index(column) for column in columns]
            reader = self._reader(file, wanted)
            stored = reader if self._is_stream else map(reader.get_batch, range(reader.num_record_batches))
            for batch in stored:
                batch = batch.select(list(columns))
                batch.validate(full=True)
                for part in sliced(batch, batch_rows):
                    yield part, Origin(self.name, first_row)
                    first_row += part.num_rows

    def _reader(self, file: Any, wanted: list[int] | None) -> Any:
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        return pa.ipc.open_stream(file, options=options) if self._is_stream else pa.ipc.open_file(file, options=options)


def sliced(batch: pa.RecordBatch, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """A batch in views of at most so many rows."""
    for start in range(0, batch.num_rows, batch_rows):
        yield batch.slice(start, batch_rows)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turns whatever the operating system or Arrow says about a file into one sentence."""
    try:
        yield
    except AnonError:
        raise
    except MemoryError:
        raise InputError(
            "the file asks for more memory than there is; it is too large or damaged", source=name
        ) from None
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        reason = reason.strip().split("\n")[0][:200] or type(error).__name__
        raise InputError(f"cannot be read: {reason}", source=name) from None


@contextmanager
def guarded(file: TableFile) -> Iterator[None]:
    """Reading a file that is still what it was when it was opened; whatever goes wrong is one sentence."""
    with reading(file.name), unchanged(file.path, file.stamp):
        yield
