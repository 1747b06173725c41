"""Parquet files from batches of runs: a column that repeats its values costs what its runs cost, not what its rows do.

    PAR1 │ row group: a column chunk after the other │ row group │ … │ footer │ length of the footer │ PAR1
                      └► page: distinct values, page: runs of their numbers (RLE_DICTIONARY), both zstd, with checksums

Arrow's writer takes rows one by one, however few groups there are. Here a column that is constant in groups becomes a
dictionary page and one page of runs. Whatever is not made of runs is left to Arrow: the columns of single rows and
values of unusual types (written to memory, and their chunks taken over as they are), the encoding of texts, and the
schema as the footer has it. Apache Parquet's own documents, Encodings.md and parquet.thrift, define the bytes; numbers
of fields below are theirs.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rtree_anon.io.run_batches import RunBatch, joined_runs
from rtree_anon.io.thrift import BINARY, I16, I32, I64, LIST, STRUCT, TRUE, Struct, from_bytes, to_bytes
from rtree_anon.io.values import raw_values
from rtree_anon.kernels.runs import MOST_RUN_BYTES, encode_columns, write_runs

_MAGIC: Final = b"PAR1"
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2  # PageType
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8  # Encoding
_UNCOMPRESSED, _ZSTD = 0, 6  # CompressionCodec
_LEAST_COMPRESSED = 512  # bytes; with fewer there is nothing to gain
# How Arrow keeps a type, and how Parquet does where that is wider.
_STORED: Final[Mapping[pa.DataType, tuple[Any, Any]]] = {
    pa.int8(): (np.int8, np.int32),
    pa.int16(): (np.int16, np.int32),
    pa.int32(): (np.int32, np.int32),
    pa.int64(): (np.int64, np.int64),
    pa.uint8(): (np.uint8, np.uint32),
    pa.uint16(): (np.uint16, np.uint32),
    pa.uint32(): (np.uint32, np.uint32),
    pa.uint64(): (np.uint64, np.uint64),
    pa.float32(): (np.float32, np.float32),
    pa.float64(): (np.float64, np.float64),
    pa.date32(): (np.int32, np.int32),
}


@dataclass(frozen=True, eq=False)
class RowGroup:
    """A row group as it will stand in the file: its bytes, and what the footer says of each column chunk.

    Offsets in `chunks` count from the beginning of the row group.
    """

    n_rows: int
    content: Sequence[bytes | memoryview]
    chunks: Sequence[Struct]

    @property
    def n_bytes(self) -> int:
        return sum(map(len, self.content))


class RunFile:
    """A Parquet file that is written row group by row group; without an error it is complete when it is closed.

    `encoded` may be called by many threads at once, `append` by one.
    """

    def __init__(self, path: str, schema: pa.Schema, made_by: str) -> None:
        self._schema = schema
        self._footer = {**_footer(_written_by_arrow(schema.empty_table())), 6: (BINARY, made_by.encode())}
        self._types = dict(_physical_types(self._footer[2][1][1]))
        self._groups: list[bytes] = []
        self._rooms: list[_Room] = []
        self._n_rows = 0
        self._file = Path(path).open("wb")  # noqa: SIM115 - closed by __exit__
        self._file.write(_MAGIC)
        self._at = len(_MAGIC)

    def encoded(self, batches: Sequence[RunBatch]) -> RowGroup:
        """Batches as one row group."""
        rows = joined_runs(batches)
        try:
            room = self._rooms.pop()
        except IndexError:  # the others are in use
            room = _Room()
        made = dict(self._repeated(rows, room))
        self._rooms.append(room)
        left = {name: rows.single[name] for name in rows.single}
        others = [name for name in rows.repeated if name not in made]
        if others:
            run = pa.array(np.repeat(np.arange(len(rows.lengths), dtype=np.int32), rows.lengths))
            left |= {name: rows.repeated[name].take(run) for name in others}
        by_arrow = dict(_chunks_by_arrow(pa.table(left, schema=_only(self._schema, left)))) if left else {}
        content, chunks, at = [], [], 0
        for name in self._schema.names:
            for part, chunk in by_arrow.get(name) or [made[name]]:
                content += part
                chunks.append(_moved(chunk, at))
                at += sum(map(len, part))
        return RowGroup(rows.num_rows, content, chunks)

    def append(self, group: RowGroup) -> None:
        """Write a row group behind the others."""
        sizes = [(chunk[3][1][6][1], chunk[3][1][7][1]) for chunk in group.chunks]
        about: Struct = {
            1: (LIST, (STRUCT, [_moved(chunk, self._at) for chunk in group.chunks])),
            2: (I64, sum(uncompressed for uncompressed, _ in sizes)),
            3: (I64, group.n_rows),
            5: (I64, self._at),
            6: (I64, sum(compressed for _, compressed in sizes)),
            7: (I16, len(self._groups)),
        }
        self._groups.append(to_bytes(about))
        for part in group.content:
            self._file.write(part)
        self._at += group.n_bytes
        self._n_rows += group.n_rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                footer = to_bytes(
                    {
                        **self._footer,
                        3: (I64, self._n_rows),
                        4: (LIST, (STRUCT, self._groups)),
                    }
                )
                self._file.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def _repeated(self, rows: RunBatch, room: _Room) -> Iterator[tuple[str, _Chunk]]:
        """The chunks of the columns that repeat their values, but for those that are left to Arrow."""
        columns = [_numbered(name, values, rows.lengths) for name, values in rows.repeated.items()]
        whole = [column for column in columns if column is not None and column.present is None]
        some_missing = [column for column in columns if column is not None and column.present is not None]
        for together in ([whole] if whole else []) + [[column] for column in some_missing]:
            for column, n_values, plain, ends, runs in room.encoded(together):
                bits = max((n_values - 1).bit_length(), 1)
                about = {1: (I32, rows.num_rows), 2: (I32, _RLE_DICTIONARY), 3: (I32, _RLE), 4: (I32, _RLE)}
                content = self._levels(column, rows) + bytes([bits]) + runs
                pages = [
                    (_DICTIONARY_PAGE, plain, 7, {1: (I32, n_values), 2: (I32, _PLAIN)}),
                    (_DATA_PAGE, content, 5, about),
                ]
                n_missing = 0 if column.present is None else rows.num_rows - int(column.lengths.sum())
                statistics = {**ends, 3: (I64, n_missing)}
                yield column.name, _chunk(column.name, self._types[column.name], rows.num_rows, pages, statistics)

    def _levels(self, column: _Column, rows: RunBatch) -> bytes:
        """Which rows have a value, as the data page of a column says it."""
        if not self._schema.field(column.name).nullable:
            return b""
        if column.present is None:
            runs = _runs(np.ones(1, np.int32), np.array([rows.num_rows]))
        else:
            runs = _runs(column.present.astype(np.int32), rows.lengths)
        return len(runs).to_bytes(4, "little") + runs


_Chunk = tuple[list[bytes], Struct]
_Page = tuple[int, bytes, int, Struct]  # its type, its content, and the field and the header of this type


@dataclass(frozen=True, eq=False)
class _Column:
    """A column as whole numbers, one for every run that has a value: `lengths` are those of these runs.

    `plain` turns distinct numbers into Parquet's plain encoding of what they mean, and `Statistics` of it. `present`
    says which of all runs have a value, None where all do.
    """

    name: str
    numbers: NDArray[np.integer]
    lengths: NDArray[np.int64]
    present: NDArray[np.bool_] | None
    plain: Callable[[NDArray[np.integer]], tuple[bytes, Struct]]


def _numbered(name: str, values: pa.Array, lengths: NDArray[np.int64]) -> _Column | None:
    """A column as whole numbers; None where it is left to Arrow."""
    present = None
    if values.null_count:
        present = values.is_valid().to_numpy(zero_copy_only=False)
        values, lengths = values.drop_null(), lengths[present]
    if not len(values):
        return None
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_decimal128(kind):
        coded = values.dictionary_encode()

        def texts(distinct: NDArray[np.integer]) -> tuple[bytes, Struct]:
            return _plain_by_arrow(coded.dictionary.take(pa.array(distinct)))

        return _Column(name, coded.indices.to_numpy(), lengths, present, texts)
    if pa.types.is_timestamp(kind) and kind.unit != "s":
        own, stored = np.int64, np.int64
    elif kind in _STORED:
        own, stored = _STORED[kind]
    else:
        return None
    raw = raw_values(values, own).astype(stored, copy=False)
    as_numbers = raw.view(np.dtype(f"i{raw.itemsize}"))

    def numbers(distinct: NDArray[np.integer]) -> tuple[bytes, Struct]:
        found = distinct.astype(as_numbers.dtype, copy=False).view(stored)
        return found.tobytes(), _ends(found)

    return _Column(name, as_numbers, lengths, present, numbers)


class _Room:
    """Memory in which columns are encoded, kept for the next row group: fresh memory takes longer than filling it."""

    def __init__(self) -> None:
        self._values, self._distinct, self._runs = (np.empty(0, np.uint8) for _ in range(3))

    def encoded(self, columns: Sequence[_Column]) -> Iterator[tuple[_Column, int, bytes, Struct, bytes]]:
        """Of columns with the same runs: how many distinct values there are, these, their ends, and the runs."""
        n_columns, n_runs = len(columns), len(columns[0].lengths)
        n = n_columns * n_runs
        if n * MOST_RUN_BYTES > len(self._runs):
            self._values, self._distinct = np.empty(8 * n, np.uint8), np.empty(8 * n, np.uint8)
            self._runs = np.empty(n * MOST_RUN_BYTES, np.uint8)
        dtype: Any = np.int64 if any(column.numbers.itemsize > 4 for column in columns) else np.int32
        values, distinct = (part.view(dtype)[:n] for part in (self._values, self._distinct))
        for row, column in zip(values.reshape(n_columns, n_runs), columns, strict=True):
            row[:] = column.numbers
        ends_of_distinct, ends_of_runs = np.zeros((2, n_columns + 1), np.int64)
        encode_columns(
            values.reshape(n_columns, n_runs),
            columns[0].lengths,
            distinct,
            ends_of_distinct[1:],
            self._runs,
            ends_of_runs[1:],
        )
        for number, column in enumerate(columns):
            begin, end = ends_of_distinct[number : number + 2]
            plain, ends = column.plain(distinct[begin:end])
            yield (
                column,
                int(end - begin),
                plain,
                ends,
                self._runs[ends_of_runs[number] : ends_of_runs[number + 1]].tobytes(),
            )


def _ends(distinct: NDArray[Any]) -> Struct:
    least, most = distinct.min(), distinct.max()
    if distinct.dtype.kind == "f":
        if np.isnan(least):
            return {}
        # Parquet: a zero may stand for either zero, so that the ends have to take in both.
        least, most = (least - 0.0 if least else -distinct.dtype.type(0)), most + 0.0
    exact = {7: (TRUE, True), 8: (TRUE, True)}
    return {5: (BINARY, most.tobytes()), 6: (BINARY, least.tobytes()), **exact}


def _runs(numbers: NDArray[np.int32], lengths: NDArray[np.int64]) -> bytes:
    """Runs of numbers below 256."""
    out = np.empty(len(numbers) * MOST_RUN_BYTES, np.uint8)
    return out[: write_runs(numbers, lengths, np.int64(1), out)].tobytes()


def _chunk(name: str, physical_type: int, n_rows: int, pages: Sequence[_Page], statistics: Struct) -> _Chunk:
    """A column chunk of a dictionary page and a data page."""
    compress = sum(len(page[1]) for page in pages) >= _LEAST_COMPRESSED
    content: list[bytes] = []
    sizes, places = [0, 0], []
    for kind, body, field, about in pages:
        packed = pa.compress(body, "zstd", asbytes=True) if compress else body
        checksum = zlib.crc32(packed)
        header = to_bytes(
            {
                1: (I32, kind),
                2: (I32, len(body)),
                3: (I32, len(packed)),
                4: (I32, checksum - (1 << 32) if checksum >> 31 else checksum),
                field: (STRUCT, about),
            }
        )
        places.append(sizes[1])
        sizes[0] += len(header) + len(body)
        sizes[1] += len(header) + len(packed)
        content += [header, packed]
    counts = [{1: (I32, page[0]), 2: page[3][2], 3: (I32, 1)} for page in pages]
    about = {
        1: (I32, physical_type),
        2: (LIST, (I32, [_PLAIN, _RLE, _RLE_DICTIONARY])),
        3: (LIST, (BINARY, [name.encode()])),
        4: (I32, _ZSTD if compress else _UNCOMPRESSED),
        5: (I64, n_rows),
        6: (I64, sizes[0]),
        7: (I64, sizes[1]),
        9: (I64, places[1]),
        11: (I64, places[0]),
        12: (STRUCT, statistics),
        13: (LIST, (STRUCT, counts)),
    }
    return content, {2: (I64, 0), 3: (STRUCT, about)}


def _moved(chunk: Struct, by: int) -> Struct:
    """What the footer says of a chunk, when all offsets count from elsewhere."""
    about = dict(chunk[3][1])
    for offset in (9, 11):
        if offset in about:
            about[offset] = (I64, about[offset][1] + by)
    return {**chunk, 3: (STRUCT, about)}


def _only(schema: pa.Schema, names: Mapping[str, object]) -> pa.Schema:
    return pa.schema([field for field in schema if field.name in names])


def _written_by_arrow(table: pa.Table, **options: Any) -> memoryview:
    target = pa.BufferOutputStream()
    with pq.ParquetWriter(target, table.schema, **options) as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=table.num_rows)
    return memoryview(target.getvalue()).cast("B")


def _footer(content: memoryview) -> Struct:
    n_bytes = int.from_bytes(content[-8:-4], "little")
    return from_bytes(bytes(content[-8 - n_bytes : -8]))[0]


def _physical_types(elements: Sequence[Struct]) -> Iterator[tuple[str, int]]:
    """Of the columns that are not nested: their names and Parquet's types for them. The first element is the root."""
    skipped = 0
    for element in elements[1:]:
        n_children = element[5][1] if 5 in element else 0
        if not skipped and not n_children:
            yield element[4][1].decode(), element[1][1]
        skipped = max(skipped - 1, 0) + n_children


