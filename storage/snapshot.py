"""A version of the store, for reading: the same bytes for its whole life, whatever the writer does (P7).

Every page is checked when it is read: its own checksum, the checksum that the page map expects, its id. A page that is
not right is a CorruptionError, never an answer (P5). Reading needs no lock and shares no state, so many threads may
read at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import UsageError
from rtree_anon.storage.datafile import DataFile
from rtree_anon.storage.layout import Commit
from rtree_anon.storage.page import Ids, Run, check_run, empty_run, payloads
from rtree_anon.storage.pagemap import Entries, PageMap
from rtree_anon.storage.readers import Pin

_PIECE_BYTES: Final = 4 << 20


class Version(ABC):
    """What a reader and the writer can both say about a commit of a data file; a context manager."""

    def __init__(self, data: DataFile, commit: Commit, pages: PageMap) -> None:
        self._data, self._commit, self._pages = data, commit, pages

    @property
    def commit_id(self) -> int:
        return self._commit.commit_id

    @property
    def metadata(self) -> dict[str, Any]:
        return self._commit.metadata

    @property
    def journal_seq(self) -> int:
        return self._commit.journal_seq

    @property
    def page_bytes(self) -> int:
        return self._data.header.page_bytes

    @property
    def payload_bytes(self) -> int:
        return self._data.header.payload_bytes

    def read(self, page_id: int) -> NDArray[np.uint8]:
        """The payload of one page, freshly read and checked."""
        page = np.empty((1, self.page_bytes), np.uint8)
        length = self.read_run(np.array([page_id], np.uint64), page)[0]
        return payloads(page)[0, : int(length)]

    @abstractmethod
    def read_run(self, page_ids: Ids, out: Run) -> NDArray[np.uint32]:
        """Read whole pages into ``out[:len(page_ids)]`` and check them; their payload lengths. O(bytes)."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back. Closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Snapshot(Version):
    """One commit of a data file, and (for readers that are not the writer) the registration that protects its pages."""

    def __init__(self, data: DataFile, commit: Commit, pages: PageMap, pin: Pin | None) -> None:
        super().__init__(data, commit, pages)
        self._pin = pin
        self._closed = False

    @property
    def file_id(self) -> bytes:
        """Which data file this version is in; with a page's place and checksum it names the page's content for ever."""
        return self._data.header.file_id

    @property
    def path(self) -> str:
        """The data file, for messages."""
        return self._data.path

    def page_ids(self) -> Ids:
        """Pages that exist, ascending."""
        return self._pages.page_ids()

    def locate(self, page_ids: Ids) -> Entries:
        """(physical page, checksum) of each page; CorruptionError for one that does not exist."""
        return self._pages.locate(page_ids, self._data.path)

    def read_run(self, page_ids: Ids, out: Run) -> NDArray[np.uint32]:
        if self._closed:
            raise UsageError(f"{self._data.path}: this snapshot is closed.")
        return read_checked(self._data, self.locate(page_ids), page_ids, out, self._commit.commit_id)

    def read_all(self) -> Iterator[tuple[Ids, Run, NDArray[np.uint32]]]:
        """Every page in order, some at a time: ids, pages (in a buffer that is used again), payload lengths."""
        ids = self.page_ids()
        step = max(1, _PIECE_BYTES // self.page_bytes)
        buffer = empty_run(min(step, len(ids)), self.page_bytes)
        for start in range(0, len(ids), step):
            some = ids[start : start + step]
            run = buffer[: len(some)]
            yield some, run, self.read_run(some, run)

    def close(self) -> None:
        self._closed = True
        if self._pin is not None:
            self._pin.release()
        self._data.close()


def read_checked(data: DataFile, entries: Entries, page_ids: Ids, out: Run, newest_commit: int) -> NDArray[np.uint32]:
    """Read pages from where `entries` says they are, and check them against it."""
    n = len(page_ids)
    if out.shape[0] < n or out.shape[1] != data.header.page_bytes or not out.flags.c_contiguous:
        raise UsageError(
            f"The buffer has shape {out.shape}; {n} pages of {data.header.page_bytes} bytes are to be read."
        )
    lengths = np.empty(n, np.uint32)
    # In pieces that mostly stay in the processor's cache between being read and being checked; 1 MB is no better.
    step = max(1, _PIECE_BYTES // data.header.page_bytes)
    for start in range(0, n, step):
        piece = slice(start, min(start + step, n))
        data.read_pages(entries[piece, 0], out[piece])
        lengths[piece] = check_run(out[piece], page_ids[piece], entries[piece, 1], newest_commit, data.path)
    return lengths
