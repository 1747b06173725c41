"""A transaction in the making: pages are written at once, to free places, and become reachable only by a commit.

Invariant: no page that an `Edit` writes can be reached from a commit slot or a pinned version, so until the commit
record is written it may be dropped, or lost in a crash, at any point without a trace. A page that is rewritten within
one transaction keeps its fresh place; one that is freed gives it back.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import StorageError, UsageError
from rtree_anon.storage.datafile import DataFile
from rtree_anon.storage.freespace import FreeSpace
from rtree_anon.storage.layout import FIRST_USER_KIND, MAX_PAGES, NO_PAGE, Commit
from rtree_anon.storage.page import Ids, Run, are_consecutive, payloads, run_lengths, seal_run
from rtree_anon.storage.pagemap import Entries, PageMap, write_map
from rtree_anon.storage.snapshot import read_checked

# What an id is within the transaction. Fresh: its place was taken by this transaction, and may be written again.
_FREE, _RESERVED, _OLD, _FRESH = range(4)
_NOWHERE: Final = np.array([NO_PAGE, 0], np.uint64)
_FIRST_WINDOW: Final = 1024  # ids that are looked at before more of them are


class Edit:
    """Uncommitted changes on top of a version of the page map."""

    def __init__(self, data: DataFile, base: PageMap, space: FreeSpace, commit_id: int) -> None:
        self.data, self._base, self._space, self.commit_id = data, base, space, commit_id
        self._n_logical = len(base.entries)
        self._entries: Entries = base.entries.copy()  # capacity may exceed _n_logical
        self._state = np.where(self._entries[:, 0] == NO_PAGE, _FREE, _OLD).astype(np.uint8)
        self._dirty: set[int] = set()  # level-0 pages of the map with changed entries
        self._lowest_free = 0  # all ids below are in use
        self._too_long = MAX_PAGES + 1  # no hole has room for this many pages
        self._failed = False

    def allocate(self, n_pages: int) -> int:
        """The first of `n_pages` consecutive free ids: the lowest hole that is long enough, else behind the last id."""
        if n_pages < 1:
            raise UsageError(f"{n_pages} pages cannot be allocated; at least one can.")
        first = self._first_hole(n_pages)
        if first + n_pages > MAX_PAGES:
            raise UsageError(f"{n_pages} pages are more than a store can hold ({MAX_PAGES}).")
        self._extend(first + n_pages)
        self._state[first : first + n_pages] = _RESERVED
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
        if not len(page_ids):
            return
        where, state = self._require_writable(page_ids)
        if np.maximum.reduce(state) < _FRESH:
            self._entries[where, 0] = self._space.take(len(page_ids))
        else:
            stale = page_ids[state < _FRESH]
            self._entries[stale, 0] = self._space.take(len(stale))
        self._state[where] = _FRESH
        self._mark_dirty(where)
        try:
            self._entries[where, 1] = seal_run(run, page_ids, kind, used, self.commit_id)
            self.data.write_pages(self._entries[where, 0], run)
        except BaseException:
            self._failed = True  # the map may name a page that was not written; only abort is possible now
            raise

    def write(self, page_id: int, payload: bytes | bytearray | memoryview | NDArray[np.uint8], kind: int) -> None:
        """One page from any buffer of bytes."""
        content = np.frombuffer(payload, np.uint8) if len(payload) else np.zeros(0, np.uint8)
        run = np.empty((1, self.data.header.page_bytes), np.uint8)
        lengths = run_lengths(len(content), 1, self.data.header.payload_bytes)
        payloads(run)[0, : len(content)] = content
        self.write_run(np.array([page_id], np.uint64), run, kind, lengths)

    def free(self, page_ids: Ids) -> None:
        """Drop pages; their ids may be allocated again at once."""
        if not len(page_ids):
            return
        where, state = self._require_writable(page_ids)
        fresh = page_ids[state == _FRESH]
        self._space.give_back(self._entries[fresh, 0])
        self._entries[where] = _NOWHERE
        self._state[where] = _FREE
        self._mark_dirty(where)
        self._lowest_free = min(self._lowest_free, int(page_ids.min()))
        self._too_long = MAX_PAGES + 1

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

    def _mark_dirty(self, where: Ids | slice) -> None:
        fanout = self.data.header.fanout
        if isinstance(where, slice):
            self._dirty.update(range(where.start // fanout, (where.stop - 1) // fanout + 1))
        else:
            self._dirty.update((where // fanout).tolist())

    def _first_hole(self, n_pages: int) -> int:
        """Where `n_pages` ids are free. Free ids at the end are enough, as they can be extended.

        Does not look twice at what is known to be in use, or again for room that was not there: allocating at the end,
        as a bulk load does, is O(1), and filling hole after hole from the front costs no more than the ids passed.
        """
        if n_pages >= self._too_long:
            return self._n_logical
        n_window = max(_FIRST_WINDOW, n_pages)
        while True:
            stop = min(self._lowest_free + n_window, self._n_logical)
            is_last = stop == self._n_logical
            starts, stops = _holes(self._state[self._lowest_free : stop])
            fits = np.flatnonzero((stops - starts >= n_pages) | (is_last & (stops == stop - self._lowest_free)))
            if len(fits) or is_last:
                break
            n_window *= 8
        if not len(fits):
            self._too_long = n_pages
            if not len(starts):
                self._lowest_free = self._n_logical
            return self._n_logical
        first = self._lowest_free + int(starts[fits[0]])
        if fits[0] == 0:
            self._lowest_free = first  # what is before the first hole is in use
        return first

    def _extend(self, n_logical: int) -> None:
        capacity = len(self._entries)
        if n_logical > capacity:
            n_more = max(n_logical, capacity * 5 // 4, 64) - capacity
            self._entries = np.concatenate([self._entries, np.tile(_NOWHERE, (n_more, 1))])
            self._state = np.concatenate([self._state, np.full(n_more, _FREE, np.uint8)])
        self._n_logical = max(self._n_logical, n_logical)

    def _require_writable(self, page_ids: Ids) -> tuple[Ids | slice, NDArray[np.uint8]]:
        """The ids as an index into this transaction's arrays (a slice if they are consecutive, which is much faster),
        and their states.
        """
        if self._failed:
            raise StorageError(f"{self.data.path}: a write in this transaction failed; abort it.")
        is_consecutive = are_consecutive(page_ids)
        first, highest = int(page_ids[0]), int(page_ids[-1] if is_consecutive else page_ids.max())
        if page_ids.dtype != np.uint64 or highest >= self._n_logical:
            raise UsageError(f"Page {highest} was not allocated (ids are uint64 below {self._n_logical}).")
        where = slice(first, highest + 1) if is_consecutive else page_ids
        state = self._state[where]
        if np.minimum.reduce(state) == _FREE:
            raise UsageError(f"Page {int(page_ids[state == _FREE][0])} was not allocated.")
        if not is_consecutive and len(np.unique(page_ids)) != len(page_ids):
            raise UsageError("A page is named twice in one call.")
        return where, state


def _holes(state: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Starts and stops of the runs of free ids."""
    edges = np.diff((state == _FREE).view(np.int8), prepend=np.int8(0), append=np.int8(0))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
