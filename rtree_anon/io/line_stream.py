"""Rows that arrive line by line (a pipe, a socket): cut into chunks by size and by time, and named rows.

    stream ─► thread that reads ─► lines so far ─► a chunk as soon as it has enough rows, or has waited long enough

A chunk of CSV is a whole CSV file with the stream's header, a chunk of NDJSON whole lines, so that both are read by the
same code as files.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
NAME = "standard input"
_BLOCK_BYTES = 1 << 16
_WAITING_BLOCKS = 64


@dataclass(frozen=True)
class Chunk:
    """Whole rows of a stream."""

    header: bytes  # of CSV
    content: bytes
    first_line: int  # of the content, counted from 1

    def rows(self, file_format: str) -> _CsvRows | _JsonRows:
        """As something that `Index.insert` takes; close it afterwards."""
        return _CsvRows(self) if file_format == "csv" else _JsonRows(self)

    def explained(self, error: InputError, file_format: str) -> InputError:
        """The error with the line of the stream that it is about, as far as that is known."""
        line = None if error.row is None else self._line_of(error.row, file_format)
        where = NAME if line is None else f"{NAME}, line {line}"
        return InputError(error.problem, source=where, column=error.column)

    def _line_of(self, row: int, file_format: str) -> int:
        """The line that a row (counted from 1) begins in: there may be empty ones, and line breaks in quotes."""
        if file_format == "csv":
            reader = csv.reader(io.StringIO(self.content.decode("utf-8", "replace"), newline=""))
            starts, before = [], 0
            for fields in reader:
                if fields:
                    starts.append(before)
                before = reader.line_num
        else:
            starts = [number for number, line in enumerate(self.content.splitlines()) if line.strip()]
        return self.first_line + (starts[row - 1] if row <= len(starts) else 0)


def chunks(stream: BinaryIO, file_format: str, most_rows: int, most_seconds: float) -> Iterator[Chunk]:
    """Whole rows, at most about `most_rows` at a time and none waiting longer than `most_seconds` for others."""
    blocks: queue.Queue[bytes | BaseException] = queue.Queue(_WAITING_BLOCKS)
    threading.Thread(target=_read, args=(stream, blocks), daemon=True).start()
    header: bytes | None = None if file_format == "csv" else b""
    waiting, n_lines, first_line, ended = b"", 0, 1, False
    deadline: float | None = None  # when what waits has waited long enough
    while waiting or not ended:
        is_due = deadline is not None and time.monotonic() >= deadline
        end = 0
        if ended and n_lines <= most_rows:
            end = len(waiting)
        elif ended or is_due or n_lines >= most_rows:
            end = _end_of_rows(waiting, n_lines, most_rows, may_be_quoted=file_format == "csv")
            end = len(waiting) if ended and not end else end
        if end:
            content, waiting = waiting[:end], waiting[end:]
            n_lines = waiting.count(b"\n")
            deadline = time.monotonic() + most_seconds if waiting else None
            if header is None:
                first = content.find(b"\n") + 1 or len(content)
                header, content, first_line = content[:first], content[first:], 2
            if content.strip():
                yield Chunk(header, content, first_line)
            first_line += content.count(b"\n")
            continue
        try:  # where a row is not complete there is nothing to do but to wait for the rest of it
            block = blocks.get(timeout=None if deadline is None or is_due else max(deadline - time.monotonic(), 0.001))
        except queue.Empty:
            continue
        if isinstance(block, BaseException):
            raise block
        ended = not block
        waiting += block
        n_lines += block.count(b"\n")
        deadline = deadline if deadline is not None else time.monotonic() + most_seconds


class _CsvRows:
    """A temporary file, so that types, quotes and errors are those of any CSV file."""

    def __init__(self, chunk: Chunk) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.source = str(Path(self._directory.name) / "standard-input.csv")
        Path(self.source).write_bytes(chunk.header + chunk.content)

    def close(self) -> None:
        self._directory.cleanup()


class _JsonRows:
    """A table; an error names the first line that does not go with those before it."""

    def __init__(self, chunk: Chunk) -> None:
        try:
            self.source = _table_of(chunk.content)
        except (pa.ArrowException, ValueError) as error:
            lines = [line for line in chunk.content.splitlines(keepends=True) if line.strip()]
            row = _first_bad(lines)
            problem = str(error).splitlines()[0]
            if row is not None:
                with contextlib.suppress(ValueError):
                    json.loads(lines[row - 1])
                    problem = "it has another form than the lines before it, or is no object"
            raise InputError(
                f"the line is not a JSON object of one form with the others ({problem})", row=row
            ) from None

    def close(self) -> None:
        """Nothing to give back."""


def _table_of(lines: bytes) -> pa.Table:
    block = pj.ReadOptions(use_threads=False, block_size=max(len(lines) + 1, _BLOCK_BYTES))
    return pj.read_json(io.BytesIO(lines), read_options=block)


def _first_bad(lines: list[bytes]) -> int | None:
    """The first line (from 1) that cannot be read together with those before it."""
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _table_of(b"".join(lines[:middle]))
            good = middle
        except (pa.ArrowException, ValueError):
            bad = middle
    return bad if lines else None


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
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    with contextlib.suppress(AttributeError, OSError):
        # Not through Python's buffer: a thread that waits in it holds its lock, and so aborts a process that ends.
        read = functools.partial(os.read, stream.fileno())
    try:
        while block := read(_BLOCK_BYTES):
            blocks.put(block)
        blocks.put(b"")
    except BaseException as error:  # handed to whoever waits
        blocks.put(error)


def _end_of_rows(waiting: bytes, n_lines: int, most_rows: int, *, may_be_quoted: bool) -> int:
    """Where whole rows end: behind about so many line breaks, and not inside quotes; 0 where no row is complete."""
    if n_lines > most_rows:
        end = -1
        for _ in range(most_rows):
            end = waiting.find(b"\n", end + 1)
        end += 1
    else:
        end = waiting.rfind(b"\n") + 1
    while may_be_quoted and end and waiting[:end].count(b'"') % 2:
        end = waiting.find(b"\n", end) + 1
    return end
