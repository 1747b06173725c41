"""Rows that arrive line by line (a pipe, a socket): cut into chunks by size and by time, and named rows.

    stream ─► thread that reads ─► lines so far ─► a chunk as soon as it has enough rows, or has waited long enough

A chunk of CSV is a whole CSV file with the stream's header, a chunk of NDJSON whole lines, so that both are read by the
same code as files.
"""

from __future__ import annotations

import io
import queue
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from rtree_anon.errors import InputError
from rtree_anon.io.cells import CellError, located
from rtree_anon.io.conforming import conform
from rtree_anon.io.sources import open_source
from rtree_anon.io.values import null_mask

FORMATS = ("ndjson", "csv")
_BLOCK_BYTES = 1 << 16
_WAITING_BLOCKS = 64


def chunks(stream: BinaryIO, file_format: str, most_rows: int, most_seconds: float) -> Iterator[bytes]:
    """Whole rows, at most about `most_rows` at a time and none waiting longer than `most_seconds` for others."""
    blocks: queue.Queue[bytes | BaseException] = queue.Queue(_WAITING_BLOCKS)
    threading.Thread(target=_read, args=(stream, blocks), daemon=True).start()
    header: bytes | None = None if file_format == "csv" else b""
    waiting, ended = b"", False
    deadline: float | None = None  # when what waits has waited long enough
    while waiting or not ended:
        is_due = deadline is not None and time.monotonic() >= deadline
        end = 0
        if ended:
            end = len(waiting)
        elif is_due or waiting.count(b"\n") >= most_rows:
            end = _end_of_rows(waiting, most_rows)
        if end:
            chunk, waiting = waiting[:end], waiting[end:]
            deadline = time.monotonic() + most_seconds if waiting else None
            if header is None:
                first = chunk.find(b"\n") + 1 or len(chunk)
                header, chunk = chunk[:first], chunk[first:]
            if chunk.strip():
                yield header + chunk
            continue
        try:  # where a row is not complete there is nothing to do but to wait for the rest of it
            block = blocks.get(timeout=None if deadline is None or is_due else max(deadline - time.monotonic(), 0.001))
        except queue.Empty:
            continue
        if isinstance(block, BaseException):
            raise block
        ended = not block
        waiting += block
        deadline = deadline if deadline is not None else time.monotonic() + most_seconds


def rows_of_chunk(chunk: bytes, file_format: str) -> _CsvChunk | _JsonChunk:
    """A chunk as something that `Index.insert` takes; close it afterwards."""
    return _CsvChunk(chunk) if file_format == "csv" else _JsonChunk(chunk)


class _CsvChunk:
    """A temporary file, so that types, quotes and errors are those of any CSV file."""

    def __init__(self, chunk: bytes) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.source = str(Path(self._directory.name) / "standard-input.csv")
        Path(self.source).write_bytes(chunk)

    def close(self) -> None:
        self._directory.cleanup()


class _JsonChunk:
    def __init__(self, chunk: bytes) -> None:
        try:
            self.source = pj.read_json(io.BytesIO(chunk))
        except (pa.ArrowException, ValueError) as error:
            problem = f"the lines are not JSON objects of one form ({str(error).splitlines()[0]})"
            raise InputError(problem, source="standard input") from None

    def close(self) -> None:
        """Nothing to give back."""


def read_names(source: Any, names: tuple[str, ...], key_type: pa.DataType | None) -> Any:
    """Row ids, or keys of a type, from a table: the first of the columns `names` that it has, or its only column."""
    opened = open_source(source)
    found = [name for name in names if name in opened.names] or (opened.names if len(opened.names) == 1 else [])
    if not found:
        raise InputError(f"there is no column {' or '.join(map(repr, names))}", source=opened.name)
    data_type = pa.int64() if key_type is None or pa.types.is_integer(key_type) else key_type
    parts = [pa.array([], data_type)]
    for piece in opened.pieces(found[:1]):
        with located(piece.origin, found[0]):
            column = conform(piece.batch.column(0), data_type)
            if (mask := null_mask(column)) is not None:
                raise CellError(int(np.argmax(mask)), "the id or key of a row is missing")
        parts.append(column)
    whole = pa.concat_arrays(parts)
    return whole.to_numpy(zero_copy_only=False) if data_type == pa.int64() else whole


def _read(stream: BinaryIO, blocks: queue.Queue[bytes | BaseException]) -> None:
    read = getattr(stream, "read1", stream.read)
    try:
        while block := read(_BLOCK_BYTES):
            blocks.put(block)
        blocks.put(b"")
    except BaseException as error:  # handed to whoever waits
        blocks.put(error)


def _end_of_rows(waiting: bytes, most_rows: int) -> int:
    """Where whole rows end: behind about so many line breaks, and not inside quotes; 0 where no row is complete."""
    if waiting.count(b"\n") > most_rows:
        end = sum(map(len, waiting.splitlines(keepends=True)[:most_rows]))
    else:
        end = waiting.rfind(b"\n") + 1
    while end and waiting[:end].count(b'"') % 2:
        end = waiting.find(b"\n", end) + 1
    return end
