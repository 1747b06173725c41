"""The store on disk, for the one writer: transactions of copied pages, two commit slots, a journal.

    commit:  pages and map to free places ─► sync ─► commit record ─► sync ─► new journal that names it ─► acknowledged
That order is the whole proof, so it stands in one function (`DiskStore.commit`); FORMAT.md argues it case by case. A
rebuild (bulk load, compaction) commits in the same way to a fresh file, which then takes the old one's name.

Invariants: pages of the newest commit, of the commit in the other slot and of every pinned commit are never written
to; an error inside `commit` ends the store (what a failed sync left behind is unknown), and reopening finds the last
commit or that plus the one in flight.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError, StorageError, UsageError
from rtree_anon.storage.datafile import DataFile
from rtree_anon.storage.edit import Edit
from rtree_anon.storage.files import File, FileSystem, explained
from rtree_anon.storage.freespace import FreeSpace
from rtree_anon.storage.journal import Journal
from rtree_anon.storage.layout import MAX_METADATA_BYTES, PAGE_HEADER, Commit, Header
from rtree_anon.storage.metadata import pack_metadata
from rtree_anon.storage.page import Ids, Run
from rtree_anon.storage.pagemap import EMPTY_MAP, PageMap, load_map
from rtree_anon.storage.readers import pinned_commits
from rtree_anon.storage.snapshot import Snapshot, Version

DATA: Final = "data"
NEW_DATA: Final = "data.new"
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _alone(method: Callable[Concatenate[DiskStore, _P], _R]) -> Callable[Concatenate[DiskStore, _P], _R]:
    """One at a time: a thread whose `append` or `sync_ahead` failed must not close files that the writer is using."""

    @wraps(method)
    def alone(store: DiskStore, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with store._busy:
            return method(store, *args, **kwargs)

    return alone


class DiskStore(Version):
    """The one writer of an index directory. Made by `create_store` and `open_store`; use it as a context manager."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        lock: File,
        data: DataFile,
        journal: Journal,
        newest: tuple[Commit, PageMap, int],
        other: tuple[Commit, PageMap] | None,
        open_reader: Callable[[], Snapshot],
        next_commit_id: int,
    ) -> None:
        """`newest` is a commit with its map and its slot's checksum; `other` the commit in the other slot, if valid."""
        super().__init__(data, newest[0], newest[1])
        self._fs, self._directory, self._lock, self._journal = fs, directory, lock, journal
        self._slot_checksum = newest[2]
        self._other = other
        self._open_reader = open_reader
        self._next_commit_id = next_commit_id
        self._edit: Edit | None = None
        self._pinned_maps: dict[int, PageMap] = {}
        self._ended: str | None = None
        self._busy = threading.RLock()

    @property
    def n_pages(self) -> int:
        """Physical pages of the newest version, free ones included: the file's length in pages."""
        return self._commit.n_pages

    @_alone
    def allocate(self, n_pages: int = 1) -> int:
        """The first of `n_pages` consecutive page ids that are not in use."""
        return self._transaction().allocate(n_pages)

    @_alone
    def write(self, page_id: int, payload: bytes | bytearray | memoryview | NDArray[np.uint8], kind: int) -> None:
        """Give a page a new content."""
        self._transaction().write(page_id, payload, kind)

    @_alone
    def write_run(self, page_ids: Ids, run: Run, kind: int, lengths: NDArray[np.uint32] | int | None = None) -> None:
        """Give many pages new contents; fills in the headers of `run` in place. One system call for neighbours."""
        self._transaction().write_run(page_ids, run, kind, lengths)

    @_alone
    def free(self, page_ids: Ids) -> None:
        """Let pages go."""
        self._transaction().free(page_ids)

    @_alone
    def read_run(self, page_ids: Ids, out: Run) -> NDArray[np.uint32]:
        """Read whole pages into ``out[:len(page_ids)]``; their payload lengths."""
        self._require_alive()
        return (self._edit or self._version()).read_run(page_ids, out)

    @_alone
    def page_ids(self) -> Ids:
        """Pages that exist, ascending, changes of this transaction included."""
        self._require_alive()
        return self._edit.page_ids() if self._edit is not None else self._pages.page_ids()

    def sync_ahead(self) -> None:
        """Write what was written so far to the disk, so that `commit` has less to wait for. For another thread.

        Promises nothing. It may be called while the one writer goes on, and even while it commits or closes. An error
        ends the store as one in `commit` does: no later sync would report it again.
        """
        self._require_alive()
        edit = self._edit
        try:
            if edit is not None:
                edit.data.sync_ahead()
        except OSError as error:
            self._end(f"syncing ahead failed ({error})")
            raise

    @_alone
    def commit(self, metadata: dict[str, Any] | None = None, journal_seq: int | None = None) -> int:
        """Make the changes durable and visible; the new version. See the order at the top of this file."""
        edit = self._transaction()
        metadata = self.metadata if metadata is None else metadata
        journal_seq = self.journal_seq if journal_seq is None else journal_seq
        pack_metadata(metadata, MAX_METADATA_BYTES)  # complain before anything is written
        if not self.journal_seq <= journal_seq <= self._journal.last_seq:
            raise UsageError(
                f"The journal position {journal_seq} is not between {self.journal_seq} and {self._journal.last_seq}."
            )
        try:
            if journal_seq > self._journal.durable_seq:
                self._journal.flush()
            record, pages = edit.finish(metadata, journal_seq, self._slot_checksum)
            edit.data.sync()
            slot_checksum = edit.data.write_commit(record)
            edit.data.sync()
            other: tuple[Commit, PageMap] | None = (self._commit, self._pages)
            if edit.data is not self._data:
                self._install(edit.data, record)
                other = None
            self._journal.rotate(record.commit_id, journal_seq)
        except BaseException as error:
            self._end(f"the commit failed ({error})")
            raise
        self._commit, self._pages, self._slot_checksum, self._other = record, pages, slot_checksum, other
        self._next_commit_id = record.commit_id + 1
        self._edit = None
        return record.commit_id

    @_alone
    def abort(self) -> None:
        """Forget the changes since the last commit."""
        self._require_alive()
        self._drop_edit()

    @_alone
    def rebuild(self) -> None:
        """Begin anew in a fresh file, without any page; the next `commit` puts it in the place of the old one."""
        self._require_alive()
        if self._edit is not None:
            raise UsageError("A rebuild begins between transactions; commit or abort the one that is open.")
        path = f"{self._directory}/{NEW_DATA}"
        with explained("remove an unfinished page file", path):
            if self._fs.exists(path):
                self._fs.remove(path)
        header = Header(self.page_bytes, self._data.header.store_id, self._fs.random_bytes(16))
        fresh = DataFile.create(self._fs, path, header)
        self._edit = Edit(fresh, EMPTY_MAP, FreeSpace(0, ()), self._next_commit_id)

    @_alone
    def compact(self, *, scrub: bool = False) -> int:
        """Rewrite the file without free space, in page order; the new version (the same pages, ids and metadata).

        With `scrub` nothing of deleted pages or applied journal records is left in the files of the index (P4). That
        needs an applied journal: what it still holds cannot be both kept and gone. Open snapshots keep the old file
        until they close.
        """
        if scrub and self._journal.last_seq > self.journal_seq:
            raise UsageError("The journal holds records that no commit contains yet; commit them, then scrub.")
        self.rebuild()
        edit = self._transaction()
        source = self._version()
        ids = source.page_ids()
        if len(ids):
            edit.allocate(int(ids[-1]) + 1)
        for some, run, lengths in source.read_all():
            kinds = run[:, : PAGE_HEADER.itemsize].view(PAGE_HEADER)[:, 0]["kind"].copy()
            for kind in np.unique(kinds).tolist():
                chosen = np.flatnonzero(kinds == kind)
                of_kind = run if len(chosen) == len(some) else run[chosen]
                edit.write_run(some[chosen], of_kind, kind, lengths[chosen])
        return self.commit()

    @_alone
    def snapshot(self) -> Snapshot:
        """The newest version, registered like any other reader's."""
        self._require_alive()
        return self._open_reader()

    def append(self, records: list[bytes], *, durable: bool = True) -> int:
        """Write to the journal; the last record's number."""
        self._require_alive()
        seq = self._journal.append(records)
        if durable:
            self._flush(seq)
        return seq

    def flush(self) -> int:
        """Make all appended records durable; the number of the last one."""
        self._require_alive()
        return self._flush(None)

    @_alone
    def replay(self) -> list[tuple[int, bytes]]:
        """Durable records that the newest version does not contain yet."""
        self._require_alive()
        return list(self._journal.replay(self.journal_seq))

    @_alone
    def close(self) -> None:
        """Give the lock back. Uncommitted changes are gone. Closing twice is harmless."""
        try:
            if self._ended is None:
                self._drop_edit()
        finally:
            self._end("it was closed")

    def _transaction(self) -> Edit:
        self._require_alive()
        if self._edit is None:
            self._edit = Edit(self._data, self._pages, self._free_space(), self._next_commit_id)
        return self._edit

    def _version(self) -> Snapshot:
        """The newest commit as the writer itself reads it: nobody reuses its pages, so it needs no registration."""
        return Snapshot(self._data, self._commit, self._pages, None)

    def _free_space(self) -> FreeSpace:
        """What may be written now. The pins are looked at here: after the last slot was written, before any reuse."""
        pinned = pinned_commits(self._fs, self._directory, self._data.header)
        kept = [self._pages] if self._other is None else [self._pages, self._other[1]]
        known = {commit.commit_id for commit in (self._commit, *((self._other[0],) if self._other else ()))}
        self._pinned_maps = {c.commit_id: self._map_of(c) for c in pinned or () if c.commit_id not in known}
        kept += list(self._pinned_maps.values())
        can_tell = pinned is not None and all(pages is not _UNREADABLE for pages in kept)
        return FreeSpace(self._commit.n_pages, [pages.reachable() for pages in kept], reuse=can_tell)

    def _map_of(self, pinned: Commit) -> PageMap:
        if pinned.commit_id in self._pinned_maps:
            return self._pinned_maps[pinned.commit_id]
        try:
            return load_map(self._data, pinned)
        except CorruptionError:
            return _UNREADABLE  # whatever that reader reads, nothing is reused under it

    def _install(self, fresh: DataFile, record: Commit) -> None:
        """Put a finished, durable file in the place of the old one, after reading all of it back."""
        written = Snapshot(fresh, record, load_map(fresh, record), None)
        for _ in written.read_all():
            pass  # reading is checking
        with explained("put the new page file in place", self._directory):
            self._fs.rename(f"{self._directory}/{NEW_DATA}", f"{self._directory}/{DATA}")
            self._fs.sync_directory(self._directory)
        self._data.close()
        fresh.renamed(f"{self._directory}/{DATA}")
        self._data = fresh

    def _flush(self, seq: int | None) -> int:
        try:
            return self._journal.flush(seq)
        except OSError as error:
            self._end(f"the journal failed ({error})")
            raise

    def _drop_edit(self) -> None:
        if self._edit is not None and self._edit.data is not self._data:
            self._edit.data.close()
            with explained("remove an unfinished page file", self._directory):
                self._fs.remove(f"{self._directory}/{NEW_DATA}")
        self._edit = None

    @_alone
    def _end(self, why: str) -> None:
        if self._ended is None:
            self._ended = f"{self._directory}: the store is closed because {why}. Open it again to go on."
            if self._edit is not None:
                self._edit.data.close()
            self._journal.close()
            self._data.close()
            self._lock.close()

    def _require_alive(self) -> None:
        if self._ended is not None:
            raise StorageError(self._ended)


_UNREADABLE: Final = PageMap(())
