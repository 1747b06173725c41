"""A transaction in the making: pages are written at once, to free places, and become reachable only by a commit.

Invariant: no page that an `Edit` writes can be reached from a commit slot or a pinned version, so until the commit
record is written it may be dropped, or lost in a crash, at any point without a trace. A page that is rewritten within
one transaction keeps its fresh place; one that is freed gives it back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import StorageError, UsageError
from rtree_anon.storage.datafile import DataFile
from rtree_anon.storage.freespace import FreeSpace
from rtree_anon.storage.layout import FIRST_USER_KIND, MAX_PAGES, NO_PAGE, Commit
from rtree_anon.storage.page import Ids, Run, payloads, run_lengths, seal_run
from rtree_anon.storage.pagemap import Entries, PageMap, write_map
from rtree_anon.storage.snapshot import read_checked


class Edit:
    """Uncommitted changes on top of a version of the page map."""

    def __init__(self, data: DataFile, base: PageMap, space: FreeSpace, commit_id: int) -> None:
        self.data, self._base, self._space, self.commit_id = data, base, space, commit_id
        self._n_logical = len(base.entries)
        self._entries: Entries = base.entries.copy()  # capacity may exceed _n_logical
        self._is_fresh = np.zeros(self._n_logical, np.bool_)  # its place was taken by this transaction
        self._reserved = np.zeros(self._n_logical, np.bool_)  # allocated, not yet written
        self._dirty: set[int] = set()  # level-0 pages of the map with changed entries
        self._failed = False

    def allocate(self, n_pages: int) -> int:
        """The first of `n_pages` consecutive free ids: the lowest hole that is long enough, else behind the last id."""
        if n_pages < 1:
            raise UsageError(f"{n_pages} pages cannot be allocated; at least one can.")
        first = _first_hole(self._is_free(slice(0, self._n_logical)), n_pages)
        if first + n_pages > MAX_PAGES:
            raise UsageError(f"{n_pages} pages are more than a store can hold ({MAX_PAGES}).")
        self._extend(first + n_pages)
        self._reserved[first : first + n_pages] = True
        return first

    def write_run(self, page_ids: Ids, run: Run, kind: int, lengths: NDArray[np.uint32] | int | None) -> None:
        """Seal and write pages. Their ids must be different, and allocated or existing."""
        header = self.data.header
        if run.shape != (len(page_ids), header.page_bytes) or not run.flags.c_contiguous or run.dtype != np.uint8:
            raise UsageError(
                f"{len(page_ids)} pages were named, but the buffer has shape {run.shape} and type {run.dtype}."
            )
        if not FIRST_USER_KIND <= kind <= 255:
            raise UsageError(f"Page kind {kind} is not allowed; {FIRST_USER_KIND} to 255 are.")
        used = run_lengths(lengths, len(page_ids), header.payload_bytes)
        self._require_writable(page_ids)
        stale = page_ids[~self._is_fresh[page_ids]]
        self._entries[stale, 0] = self._space.take(len(stale))
        self._is_fresh[stale] = True
        self._dirty.update((page_ids // header.fanout).tolist())
        try:
            self._entries[page_ids, 1] = seal_run(run, page_ids, kind, used, self.commit_id)
            self.data.write_pages(self._entries[page_ids, 0], run)
        except BaseException:
            self._failed = True  # the map may name a page that was not written; only abort is possible now
            raise
        self._reserved[page_ids] = False

    def write(self, page_id: int, payload: bytes | bytearray | memoryview | NDArray[np.uint8], kind: int) -> None:
        """One page from any buffer of bytes."""
        content = np.frombuffer(payload, np.uint8) if len(payload) else np.zeros(0, np.uint8)
        run = np.empty((1, self.data.header.page_bytes), np.uint8)
        lengths = run_lengths(len(content), 1, self.data.header.payload_bytes)
        payloads(run)[0, : len(content)] = content
        self.write_run(np.array([page_id], np.uint64), run, kind, lengths)

    def free(self, page_ids: Ids) -> None:
        """Drop pages; their ids may be allocated again at once."""
        self._require_writable(page_ids)
        fresh = page_ids[self._is_fresh[page_ids]]
        self._space.give_back(self._entries[fresh, 0])
        self._entries[page_ids, 0], self._entries[page_ids, 1] = NO_PAGE, 0
        self._is_fresh[page_ids] = self._reserved[page_ids] = False
        self._dirty.update((page_ids // self.data.header.fanout).tolist())

    def page_ids(self) -> Ids:
        """Pages that exist, ascending."""
        return self._current().page_ids()

    def read_run(self, page_ids: Ids, out: Run) -> NDArray[np.uint32]:
        """Read pages, changes included."""
        return read_checked(self.data, self._current().locate(page_ids, self.data.path), page_ids, out, self.commit_id)

    def finish(self, metadata: dict[str, Any], journal_seq: int, previous_checksum: int) -> tuple[Commit, PageMap]:
        """Write the changed part of the page map; the commit record that would make this version visible."""
        if self._failed:
            raise StorageError(f"{self.data.path}: a write in this transaction failed; abort it.")
        exists = np.flatnonzero(self._entries[: self._n_logical, 0] != NO_PAGE)
        n_logical = int(exists[-1]) + 1 if len(exists) else 0  # ids behind the last page are forgotten
        entries = self._entries[:n_logical].copy()
        pages = write_map(self.data, self._base, entries, self._dirty, self.commit_id, self._space.take)
        root = pages.levels[-1][0].tolist() if pages.levels else [NO_PAGE, 0]
        commit = Commit(
            commit_id=self.commit_id,
            n_pages=self._space.n_pages,
            n_logical=n_logical,
            root_physical=root[0],
            root_checksum=root[1],
            previous_checksum=previous_checksum,
            journal_seq=journal_seq,
            file_id=self.data.header.file_id,
            metadata=metadata,
        )
        return commit, pages

    def _current(self) -> PageMap:
        return PageMap((self._entries[: self._n_logical],))

    def _is_free(self, page_ids: Ids | slice) -> NDArray[np.bool_]:
        free: NDArray[np.bool_] = (self._entries[page_ids, 0] == NO_PAGE) & ~self._reserved[page_ids]
        return free

    def _extend(self, n_logical: int) -> None:
        capacity = len(self._entries)
        if n_logical > capacity:
            n_more = max(n_logical, capacity * 5 // 4, 64) - capacity
            blank = np.tile(np.array([[NO_PAGE, 0]], np.uint64), (n_more, 1))
            self._entries = np.concatenate([self._entries, blank])
            self._is_fresh = np.concatenate([self._is_fresh, np.zeros(n_more, np.bool_)])
            self._reserved = np.concatenate([self._reserved, np.zeros(n_more, np.bool_)])
        self._n_logical = max(self._n_logical, n_logical)

    def _require_writable(self, page_ids: Ids) -> None:
        if self._failed:
            raise StorageError(f"{self.data.path}: a write in this transaction failed; abort it.")
        if len(page_ids) == 0:
            return
        if page_ids.dtype != np.uint64 or int(page_ids.max()) >= self._n_logical:
            raise UsageError(f"Page {int(page_ids.max())} was not allocated (ids are uint64 below {self._n_logical}).")
        unknown = page_ids[self._is_free(page_ids)]
        if len(unknown):
            raise UsageError(f"Page {int(unknown[0])} was not allocated.")
        is_ascending = bool((page_ids[1:] > page_ids[:-1]).all())  # as in every sequential write
        if not is_ascending and len(np.unique(page_ids)) != len(page_ids):
            raise UsageError("A page is named twice in one call.")


def _first_hole(is_free: NDArray[np.bool_], n_wanted: int) -> int:
    """Start of the first run of `n_wanted` free ids; free ids at the end count, as they can be extended."""
    edges = np.diff(np.concatenate([[False], is_free, [False]]).astype(np.int8))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    fits = np.flatnonzero((stops - starts >= n_wanted) | (stops == len(is_free)))
    return int(starts[fits[0]]) if len(fits) else len(is_free)
