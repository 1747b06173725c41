"""CSV files as record batches of text: strict about structure, silent about types (`rtree_anon.io.text` decides those).

    bytes ─► decompress ─► CheckedBytes (BOM, NUL, quotes) ─► Arrow's parser (fields per row) ─► UTF-8 check ─► batches

Arrow's parser is fast but lenient, so everything that could swallow rows is checked on the way: quotes that are not
closed, NUL bytes, other encodings, rows with a wrong number of fields. Every problem names the row; the first row after
the header is row 1. Empty lines are no rows (in a file with one column they are missing values).
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from rtree_anon.errors import InputError
from rtree_anon.io.cells import CellError, Origin, first_failing, located
from rtree_anon.io.file_stamps import stamp

_BLOCK_BYTES = 1 << 22  # also the longest row that is accepted
_HEADER_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")  # the header is row 1
_DELIMITERS = ",;\t|"
_NUL_PROBLEM = "the file holds NUL bytes; it is not UTF-8 text (save it as UTF-8)"


class CsvFile:
    """One CSV file, plain or compressed."""

    untyped = True

    def __init__(self, path: Path, compression: str | None) -> None:
        self.path, self.name, self.stamp = path, str(path), stamp(path)
        self.compression = compression
        with self._open() as stream:
            head = stream.read(_HEADER_BYTES)
        self.delimiter, self.names = _read_header(head, self.name)
        self.fields = pa.schema([(name, pa.string()) for name in self.names])

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[tuple[pa.RecordBatch, Origin]]:
        """Batches of the given columns, all text; their size is that of the blocks that are parsed."""
        with self._open() as stream:
            checked = CheckedBytes(stream, self.delimiter, self.name)
            n_rows = 0
            try:
                for batch in self._parsed(checked, columns):
                    origin = Origin(self.name, n_rows + 1)
                    yield _checked_text(batch, origin), origin
                    n_rows += batch.num_rows
            except pa.ArrowInvalid as error:
                if "straddling" not in str(error):
                    raise
                problem = f"the row is longer than {_BLOCK_BYTES >> 20} MB; is there a quote that is never closed?"
                raise InputError(problem, source=self.name, row=n_rows + 1) from None

    def _open(self) -> Any:
        raw = pa.OSFile(str(self.path), "rb")
        return pa.CompressedInputStream(raw, self.compression) if self.compression else raw

    def _parsed(self, checked: CheckedBytes, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        n_fields = len(self.fields)
        try:
            reader = pa_csv.open_csv(
                pa.PythonFile(checked, mode="r"),
                read_options=pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
                parse_options=pa_csv.ParseOptions(
                    delimiter=self.delimiter,
                    newlines_in_values=True,
                    ignore_empty_lines=n_fields > 1,
                ),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(self.fields.names, pa.binary()),
                    include_columns=list(columns),
                    strings_can_be_null=True,
                    null_values=[""],
                    quoted_strings_can_be_null=True,
                    check_utf8=False,
                ),
            )
            yield from reader
        except (pa.ArrowException, InputError) as error:
            if checked.problem is not None:
                raise checked.problem from None
            # Arrow's own callback for such rows cannot be used: it fails on text that is not UTF-8
            if ragged := _RAGGED.search(str(error)):
                record, expected, found = (int(number) for number in ragged.groups())
                problem = f"the row has {found} field{'s' if found > 1 else ''}, the header has {expected}"
                raise InputError(problem, source=self.name, row=record - 1) from None
            raise


class CheckedBytes(io.RawIOBase):
    """A byte stream that refuses what would make a parser lose rows."""

    def __init__(self, stream: Any, delimiter: str, name: str) -> None:
        self.problem: InputError | None = None
        self._stream, self._delimiter, self._name = stream, ord(delimiter), name
        self._scan: Any = None
        self._state = np.zeros(4, np.int64)
        self._quotes_seen = False
        self._at_start, self._ended = True, False
        self._last_byte = b"\n"

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._ended:
            return b""
        block: bytes = self._stream.read(size if size >= 0 else None)
        while len(block) < size and not self._ended:
            more = self._stream.read(size - len(block))
            block += more
            self._ended = not more
        if block:
            self._check(block)
            self._last_byte = block[-1:]
        if not self._ended:
            return block
        self._check_end()
        return block if self._last_byte in b"\r\n" else block + b"\n"  # Arrow wants the header's line to be ended

    def _check(self, block: bytes) -> None:
        if b"\0" in block:
            row = int(self._state[1]) + block[: block.index(b"\0")].count(b"\n")
            self._fail(_NUL_PROBLEM, row)
        if self._at_start:
            block = block.removeprefix(_BOM)
            self._at_start = False
        if b'"' not in block and not self._quotes_seen:
            self._skip_plain(block)
            return
        if not self._quotes_seen:
            from rtree_anon.kernels.quotes import scan_quotes

            self._quotes_seen, self._scan = True, scan_quotes
        if not self._scan(np.frombuffer(block, np.uint8), self._delimiter, self._state):
            problem = "text follows a closing quote; quotes inside a quoted field must be doubled"
            self._fail(problem, int(self._state[3]))

    def _skip_plain(self, block: bytes) -> None:
        """What the scan would do with a block that has no quotes, at the speed of counting lines."""
        lines = np.frombuffer(block, np.uint8)
        ends = (lines == 10) | (lines == 13)
        before = np.append(self._last_byte in (b"\n", b"\r"), ends[:-1])
        self._state[1] += int((ends & ~before).sum())
        last = block[-1:]
        self._state[2] = last not in (b"\n", b"\r")
        self._state[0] = 0 if last in (b"\n", b"\r") or ord(last) == self._delimiter else 1

    def _check_end(self) -> None:
        if self._state[0] == 2:
            self._fail("a quote is opened and never closed", int(self._state[3]))

    def _fail(self, problem: str, record: int) -> None:
        self.problem = InputError(problem, source=self._name, row=record or None)  # record 0 is the header
        raise self.problem


def _checked_text(batch: pa.RecordBatch, origin: Origin) -> pa.RecordBatch:
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        with located(origin, name):
            columns.append(_as_utf8(column))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _as_utf8(column: pa.Array) -> pa.Array:
    def fails(part: pa.Array) -> bool:
        try:
            part.cast(pa.string())
        except pa.ArrowInvalid:
            return True
        return False

    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        raise CellError(first_failing(column, fails), "the text is not UTF-8; save the file as UTF-8") from None


def _read_header(head: bytes, name: str) -> tuple[str, list[str]]:
    """The delimiter and the column names."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("the file is UTF-16; save it as UTF-8", source=name)
    if b"\0" in head:
        row = head[: head.index(b"\0")].count(b"\n") or None
        raise InputError(_NUL_PROBLEM, source=name, row=row)
    text = head.removeprefix(_BOM).decode("utf-8", errors="replace").lstrip("\r\n")
    if not text.strip():
        raise InputError("the file is empty", source=name)
    delimiter = _sniffed_delimiter(text)
    try:
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise InputError(f"the header cannot be read: {error}", source=name) from None
    if len(head) == _HEADER_BYTES and "\n" not in text and "\r" not in text:
        raise InputError(f"the header is longer than {_HEADER_BYTES >> 20} MB", source=name)
    for column, count in Counter(names).items():
        if not column:
            raise InputError("a column of the header has no name", source=name)
        if "\ufffd" in column:
            raise InputError("the header is not UTF-8; save the file as UTF-8", source=name)
        if count > 1:
            raise InputError("the header names the column twice", source=name, column=column)
    return delimiter, names


def _sniffed_delimiter(text: str) -> str:
    """A comma, unless the first line has none and has another usual delimiter."""
    line = text.splitlines()[0]
    return next((candidate for candidate in _DELIMITERS if candidate in line), ",")
