"""The one module that calls the operating system: files, directories, syncs, locks, randomness.

Everything else in storage/ speaks to the two protocols `FileSystem` and `File`, so that the tests can put a simulated
disk behind them that loses, tears and reorders what was not synced. The primitives are as weak as the system calls
are: `write` and `read_into` may do less than asked; `write_fully` and `read_exactly` close that gap for everybody.

Invariants: a file opened here is a regular file and not a symbolic link (so nothing is written outside the directory
that the caller named, and no FIFO can hang us); descriptors are not inherited by executed programs; a lock belongs to
the open file description, not to the process, so reader and writer in one process exclude each other and the kernel
drops it on death.
"""

from __future__ import annotations

import enum
import errno
import fcntl
import os
import stat
import struct
import time
from typing import Final, Protocol

from rtree_anon.errors import StorageError, UsageError


class Access(enum.Enum):
    """How a file is opened: to read it, to change it, or to make it (it must not exist)."""

    READ = enum.auto()
    WRITE = enum.auto()
    CREATE = enum.auto()


class File(Protocol):
    """An open file. Every method may raise OSError."""

    path: str

    def size(self) -> int:
        """Length in bytes."""

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Read at most ``len(buffer)`` bytes at `offset`; the count, 0 at the end of the file."""

    def write(self, buffer: memoryview, offset: int) -> int:
        """Write at most ``len(buffer)`` bytes at `offset`, growing the file; the count, perhaps short."""

    def sync(self) -> None:
        """Return when everything written to this file, and its length, would survive a power cut."""

    def try_lock(self) -> bool:
        """Take the exclusive lock on this file unless another handle has it; False if it has."""

    def unlock(self) -> None:
        """Give the lock back."""

    def close(self) -> None:
        """Close; gives the lock back as well. Closing twice is harmless."""


class FileSystem(Protocol):
    """Names and directories. Every method may raise OSError."""

    def open(self, path: str, access: Access) -> File:
        """Open a regular file; never follows a symbolic link in the last component."""

    def make_directory(self, path: str) -> None:
        """Make one directory; it must not exist."""

    def rename(self, old: str, new: str) -> None:
        """Give `old` the name `new` atomically, replacing a file (or an empty directory) of that name."""

    def remove(self, path: str) -> None:
        """Remove a file's name."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def names(self, path: str) -> list[str]:
        """Names in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Whether the name exists (a dangling symbolic link does)."""

    def is_directory(self, path: str) -> bool:
        """Whether the name is a directory, or a link to one."""

    def sync_directory(self, path: str) -> None:
        """Return when the names in this directory would survive a power cut."""

    def random_bytes(self, n: int) -> bytes:
        """Unpredictable bytes, for salts and identifiers."""

    def process_id(self) -> int:
        """Who we are; only ever shown to people."""

    def pause(self, seconds: float) -> None:
        """Let others go on."""


_FLAGS: Final = {
    Access.READ: os.O_RDONLY,
    Access.WRITE: os.O_RDWR,
    Access.CREATE: os.O_RDWR | os.O_CREAT | os.O_EXCL,
}
# Without O_NONBLOCK, opening a FIFO that somebody put in our place would wait for ever.
_ALWAYS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# struct flock as Linux and Python's fcntl want it: type, whence, start, length, pid (0 for open-file-description
# locks).
_FLOCK: Final = struct.Struct("hhqqi4x")
_BUSY: Final = frozenset({errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK})
_ADVICE: Final = {
    errno.ENOSPC: " The disk is full: make room and try again.",
    errno.EDQUOT: " The disk quota is used up: make room and try again.",
    errno.EACCES: " Check the permissions of the file and its directory.",
    errno.EROFS: " The file system is read-only.",
    errno.EIO: " The device reports an error: check it before trusting it with more data.",
    errno.EMFILE: " Too many files are open in this process.",
    errno.ELOOP: " It is a symbolic link, which is not followed here.",
}


