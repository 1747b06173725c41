"""Columns of codes, appended in chunks and read back in the same chunks, in memory or in a temporary file.

Codes are kept in the narrowest unsigned type of their chunk. Past the memory budget all further chunks go to an unnamed
temporary file, which disappears with this object (or with the process). Chunks can be read any number of times.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.unsignedinteger]


class CodeSpool:
    """An append-only list of chunks; each chunk is one array of codes per column, all of one length."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._in_memory: list[tuple[Codes, ...]] = []
        self._on_disk: list[tuple[int, tuple[np.dtype[np.unsignedinteger], ...]]] = []  # rows, types
        self._file: IO[bytes] | None = None
        self.n_rows = 0

    def append(self, columns: Sequence[NDArray[np.integer]]) -> None:
        """Add one chunk of non-negative codes."""
        chunk = tuple(_narrowed(codes) for codes in columns)
        self.n_rows += len(chunk[0])
        n_bytes = sum(codes.nbytes for codes in chunk)
        if self._file is None and n_bytes <= self._budget_bytes:
            self._budget_bytes -= n_bytes
            self._in_memory.append(chunk)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="rtree-anon-")  # noqa: SIM115 - lives as long as the spool
            weakref.finalize(self, self._file.close)
        self._file.seek(0, 2)
        for codes in chunk:
            self._file.write(codes.tobytes())
        self._on_disk.append((len(chunk[0]), tuple(codes.dtype for codes in chunk)))

    def chunks(self) -> Iterator[tuple[Codes, ...]]:
        """All chunks in the order in which they were added."""
        yield from self._in_memory
        position = 0
        for n_rows, dtypes in self._on_disk:
            chunk = []
            for dtype in dtypes:
                chunk.append(self._read(position, n_rows, dtype))
                position += n_rows * dtype.itemsize
            yield tuple(chunk)

    def _read(self, position: int, n_rows: int, dtype: np.dtype[np.unsignedinteger]) -> Codes:
        if self._file is None:
            raise ValueError("the spool has no file")
        self._file.seek(position)
        return np.frombuffer(self._file.read(n_rows * dtype.itemsize), dtype=dtype)


def _narrowed(codes: NDArray[np.integer]) -> Codes:
    largest = int(codes.max(initial=0))
    narrow: Codes = codes.astype(np.min_scalar_type(largest))
    return narrow
