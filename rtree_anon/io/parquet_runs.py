"""Parquet files from batches of runs: a column that repeats its values costs what its runs cost, not what its rows do.

    PAR1 │ row group: a column chunk after the other │ row group │ … │ footer │ length of the footer │ PAR1
                      ├► page: distinct values, page: runs of their numbers (RLE_DICTIONARY), with checksums
                      └► page: values (PLAIN, packed by LZ4), where nearly every run has a value of its own

The former are packed by zstd where that is worth its time (`_worth_compressing`); kernels/plainruns.py has the latter.

Arrow's writer takes rows one by one, however few groups there are. Here a column that is constant in groups becomes a
dictionary page and one page of runs, or one page of values whose LZ4 block is made from the runs. Whatever is not made
of runs is left to Arrow: the columns of single rows and values of unusual types (written to memory, and their chunks
taken over as they are), the encoding of texts, and the schema as the footer has it. Apache Parquet's own documents,
Encodings.md and parquet.thrift, define the bytes; numbers of fields below are theirs.
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

from rtree_anon.io.run_batches import RunBatch, joined
from rtree_anon.io.thrift import BINARY, I16, I32, I64, LIST, STRUCT, TRUE, Struct, from_bytes, to_bytes
from rtree_anon.io.values import raw_values
from rtree_anon.kernels.plainruns import END_BYTES, PACKED_PER_BYTE
from rtree_anon.kernels.runs import (
    LEAST_SLOTS,
    MOST_RUN_BYTES,
    SLOTS_PER_VALUE,
    encode_columns,
    join_runs,
    write_runs,
)

_MAGIC: Final = b"PAR1"
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2  # PageType
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8  # Encoding
_UNCOMPRESSED, _ZSTD, _LZ4_RAW = 0, 6, 7  # CompressionCodec
_MOST_PLAIN_ROWS = 1 << 20  # of a page without a dictionary, which whoever reads it unpacks as a whole
_LEAST_COMPRESSED = 512  # bytes; with fewer there is nothing to gain
_LEAST_SAMPLED = 1 << 16  # bytes; with fewer it is as fast to compress all of them
_SAMPLE_BYTES = 1 << 13
_LEAST_SAVED = 0.3  # of the bytes of a chunk
_LEAST_LEFT = 1 << 13  # bytes of runs that are left as they are
_FEW_RUNS = 1 << 12  # with fewer a call for every part of a column takes longer than to put the parts together
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
    content: Sequence[bytes]
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
        try:
            room = self._rooms.pop()
        except IndexError:  # the others are in use
            room = _Room()
        lengths = np.concatenate([batch.lengths for batch in batches])
        n_rows = int(lengths.sum())
        made = dict(self._repeated(batches, lengths, n_rows, room))
        self._rooms.append(room)
        left = {name: joined(batch.single[name] for batch in batches) for name in batches[0].single}
        others = [name for name in batches[0].repeated if name not in made]
        if others:
            run = pa.array(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))
            left |= {name: joined(batch.repeated[name] for batch in batches).take(run) for name in others}
        by_arrow = dict(_chunks_by_arrow(pa.table(left, schema=_only(self._schema, left)))) if left else {}
        content, chunks, at = [], [], 0
        for name in self._schema.names:
            for part, chunk in by_arrow.get(name) or [made[name]]:
                content += part
                chunks.append(_moved(chunk, at))
                at += sum(map(len, part))
        return RowGroup(n_rows, content, chunks)

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

    def _repeated(
        self, batches: Sequence[RunBatch], lengths: NDArray[np.int64], n_rows: int, room: _Room
    ) -> Iterator[tuple[str, _Chunk]]:
        """The chunks of the columns that repeat their values, but for those that are left to Arrow."""
        found = [_numbered(name, [batch.repeated[name] for batch in batches], lengths) for name in batches[0].repeated]
        columns = [column for column in found if column is not None]
        whole: dict[bool, list[_Column]] = {}  # by whether there are levels; columns with the same are made together
        for column in columns:
            if column.present is None:
                whole.setdefault(self._schema.field(column.name).nullable, []).append(column)
        for together in [*whole.values(), *([column] for column in columns if column.present is not None)]:
            levels = self._levels(together[0], lengths, n_rows)
            for column, pages, statistics in room.encoded(together, levels, n_rows):
                n_missing = 0 if column.present is None else n_rows - int(column.lengths.sum())
                statistics = {**statistics, 3: (I64, n_missing)}
                yield column.name, _chunk(column.name, self._types[column.name], n_rows, pages, statistics)

    def _levels(self, column: _Column, lengths: NDArray[np.int64], n_rows: int) -> bytes:
        """Which rows have a value, as the data page of a column says it."""
        if not self._schema.field(column.name).nullable:
            return b""
        if column.present is None:
            runs = _runs(np.ones(1, np.int32), np.array([n_rows]))
        else:
            runs = _runs(column.present.astype(np.int32), lengths)
        return len(runs).to_bytes(4, "little") + runs


_Chunk = tuple[list[bytes], Struct]
_Content = bytes | memoryview


@dataclass(frozen=True, eq=False)
class _Page:
    """A page of a column chunk: `about` is the header of its type, and stands in the field `field` of the page's own.

    `n_unpacked` is the number of its bytes where `content` is an LZ4 block, None where it is not packed yet.
    """

    kind: int
    field: int
    about: Struct
    content: _Content
    n_unpacked: int | None = None


@dataclass(frozen=True, eq=False)
class _Column:
    """A column as whole numbers, one for every run that has a value: `lengths` are those of these runs.

    `numbers` may be in several parts, one after the other. `plain` turns distinct numbers into Parquet's plain encoding
    of what they mean, and `Statistics` of it. `present` says which of all runs have a value, None where all do. `size`
    is the bytes of a value whose plain encoding is the number itself, 0 for others.
    """

    name: str
    numbers: Sequence[NDArray[np.integer]]
    lengths: NDArray[np.int64]
    present: NDArray[np.bool_] | None
    plain: Callable[[NDArray[np.integer]], tuple[_Content, Struct]]
    size: int = 0


def _numbered(name: str, parts: Sequence[pa.Array], lengths: NDArray[np.int64]) -> _Column | None:
    """A column as whole numbers; None where it is left to Arrow."""
    present = None
    if any(part.null_count for part in parts):
        values = joined(parts)
        present = values.is_valid().to_numpy(zero_copy_only=False)
        parts, lengths = [values.drop_null()], lengths[present]
    if not len(lengths):
        return None
    if len(lengths) < _FEW_RUNS:
        parts = [joined(parts)]
    kind = parts[0].type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_decimal128(kind):
        coded = joined(parts).dictionary_encode()

        def texts(distinct: NDArray[np.integer]) -> tuple[_Content, Struct]:
            return _plain_by_arrow(coded.dictionary.take(pa.array(distinct)))

        return _Column(name, [coded.indices.to_numpy()], lengths, present, texts)
    if pa.types.is_timestamp(kind) and kind.unit != "s":
        own, stored = np.int64, np.int64
    elif kind in _STORED:
        own, stored = _STORED[kind]
    else:
        return None
    as_numbers = np.dtype(f"i{np.dtype(stored).itemsize}")
    numbers = [raw_values(part, own).astype(stored, copy=False).view(as_numbers) for part in parts]

    def plain(distinct: NDArray[np.integer]) -> tuple[_Content, Struct]:
        found = distinct.astype(as_numbers, copy=False).view(stored)
        return found.view(np.uint8).data, _ends(found)

    return _Column(name, numbers, lengths, present, plain, as_numbers.itemsize)


class _Room:
    """Memory in which columns are encoded, kept for the next row group: fresh memory takes longer than filling it."""

    def __init__(self) -> None:
        self._values, self._distinct, self._runs = (np.empty(0, np.uint8) for _ in range(3))
        self._slots = np.empty(LEAST_SLOTS, np.int32)

    def encoded(
        self, columns: Sequence[_Column], levels: bytes, n_rows: int
    ) -> Iterator[tuple[_Column, list[_Page], Struct]]:
        """The pages of columns with the same runs and levels, and the ends of their values.

        What is given out is overwritten when the next columns are encoded.
        """
        n_columns, lengths = len(columns), columns[0].lengths
        n, gap = n_columns * len(lengths), len(levels) + 1  # a byte says how many bits a number takes
        n_values = int(lengths.sum())
        plain_bytes = [column.size if n_values <= _MOST_PLAIN_ROWS else 0 for column in columns]
        more = END_BYTES + 2 * gap + 8 * min(n_values, _MOST_PLAIN_ROWS) // PACKED_PER_BYTE
        values, distinct = self._numbers(columns, n, n * MOST_RUN_BYTES + n_columns * more)
        ends_of_distinct, ends_of_runs = np.zeros((2, n_columns + 1), np.int64)
        encode_columns(
            values,
            lengths,
            np.array(plain_bytes),
            np.frombuffer(levels, np.uint8),
            self._slots,
            distinct,
            ends_of_distinct[1:],
            np.int64(gap),
            self._runs,
            ends_of_runs[1:],
        )
        content = self._runs.data
        for number, column in enumerate(columns):
            begin, end = map(int, ends_of_distinct[number : number + 2])
            begin_of_runs, end_of_runs = int(ends_of_runs[number]) + gap, int(ends_of_runs[number + 1])
            if begin == end:
                n_unpacked = len(levels) + column.size * n_values
                about = _about_data(n_rows, _PLAIN)
                page = _Page(_DATA_PAGE, 5, about, content[begin_of_runs:end_of_runs], n_unpacked)
                yield column, [page], column.plain(values[number])[1]
                continue
            plain, ends = column.plain(distinct[begin:end])
            bits = max((end - begin - 1).bit_length(), 1)
            content[begin_of_runs - gap : begin_of_runs] = levels + bytes([bits])
            about = {1: (I32, end - begin), 2: (I32, _PLAIN)}
            runs = content[begin_of_runs - gap : end_of_runs]
            pages = [
                _Page(_DICTIONARY_PAGE, 7, about, plain),
                _Page(_DATA_PAGE, 5, _about_data(n_rows, _RLE_DICTIONARY), runs),
            ]
            yield column, pages, ends

    def _numbers(
        self, columns: Sequence[_Column], n: int, n_bytes: int
    ) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """The numbers of columns, of which there are n in all, and room for distinct ones; `n_bytes` for pages."""
        if n_bytes > len(self._runs):
            self._runs = np.empty(n_bytes, np.uint8)
        n_runs = n // len(columns)
        if n_runs * SLOTS_PER_VALUE > len(self._slots):
            self._slots = np.empty(n_runs * SLOTS_PER_VALUE, np.int32)
        wide = any(part.itemsize > 4 for column in columns for part in column.numbers)
        dtype: Any = np.int64 if wide else np.int32
        room = 8 * n if wide else 4 * n + 4 * (n % 2)  # no more than is needed: it is cleared before it is used
        if room > len(self._values):
            self._values, self._distinct = np.empty(room, np.uint8), np.empty(room + 8, np.uint8)
        values = self._values.view(dtype)[:n].reshape(len(columns), n_runs)
        for row, column in zip(values, columns, strict=True):
            at = 0
            for part in column.numbers:
                row[at : at + len(part)] = part
                at += len(part)
        return values, self._distinct.view(dtype)[: n + 1]


def _about_data(n_rows: int, encoding: int) -> Struct:
    return {1: (I32, n_rows), 2: (I32, encoding), 3: (I32, _RLE), 4: (I32, _RLE)}


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
    joined_numbers, joined_lengths = np.empty_like(numbers), np.empty_like(lengths)
    n_runs = join_runs(numbers, lengths, joined_numbers, joined_lengths)
    out = np.empty(n_runs * MOST_RUN_BYTES, np.uint8)
    return out[: write_runs(joined_numbers[:n_runs], joined_lengths, np.int64(1), out)].tobytes()


def _chunk(name: str, physical_type: int, n_rows: int, pages: Sequence[_Page], statistics: Struct) -> _Chunk:
    """A column chunk of a dictionary page and a data page, or of a data page alone."""
    codec = _LZ4_RAW if pages[0].n_unpacked is not None else _ZSTD if _worth_compressing(pages) else _UNCOMPRESSED
    content: list[bytes] = []
    sizes, places = [0, 0], []
    for page in pages:
        body, n_unpacked = page.content, len(page.content) if page.n_unpacked is None else page.n_unpacked
        packed = pa.compress(body, "zstd", asbytes=True) if codec == _ZSTD else bytes(body)
        checksum = zlib.crc32(packed)
        header = to_bytes(
            {
                1: (I32, page.kind),
                2: (I32, n_unpacked),
                3: (I32, len(packed)),
                4: (I32, checksum - (1 << 32) if checksum >> 31 else checksum),
                page.field: (STRUCT, page.about),
            }
        )
        places.append(sizes[1])
        sizes[0] += len(header) + n_unpacked
        sizes[1] += len(header) + len(packed)
        content += [header, packed]
    with_dictionary = len(pages) > 1
    about = {
        1: (I32, physical_type),
        2: (LIST, (I32, [_PLAIN, _RLE, _RLE_DICTIONARY] if with_dictionary else [_PLAIN, _RLE])),
        3: (LIST, (BINARY, [name.encode()])),
        4: (I32, codec),
        5: (I64, n_rows),
        6: (I64, sizes[0]),
        7: (I64, sizes[1]),
        9: (I64, places[-1]),
        **({11: (I64, places[0])} if with_dictionary else {}),
        12: (STRUCT, statistics),
        13: (LIST, (STRUCT, [{1: (I32, page.kind), 2: page.about[2], 3: (I32, 1)} for page in pages])),
    }
    return content, {2: (I64, 0), 3: (STRUCT, about)}


def _worth_compressing(pages: Sequence[_Page]) -> bool:
    """Whether zstd makes a chunk of these pages smaller by enough; of large pages a sample is tried.

    Where it saves little, the time to compress a page, and to decompress it at every reading, is the better saving. So
    it is with many runs of few values, of which zstd saves a third.
    """
    dictionary, runs = (page.content for page in pages)
    n_bytes = len(dictionary) + len(runs)
    if len(runs) >= _LEAST_LEFT and len(dictionary) < len(runs) // 8:
        return False
    if n_bytes < _LEAST_SAMPLED:
        return n_bytes >= _LEAST_COMPRESSED
    expected = 0.0
    for body in (dictionary, runs):
        sample = body[:_SAMPLE_BYTES]
        expected += len(body) * len(pa.compress(sample, "zstd", asbytes=True)) / len(sample)
    return expected <= (1 - _LEAST_SAVED) * n_bytes


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