def _chunks_by_arrow(table: pa.Table) -> Iterator[tuple[str, list[_Chunk]]]:
    """The chunks of every column, as Arrow makes them; several, where a column is nested."""
    content = _written_by_arrow(table, compression="zstd", write_page_checksum=True)
    (group,) = _footer(content)[4][1][1]
    found: dict[str, list[_Chunk]] = {}
    for chunk in group[1][1][1]:
        about = chunk[3][1]
        begin = about[11][1] if 11 in about else about[9][1]
        part = [bytes(content[begin : begin + about[7][1]])]
        found.setdefault(about[3][1][1][0].decode(), []).append((part, _moved(chunk, -begin)))
    yield from found.items()


def _plain_by_arrow(values: pa.Array) -> tuple[bytes, Struct]:
    """Values of which none is missing in Parquet's plain encoding, and their statistics."""
    field = pa.field("values", values.type, nullable=False)
    content = _written_by_arrow(pa.table([values], schema=pa.schema([field])), use_dictionary=False, compression="none")
    about = _footer(content)[4][1][1][0][1][1][1][0][3][1]
    at, end = about[9][1], about[9][1] + about[7][1]
    pages = []
    while at < end:
        header, at = from_bytes(content, at)  # type: ignore[arg-type]
        pages.append(bytes(content[at : at + header[3][1]]))
        at += header[3][1]
    ends = about[12][1] if 12 in about else {}
    return b"".join(pages), {number: ends[number] for number in (5, 6, 7, 8) if number in ends}
