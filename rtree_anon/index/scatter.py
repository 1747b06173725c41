"""Scattering rows over buckets, in memory as long as they fit and in a temporary file beyond that.

The buffer tree of the paper (section 2.1; Arge 1995) with all buffers of a node in one place:

    batch ─► codes ─► bucket of each row (one kernel call) ─► packed rows, sorted by bucket, behind the batches before
    chunk full ─► rows of bucket 0 of all its batches, bucket 1, … ─► one sequential write

So a row moves once in memory and is written once, in runs of a whole chunk's rows of one bucket; reading a bucket back
is one read per chunk. Batches are sorted by worker threads, each to a place that is fixed when the batch is read, so
the result does not depend on how many threads there are.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.cuts import Cuts
from rtree_anon.index.rowlayout import RowLayout
from rtree_anon.io.coded_batch import CodedBatch
from rtree_anon.kernels.routing import gather_buckets, route_batch, sort_packed
from rtree_anon.space import missing_code
from rtree_anon.storage.files import explained

_WRITE_BYTES = 4 << 20

Words = NDArray[np.uint64]


class SpillFile:
    """An unnamed temporary file beside the index: it is gone when it is closed, or when the process dies."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._end = 0
        self.bytes_written = self.bytes_read = 0

    def reserve(self, n_bytes: int) -> int:
        """Room for so many bytes; where it begins."""
        with self._lock:
            if self._file is None:
                with explained("make a temporary file", self._directory):
                    self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - closed by `close`
            begin, self._end = self._end, self._end + n_bytes
            self.bytes_written += n_bytes
            return begin

    def write(self, rows: Words, offset: int) -> None:
        """Write rows to their place."""
        view = rows.data.cast("B")
        with explained("write to a temporary file", self._directory):
            while view:
                n = os.pwrite(self._descriptor(), view, offset)
                view, offset = view[n:], offset + n

    def read(self, out: Words, offset: int) -> None:
        """Read rows back."""
        view = out.data.cast("B")
        self.bytes_read += len(view)
        with explained("read a temporary file", self._directory):
            while view:
                n = os.preadv(self._descriptor(), [view], offset)
                if n == 0:
                    raise OSError("the temporary file is shorter than what was written to it")
                view, offset = view[n:], offset + n

    def close(self) -> None:
        """Give the space back. Closing twice is harmless."""
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            file.close()

    def _descriptor(self) -> int:
        assert self._file is not None, "nothing was reserved"
        return self._file.fileno()


@dataclass(eq=False)
class _Chunk:
    """Batches that wait together."""

    words: Words | None
    first_row: list[int] = field(default_factory=list)
    starts: list[NDArray[np.int32]] = field(default_factory=list)
    n_rows: int = 0
    n_waiting: int = 0
    closed: bool = False
    offset: int = 0  # in the spill file, once words is None
    table: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None  # first_row, starts, as the kernels want them
    begins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))  # of buckets, in bucket order

    def seal(self) -> None:
        """All batches are there."""
        starts = np.array(self.starts, np.int32)
        self.table = np.array(self.first_row, np.int64), starts
        self.begins = np.concatenate(([0], np.cumsum(np.diff(starts, axis=1).sum(axis=0, dtype=np.int64))))
        self.starts = []


