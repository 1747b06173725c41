"""The data file: pages by physical number, the two commit slots, and syncs. No knowledge of what the pages mean.

Invariants: pages are only ever written whole, and slots only through `write_commit`; the file never shrinks. A run
whose pages are neighbours on disk is one system call, however long it is. Syncs come one after the other, from
whichever thread; after one that failed no other is tried, because it might succeed although the data is gone (the
system reports a lost write once, to whoever asks first).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rtree_anon.errors import CorruptionError, StorageError
from rtree_anon.storage.files import Access, File, FileSystem, explained, read_available, write_fully
from rtree_anon.storage.layout import (
    BLOCK_BYTES,
    PROLOGUE_BYTES,
    Commit,
    Header,
    commit_checksum,
    decode_commit,
    decode_header,
    encode_commit,
    encode_header,
    slot_offset,
)
from rtree_anon.storage.page import Ids, Run, are_consecutive


@dataclass(frozen=True)
class Slots:
    """Both commit slots as they were read at one moment; None where a slot is empty, torn or damaged."""

    by_parity: tuple[Commit | None, Commit | None]
    checksums: tuple[int, int]
    blank: tuple[bool, bool]  # never written

    def valid(self) -> list[Commit]:
        """The commits that can be read, newest first."""
        return sorted((c for c in self.by_parity if c is not None), key=lambda c: -c.commit_id)

    def holds(self, commit: Commit) -> bool:
        """Whether this very commit is still in its slot."""
        return self.by_parity[commit.commit_id % 2] == commit

    def checksum_of(self, commit: Commit) -> int:
        """Its stored checksum, which the next commit will chain to."""
        return self.checksums[commit.commit_id % 2]


class DataFile:
    """An open data file with its validated header."""

    def __init__(self, file: File, header: Header) -> None:
        self._file = file
        self.header = header
        self.path = file.path
        self._syncing = threading.Lock()  # so that no descriptor is closed, and perhaps given away, under a sync
        self._is_open, self._sync_failed = True, False

    @classmethod
    def create(cls, fs: FileSystem, path: str, header: Header) -> DataFile:
        """Make the file and write its header and empty slots; nothing is synced yet."""
        with explained("create the page file", path):
            file = fs.open(path, Access.CREATE)
            try:
                write_fully(file, encode_header(header) + bytes(PROLOGUE_BYTES - BLOCK_BYTES), 0)
            except BaseException:
                file.close()
                raise
        return cls(file, header)

    @classmethod
    def open(cls, fs: FileSystem, path: str, access: Access) -> DataFile:
        """Open and check the header."""
        with explained("open the page file", path):
            file = fs.open(path, access)
        try:
            with explained("read the header of the page file", path):
                block = bytearray(BLOCK_BYTES)
                n_read = read_available(file, memoryview(block), 0)
            return cls(file, decode_header(bytes(block[:n_read]), path))
        except BaseException:
            file.close()
            raise

    def read_slots(self) -> Slots:
        """Both slots. A slot that names more pages than the file holds is an error, not a version."""
        with explained("read the commit records", self.path):
            blocks = bytearray(2 * BLOCK_BYTES)
            n_read = read_available(self._file, memoryview(blocks), BLOCK_BYTES)
            n_file_bytes = self._file.size()
        if n_read < len(blocks):
            raise CorruptionError(f"{self.path}: the file ends before its pages begin; it was cut off.")
        halves = bytes(blocks[:BLOCK_BYTES]), bytes(blocks[BLOCK_BYTES:])
        even, odd = (decode_commit(half, self.header, self.path) for half in halves)
        for parity, commit in enumerate((even, odd)):
            if commit is None:
                continue
            if commit.commit_id % 2 != parity:
                raise CorruptionError(f"{self.path}: commit {commit.commit_id} is recorded in the wrong slot.")
            if self.header.offset(commit.n_pages) > n_file_bytes:
                raise CorruptionError(
                    f"{self.path}: version {commit.commit_id} has {commit.n_pages} pages, but the file is only"
                    f" {n_file_bytes} bytes long; it was cut off."
                )
        return Slots(
            (even, odd),
            (commit_checksum(halves[0]), commit_checksum(halves[1])),
            (not any(halves[0]), not any(halves[1])),
        )

    def write_commit(self, commit: Commit) -> int:
        """Write a commit into its slot (not synced); returns the slot's checksum."""
        block = encode_commit(commit, self.header.fanout)
        with explained("write the commit record", self.path):
            write_fully(self._file, block, slot_offset(commit.commit_id))
        return commit_checksum(block)

    def write_pages(self, physical: Ids, run: Run) -> None:
        """Write sealed pages to their places; neighbours go in one call."""
        for start, stop in _neighbours(physical):
            with explained("write pages", self.path):
                write_fully(self._file, run[start:stop].data.cast("B"), self.header.offset(int(physical[start])))

    def read_pages(self, physical: Ids, run: Run) -> None:
        """Read pages from their places into `run`, unchecked; neighbours come in one call."""
        for start, stop in _neighbours(physical):
            view = run[start:stop].data.cast("B")
            with explained("read pages", self.path):
                n_read = read_available(self._file, view, self.header.offset(int(physical[start])))
            if n_read < len(view):
                raise CorruptionError(f"{self.path}: the file ends inside page {int(physical[start])}; it was cut off.")

    def n_whole_pages(self) -> int:
        """Physical pages that the file is long enough for."""
        with explained("ask for the size of the page file", self.path):
            return max(self._file.size() - PROLOGUE_BYTES, 0) // self.header.page_bytes

    def renamed(self, path: str) -> None:
        """The file has another name now; messages will use it."""
        self.path = self._file.path = path

    def sync(self) -> None:
        """Everything written so far survives a power cut."""
        with self._syncing, explained("make the page file durable", self.path):
            self._sync()

    def sync_ahead(self) -> None:
        """The same from another thread than the one that writes, which may close the file at any moment."""
        with self._syncing, explained("make the page file durable", self.path):
            if self._is_open:
                self._sync()

    def close(self) -> None:
        """Close the file."""
        with self._syncing:
            self._is_open = False
            self._file.close()

    def _sync(self) -> None:
        if self._sync_failed:
            raise StorageError(f"{self.path}: an earlier sync of the page file failed; open the index again.")
        try:
            self._file.sync()
        except BaseException:
            self._sync_failed = True
            raise


def _neighbours(physical: Ids) -> Iterator[tuple[int, int]]:
    """Half-open index ranges of consecutive page numbers."""
    n = len(physical)
    if n == 0:
        return
    cuts = [] if are_consecutive(physical) else (np.flatnonzero(physical[1:] - physical[:-1] != 1) + 1).tolist()
    bounds = [0, *cuts, n]
    yield from pairwise(bounds)
