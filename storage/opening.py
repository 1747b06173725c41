"""Creating and opening an index directory: which version counts, and what is left over from a crash.

    index/data  journal  writer.lock  reader-000 …          (data.new and journal.new only while they are being written)
Which version: the valid commit slot with the higher number. If the journal names a later commit as durable, the newest
record is damaged and going back to an older one is an error, unless the caller asks for it (P6). Nothing is replayed
or undone for pages. Opening for writing ends with a fresh journal, so that everything that was found is durable before
it is built upon.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import PathLike, fspath
from typing import Final

from rtree_anon.errors import CorruptionError, StorageError, UsageError
from rtree_anon.storage.datafile import DataFile, Slots
from rtree_anon.storage.files import OPERATING_SYSTEM, Access, FileSystem, explained, parent_and_name
from rtree_anon.storage.frames import read_journal_header
from rtree_anon.storage.journal import NEW_JOURNAL, Journal, open_journal_file
from rtree_anon.storage.layout import DEFAULT_PAGE_BYTES, NO_PAGE, Commit, Header, is_page_size
from rtree_anon.storage.pagemap import PageMap, load_map
from rtree_anon.storage.readers import WRITER_LOCK, Pin, lock_writer
from rtree_anon.storage.snapshot import Snapshot
from rtree_anon.storage.store import DATA, NEW_DATA, DiskStore

# A reader that meets a commit in the making looks again; a commit record is written in microseconds.
_READER_ATTEMPTS: Final = 100
_ATTEMPTS_BEFORE_BELIEVING: Final = 5  # that what looks like damage is not a commit in the making, seen in two halves
_READER_PAUSE_SECONDS: Final = 0.005


def create_store(
    path: str | PathLike[str], *, page_bytes: int = DEFAULT_PAGE_BYTES, fs: FileSystem = OPERATING_SYSTEM
) -> DiskStore:
    """Make a new, empty index directory and open it for writing. It is there completely or not at all."""
    if not is_page_size(page_bytes):
        raise UsageError(f"A page size of {page_bytes} bytes is not possible; use a power of two from 512 to 1048576.")
    target = fspath(path).rstrip("/")
    parent, name = parent_and_name(target)
    if fs.exists(target):
        raise UsageError(f"{target} exists already. Choose another path, or remove it first.")
    making = f"{parent}/.{name}.creating-{fs.random_bytes(8).hex()}"
    with explained("create the index", target):
        fs.make_directory(making)
        try:
            store_id, file_id = fs.random_bytes(16), fs.random_bytes(16)
            fs.open(f"{making}/{WRITER_LOCK}", Access.CREATE).close()
            data = DataFile.create(fs, f"{making}/{DATA}", Header(page_bytes, store_id, file_id))
            try:
                data.write_commit(Commit(1, 0, 0, NO_PAGE, 0, 0, 0, file_id, {}))
                data.sync()
            finally:
                data.close()
            Journal.create(fs, making, store_id, 1).close()
            fs.sync_directory(making)
            if fs.exists(target):
                raise UsageError(f"{target} was made by somebody else just now. Choose another path.")
            fs.rename(making, target)
        except BaseException:
            _remove_remains(fs, making)
            raise
        fs.sync_directory(parent)
    return open_store(target, fs=fs)


def open_store(
    path: str | PathLike[str], *, allow_rollback: bool = False, fs: FileSystem = OPERATING_SYSTEM
) -> DiskStore:
    """Become the one writer of an index. LockedError if another handle is; CorruptionError for damage."""
    directory = fspath(path)
    lock = lock_writer(fs, directory)
    opened: list[Callable[[], None]] = [lock.close]
    try:
        data = DataFile.open(fs, f"{directory}/{DATA}", Access.WRITE)
        opened.append(data.close)
        journal = Journal.open(fs, directory, data.header.store_id)
        opened.append(journal.close)
        slots = data.read_slots()
        durable = journal.header.durable_commit
        commit = _newest(slots, durable, directory, allow_rollback=allow_rollback)
        pages = load_map(data, commit)
        other = _other_version(data, slots, commit)
        lost = commit.commit_id < durable or commit.journal_seq + 1 < journal.header.first_seq
        _require_no_hole(journal, commit, directory, lost=lost, allow_rollback=allow_rollback)
        if commit.commit_id > durable and other is not None:
            # Never acknowledged: a sync may have failed, and what we read may be in memory only. Writing it again is
            # safe, because the commit before it is whole; if this is torn, the store is that commit, as it may be.
            data.write_commit(commit)
        data.sync()
        for leftover in (NEW_DATA, NEW_JOURNAL):
            with explained("remove what a crash left behind", f"{directory}/{leftover}"):
                if fs.exists(f"{directory}/{leftover}"):
                    fs.remove(f"{directory}/{leftover}")
        journal.rotate(commit.commit_id, commit.journal_seq, discard=lost)
        return DiskStore(
            fs,
            directory,
            lock,
            data,
            journal,
            (commit, pages, slots.checksum_of(commit)),
            other,
            partial(open_snapshot, directory, fs=fs),
            _next_commit_id(commit.commit_id, durable),
        )
    except BaseException:
        for close in reversed(opened):
            close()
        raise


def open_snapshot(
    path: str | PathLike[str],
    *,
    allow_rollback: bool = False,
    register: bool = True,
    fs: FileSystem = OPERATING_SYSTEM,
) -> Snapshot:
    """Open the newest durable version for reading, registered so that the writer leaves its pages alone.

    Without `register` nothing is written anywhere, and the version is only safe while nobody writes.
    """
    directory = fspath(path)
    pin = Pin.take(fs, directory) if register else None
    try:
        for attempt in range(_READER_ATTEMPTS):
            snapshot = _try_snapshot(
                fs, directory, pin, allow_rollback=allow_rollback, patient=attempt < _ATTEMPTS_BEFORE_BELIEVING
            )
            if snapshot is not None:
                return snapshot
            fs.pause(_READER_PAUSE_SECONDS)
        raise StorageError(f"{directory}: the writer commits faster than a reader can begin. Try again.")
    except BaseException:
        if pin is not None:
            pin.release()
        raise


def _try_snapshot(
    fs: FileSystem, directory: str, pin: Pin | None, *, allow_rollback: bool, patient: bool
) -> Snapshot | None:
    """One attempt; None when the slots changed under it, or (if `patient`) seem to have.

    The journal is looked at before the data file: what it names as durable then must be found there (P6).
    """
    journal = open_journal_file(fs, directory)
    try:
        journal_header = read_journal_header(journal)
    finally:
        journal.close()
    data = DataFile.open(fs, f"{directory}/{DATA}", Access.READ)
    try:
        if journal_header.store_id != data.header.store_id:
            raise CorruptionError(f"{directory}: the journal belongs to another index.")
        slots = data.read_slots()
        durable = journal_header.durable_commit
        acknowledged = slots.by_parity[durable % 2]
        if acknowledged is not None and acknowledged.commit_id == durable:
            commit = acknowledged
        else:
            if patient and not _is_next_to(slots, durable):
                data.close()
                return None
            commit = _newest(slots, durable, directory, allow_rollback=allow_rollback)
            if commit.commit_id > durable:
                data.sync()  # its writer died, or is about to acknowledge it: it may be read only once it is durable
                with explained("make the newest version durable", directory):
                    fs.sync_directory(directory)
        if pin is not None:
            pin.protect(commit, data.header)
            if not data.read_slots().holds(commit):
                data.close()
                return None
        return Snapshot(data, commit, load_map(data, commit), pin)
    except BaseException:
        data.close()
        raise


def _newest(slots: Slots, durable: int, directory: str, *, allow_rollback: bool) -> Commit:
    """The version that counts (P2), or an error if it is older than what was once acknowledged (P6)."""
    valid = slots.valid()
    if not valid:
        raise CorruptionError(f"{directory}: neither commit record can be read. Restore the index from a copy.")
    commit = valid[0]
    if commit.commit_id < durable and not allow_rollback:
        raise CorruptionError(
            f"{directory}: version {durable} was durable, but its commit record is damaged; the newest readable one is"
            f" {commit.commit_id}. Restore the index from a copy, or open it with allow_rollback to go back."
        )
    if commit.commit_id > durable + 1 and not allow_rollback:
        raise CorruptionError(
            f"{directory}: the journal names version {durable}, but the pages are at {commit.commit_id}: not of one"
            " moment. Restore both from one copy, or open with allow_rollback to go on without the journal."
        )
    return commit


def _other_version(data: DataFile, slots: Slots, commit: Commit) -> tuple[Commit, PageMap] | None:
    """The commit in the other slot, whose pages are kept until its slot is written; None if nobody can return to it."""
    other = slots.by_parity[1 - commit.commit_id % 2]
    if other is None:
        return None
    try:
        return other, load_map(data, other)
    except CorruptionError:
        return None


def _require_no_hole(journal: Journal, commit: Commit, directory: str, *, lost: bool, allow_rollback: bool) -> None:
    if lost and not allow_rollback:
        raise CorruptionError(
            f"{directory}: the journal begins with record {journal.header.first_seq}, but the newest version has only"
            f" those up to {commit.journal_seq}: some are missing. Restore both from a copy, or allow_rollback."
        )


def _next_commit_id(newest: int, durable: int) -> int:
    """Above everything ever acknowledged, and never in the slot that holds the newest version."""
    following = max(newest, durable) + 1
    return following if following % 2 != newest % 2 else following + 1


def _is_next_to(slots: Slots, durable: int) -> bool:
    """Whether the newest version is the acknowledged one or its successor, as it is unless damaged or being written."""
    valid = slots.valid()
    return bool(valid) and durable <= valid[0].commit_id <= durable + 1


def _remove_remains(fs: FileSystem, directory: str) -> None:
    """After a failed creation: leave nothing behind, as far as the disk still lets us."""
    try:
        for name in fs.names(directory):
            fs.remove(f"{directory}/{name}")
        fs.remove_directory(directory)
    except OSError:
        return  # the reason for which creation failed is the one to report