class _SystemFile:
    """A descriptor of the operating system behind the `File` protocol."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_into(self, buffer: memoryview, offset: int) -> int:
        return os.preadv(self._descriptor, [buffer], offset)

    def write(self, buffer: memoryview, offset: int) -> int:
        return os.pwrite(self._descriptor, buffer, offset)

    def sync(self) -> None:
        full_sync: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache
        if full_sync is not None:
            fcntl.fcntl(self._descriptor, full_sync)
        elif hasattr(os, "fdatasync"):
            os.fdatasync(self._descriptor)  # POSIX: includes the length, which is needed to read the data back
        else:
            os.fsync(self._descriptor)

    def try_lock(self) -> bool:
        try:
            self._lock(fcntl.F_WRLCK, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _BUSY:
                return False
            raise
        return True

    def unlock(self) -> None:
        self._lock(fcntl.F_UNLCK, fcntl.LOCK_UN)

    def _lock(self, kind: int, flock_operation: int) -> None:
        set_lock: int | None = getattr(fcntl, "F_OFD_SETLK", None)
        if set_lock is not None:
            fcntl.fcntl(self._descriptor, set_lock, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
        else:
            fcntl.flock(self._descriptor, flock_operation)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OperatingSystem:
    """The real disk behind the `FileSystem` protocol."""

    def open(self, path: str, access: Access) -> File:
        descriptor = os.open(path, _FLAGS[access] | _ALWAYS, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        return _SystemFile(descriptor, path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path)  # noqa: PTH102 -- this module is where paths meet system calls

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)  # noqa: PTH104

    def remove(self, path: str) -> None:
        os.unlink(path)  # noqa: PTH108

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)  # noqa: PTH106

    def names(self, path: str) -> list[str]:
        return sorted(os.listdir(path))  # noqa: PTH208

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def random_bytes(self, n: int) -> bytes:
        return os.urandom(n)

    def process_id(self) -> int:
        return os.getpid()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


OPERATING_SYSTEM: Final[FileSystem] = OperatingSystem()


def parent_and_name(path: str) -> tuple[str, str]:
    """The directory that a new thing goes into, and its name there; UsageError if there is no name in the path."""
    parent, _, name = path.rstrip("/").rpartition("/")
    if name in {"", ".", ".."} or "\0" in path:
        raise UsageError(f"{path!r} cannot be the path of a new file or directory.")
    return parent or ("/" if path.startswith("/") else "."), name


def write_fully(file: File, buffer: bytes | bytearray | memoryview, offset: int) -> None:
    """Write all of `buffer` at `offset`, however short the single writes are."""
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    if view.ndim != 1 or view.itemsize != 1:
        view = view.cast("B")
    n_left = len(view)
    while n_left:
        n_written = file.write(view, offset)
        if n_written <= 0:
            raise OSError(errno.EIO, "the system wrote nothing and gave no reason", file.path)
        n_left -= n_written
        if n_left:
            view, offset = view[n_written:], offset + n_written


def read_available(file: File, buffer: memoryview, offset: int) -> int:
    """Read until `buffer` is full or the file ends; the count."""
    n_read = 0
    while n_read < len(buffer):
        step = file.read_into(buffer[n_read:] if n_read else buffer, offset + n_read)
        if step <= 0:
            break
        n_read += step
    return n_read


class explained:  # noqa: N801 -- reads as a verb: with explained("write pages", path): ...
    """Turn the system's OSError into a StorageError that says what was being done, to which file, and what helps."""

    __slots__ = ("_doing", "_path")

    def __init__(self, doing: str, path: str) -> None:
        self._doing, self._path = doing, path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, StorageError):
            advice = _ADVICE.get(error.errno or 0, "")
            reason = error.strerror or error
            raise StorageError(f"{self._path}: could not {self._doing}: {reason}.{advice}") from error
