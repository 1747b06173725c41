"""Who is using the index: the one writer's lock, and the registered snapshots of readers in any process.

    index/writer.lock     locked for as long as a writer lives
    index/reader-000 …    each locked by one reader, and holding its pin: the commit record it reads, without metadata
A lock dies with its owner, so a dead reader needs no cleaning up: its file stays behind unlocked and the next reader
takes it.

Invariant (P7): a reader that has registered reads a commit that was still in its slot *after* its pin was written. The
writer looks at the pins after it has written a slot and before it reuses a page. So whichever came first, the page is
safe: either the slot still protected it, or the pin was seen. FORMAT.md spells out the cases.
"""

from __future__ import annotations

import errno
from typing import Final

from rtree_anon.errors import CorruptionError, LockedError, StorageError
from rtree_anon.storage.files import Access, File, FileSystem, explained, read_available, write_fully
from rtree_anon.storage.layout import (
    BLOCK_BYTES,
    Commit,
    Header,
    commit_file_id,
    decode_commit,
    encode_commit,
    without_metadata,
)

WRITER_LOCK: Final = "writer.lock"
PIN_PREFIX: Final = "reader-"
MAX_READERS: Final = 512
_NOTE_BYTES: Final = 64


def lock_writer(fs: FileSystem, directory: str) -> File:
    """Become the one writer, or say who is."""
    path = f"{directory}/{WRITER_LOCK}"
    with explained("open the writer's lock", path):
        try:
            lock = fs.open(path, Access.WRITE)
        except FileNotFoundError:
            raise StorageError(f"{directory}: there is no index here (no {WRITER_LOCK} in it).") from None
    try:
        with explained("lock the index for writing", path):
            if not lock.try_lock():
                note = bytearray(_NOTE_BYTES)
                read_available(lock, memoryview(note), 0)
                who = note.rstrip(b"\0 ").decode("ascii", "replace") or "another process"
                raise LockedError(
                    f"{directory}: {who} is writing to this index. Wait until it has closed it, or open it for reading."
                )
            # Only a hint for the message above; it need not be durable.
            write_fully(lock, f"process {fs.process_id()}".encode("ascii").ljust(_NOTE_BYTES, b" "), 0)
    except BaseException:
        lock.close()
        raise
    return lock


class Pin:
    """A reader's registration; held until `release`, or until the process dies."""

    def __init__(self, file: File) -> None:
        self._file = file

    @classmethod
    def take(cls, fs: FileSystem, directory: str) -> Pin:
        """Lock a registration file that nobody uses, making one if need be. It does not yet protect anything."""
        for number in range(MAX_READERS):
            path = f"{directory}/{PIN_PREFIX}{number:03d}"
            with explained("register as a reader", path):
                file = _open_or_create(fs, path)
                try:
                    taken = file.try_lock()
                except BaseException:
                    file.close()
                    raise
            if taken:
                return cls(file)
            file.close()
        raise LockedError(f"{directory}: {MAX_READERS} readers are open already. Close some of them.")

    def protect(self, commit: Commit, header: Header) -> None:
        """Write down which commit is being read."""
        with explained("register as a reader", self._file.path):
            write_fully(self._file, encode_commit(without_metadata(commit), header.fanout), 0)

    def release(self) -> None:
        """Stop being a reader."""
        self._file.close()


def pinned_commits(fs: FileSystem, directory: str, header: Header) -> list[Commit] | None:
    """Commits of this data file that living readers hold; None when one cannot be told (so: all must be kept)."""
    pinned = []
    with explained("look for readers", directory):
        names = [name for name in fs.names(directory) if name.startswith(PIN_PREFIX)]
        for name in names:
            file = fs.open(f"{directory}/{name}", Access.WRITE)
            try:
                if file.try_lock():  # nobody reads here; the lock goes back when the file is closed
                    continue
                block = bytearray(BLOCK_BYTES)
                n_read = read_available(file, memoryview(block), 0)
            finally:
                file.close()
            if n_read == 0:
                continue  # it has not chosen yet, and will check its choice against the slots afterwards
            if commit_file_id(block) != header.file_id:
                continue  # it reads a file that this one has replaced, or is about to choose
            try:
                commit = decode_commit(bytes(block[:n_read]), header, file.path)
            except CorruptionError:
                commit = None
            if commit is None:
                return None
            pinned.append(commit)
    return pinned


def _open_or_create(fs: FileSystem, path: str) -> File:
    try:
        return fs.open(path, Access.WRITE)
    except FileNotFoundError:
        try:
            return fs.open(path, Access.CREATE)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
            return fs.open(path, Access.WRITE)  # another reader was quicker
