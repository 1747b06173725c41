"""A stream that can be read only once, kept in an unnamed temporary file so that it can be read again.

The file is in Arrow's IPC format, compressed, beside the index; it is gone when it is closed or when the process dies.
Dictionaries are dissolved: the format knows only one per column, and a stream may change its own at every batch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

import pyarrow as pa

from rtree_anon.io.cells import Origin
from rtree_anon.io.files import BATCH_ROWS, sliced
from rtree_anon.io.sources import Piece, checked_columns
from rtree_anon.io.types import decoded
from rtree_anon.storage.files import explained


class StreamSpool:
    """Write pieces with `keep`, then `finish`; from then on it is a source."""

    untyped = False
    repeatable = True

    def __init__(self, name: str, directory: str) -> None:
        self.name, self._directory = name, directory
        self.names: list[str] = []
        self.n_rows = 0
        with explained("make a temporary file", directory):
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by `close`
        self._writer: Any = None

    def keep(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch."""
        columns = [decoded(column) for column in batch.columns]
        plain = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        with explained("write to a temporary file", self._directory):
            if self._writer is None:
                self.names = list(plain.schema.names)
                options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
                self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), plain.schema, options=options)
            for part in sliced(plain, BATCH_ROWS):
                self._writer.write_batch(part)
        self.n_rows += plain.num_rows

    def finish(self) -> None:
        """All rows are there."""
        if self._writer is not None:
            with explained("write to a temporary file", self._directory):
                self._writer.close()
                self._file.flush()

    def fields(self, columns: Sequence[str]) -> pa.Schema:
        wanted = checked_columns(self, columns)
        schema = self._reader(None).schema
        return pa.schema([schema.field(column) for column in wanted])

    def pieces(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[Piece]:
        if self._writer is None:
            return
        reader = self._reader([self.names.index(column) for column in checked_columns(self, columns)])
        first_row = 1
        for number in range(reader.num_record_batches):
            with explained("read a temporary file", self._directory):
                batch = reader.get_batch(number).select(list(columns))
            yield Piece(batch, Origin(self.name, first_row))
            first_row += batch.num_rows

    def close(self) -> None:
        """Give the space back. Closing twice is harmless."""
        self._file.close()

    def _reader(self, wanted: list[int] | None) -> Any:
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        return pa.ipc.open_file(pa.PythonFile(self._file, "r"), options=options)