class Scatter:
    """Rows of one set of cuts by bucket. Fill it with `fill`, then read buckets with `rows_of`."""

    def __init__(
        self, cuts: Cuts, layout: RowLayout, spill: SpillFile, chunk_rows: int, *, keeps_last: bool = True
    ) -> None:
        """`keeps_last`: the last chunk stays in memory. Not for one of many scatters, which would fill it together."""
        self.cuts, self.layout, self._keeps_last = cuts, layout, keeps_last
        self._spill, self._chunk_rows = spill, chunk_rows
        self._chunks: list[_Chunk] = []
        self._lock = threading.Lock()
        self._two_chunks = threading.Semaphore(2)  # one that is filled, one that is written
        self.counts = np.zeros(len(cuts) + 1, np.int64)

    def fill(
        self, batches: Iterable[CodedBatch], pool: ThreadPoolExecutor, threads: int, on_rows: Callable[[int], None]
    ) -> None:
        """Scatter all batches; what is left of the last chunk stays in memory, if there is room for it."""
        slots = threading.Semaphore(threads + 1)
        futures: list[Any] = []
        failed = threading.Event()
        chunk: _Chunk | None = None
        try:
            for batch in batches:
                if failed.is_set():
                    break
                if not batch.n_rows:
                    continue
                if chunk is None or chunk.n_rows + batch.n_rows > max(self._chunk_rows, batch.n_rows):
                    self._close(chunk)
                    chunk = self._new_chunk(batch.n_rows)
                at, number = chunk.n_rows, len(chunk.first_row)
                chunk.n_rows += batch.n_rows
                with self._lock:
                    chunk.first_row.append(at)
                    chunk.starts.append(np.empty(0, np.int32))
                    chunk.n_waiting += 1
                slots.acquire()
                futures.append(pool.submit(self._sort, batch, chunk, at, number, slots, failed))
                on_rows(batch.n_rows)
        finally:
            # Workers write into chunks: nobody leaves before they are done.
            errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise errors[0]
        if chunk is not None and self._keeps_last:
            chunk.seal()
        elif chunk is not None:
            self._write(chunk)
        for each in self._chunks:
            self.counts += np.diff(each.begins)

    def rows_of(self, bucket: int) -> Words:
        """The rows of a bucket, in input order."""
        out = self.layout.empty(int(self.counts[bucket]))
        at = 0
        for chunk in self._chunks:
            at += self._read(chunk, bucket, out[at:])
        return out

    def pieces_of(self, bucket: int) -> Iterator[Words]:
        """The rows of a bucket in pieces, for buckets that are too large to be read at once."""
        for chunk in self._chunks:
            n = int(chunk.begins[bucket + 1] - chunk.begins[bucket])
            if n:
                out = self.layout.empty(n)
                self._read(chunk, bucket, out)
                yield out

    def _new_chunk(self, n_rows: int) -> _Chunk:
        self._two_chunks.acquire()
        chunk = _Chunk(self.layout.empty(max(self._chunk_rows, n_rows)))
        self._chunks.append(chunk)
        return chunk

    def _close(self, chunk: _Chunk | None) -> None:
        if chunk is None:
            return
        with self._lock:
            chunk.closed = True
            complete = chunk.n_waiting == 0
        if complete:
            self._write(chunk)

    def _sort(
        self,
        batch: CodedBatch,
        chunk: _Chunk,
        at: int,
        number: int,
        slots: threading.Semaphore,
        failed: threading.Event,
    ) -> None:
        try:
            codes = batch.codes()
            missing = np.int64(missing_code(codes.dtype))
            bucket = np.empty(batch.n_rows, np.uint32)
            starts = np.zeros(len(self.counts) + 1, np.int64)
            route_batch(codes, missing, self.cuts.route_table, bucket, starts[1:])
            np.cumsum(starts, out=starts)
            assert chunk.words is not None
            place = chunk.words[at : at + batch.n_rows]
            if not sort_packed(codes, missing, self.layout.words, bucket, starts[:-1].copy(), place):
                raise batch.outside(codes, self.layout.ranges)
            with self._lock:
                chunk.starts[number] = starts.astype(np.int32)
                chunk.n_waiting -= 1
                complete = chunk.closed and chunk.n_waiting == 0
            if complete:
                self._write(chunk)
        except BaseException:
            failed.set()
            self._two_chunks.release()  # whoever waits for room is to see that something failed
            raise
        finally:
            slots.release()

    def _write(self, chunk: _Chunk) -> None:
        """Move a full chunk to the spill file, in bucket order."""
        chunk.seal()
        assert chunk.words is not None and chunk.table is not None
        begins = chunk.begins
        row_bytes = self.layout.n_words * 8
        chunk.offset = self._spill.reserve(chunk.n_rows * row_bytes)
        at_once = max(_WRITE_BYTES // row_bytes, int(np.diff(begins).max()))
        buffer = self.layout.empty(min(at_once, chunk.n_rows))
        bucket, n_buckets = 0, len(begins) - 1
        while bucket < n_buckets:
            end = int(np.searchsorted(begins, begins[bucket] + len(buffer), "right")) - 1
            n = gather_buckets(chunk.words, *chunk.table, bucket, end, buffer)
            self._spill.write(buffer[:n], chunk.offset + int(begins[bucket]) * row_bytes)
            bucket = end
        chunk.words = chunk.table = None
        self._two_chunks.release()

    def _read(self, chunk: _Chunk, bucket: int, out: Words) -> int:
        if chunk.words is not None:
            assert chunk.table is not None
            return int(gather_buckets(chunk.words, *chunk.table, bucket, bucket + 1, out))
        first, end = int(chunk.begins[bucket]), int(chunk.begins[bucket + 1])
        if end > first:
            self._spill.read(out[: end - first], chunk.offset + first * self.layout.n_words * 8)
        return end - first


@dataclass(frozen=True, eq=False)
class ScatteredRows:
    """Rows of a bucket to be: buckets of scatters, and words that came from elsewhere."""

    parts: tuple[tuple[Scatter, int], ...]
    extra: tuple[Words, ...] = ()

    @property
    def n_rows(self) -> int:
        return sum(int(scatter.counts[bucket]) for scatter, bucket in self.parts) + sum(map(len, self.extra))

    def words(self) -> Words:
        """All of them at once."""
        parts = [scatter.rows_of(bucket) for scatter, bucket in self.parts] + list(self.extra)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def pieces(self) -> Iterator[Words]:
        """All of them, one piece after the other."""
        for scatter, bucket in self.parts:
            yield from scatter.pieces_of(bucket)
        yield from self.extra
