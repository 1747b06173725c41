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

_BATCH_ROWS = 1 << 17
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

    name: str
    untyped: bool
    fields: pa.Schema
    names: list[str]

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, Origin]]: ...


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
    """One Parquet file."""

    untyped = False

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        with self._open() as file:
            self.fields = file.schema_arrow
        self.names = list(self.fields.names)

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, Origin]]:
        first_row = 1
        with self._open() as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)):
                batch = batch.select(list(columns))
                batch.validate(full=True)
                yield batch, Origin(self.name, first_row)
                first_row += batch.num_rows
            if first_row - 1 != file.metadata.num_rows:
                found = f"{first_row - 1} rows where the file says {file.metadata.num_rows}"
                raise InputError(f"{found}; the file is damaged", source=self.name)

    def _open(self) -> Any:
        return pq.ParquetFile(str(self.path), page_checksum_verification=True, memory_map=False)


class ArrowFile:
    """One Arrow IPC file (Feather) or stream."""

    untyped = False

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        with path.open("rb") as file:
            self._is_stream = file.read(4) == b"\xff\xff\xff\xff"
        with pa.OSFile(self.name, "rb") as file:
            self.fields = self._reader(file, None).schema
        self.names = list(self.fields.names)

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, Origin]]:
        first_row = 1
        with pa.OSFile(self.name, "rb") as file:
            wanted = [self.fields.get_field_index(column) for column in columns]
            reader = self._reader(file, wanted)
            stored = reader if self._is_stream else map(reader.get_batch, range(reader.num_record_batches))
            for batch in stored:
                batch = batch.select(list(columns))
                batch.validate(full=True)
                yield batch, Origin(self.name, first_row)
                first_row += batch.num_rows

    def _reader(self, file: Any, wanted: list[int] | None) -> Any:
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        return pa.ipc.open_stream(file, options=options) if self._is_stream else pa.ipc.open_file(file, options=options)


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
def unchanged(path: Path) -> Iterator[None]:
    """Refuses a file that was written to while it was read: its rows may be of two versions."""
    before = _stamp(path)
    yield
    if _stamp(path) != before:
        raise InputError("the file was changed while it was read; try again", source=str(path))


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns
