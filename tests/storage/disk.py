"""A simulated disk behind the storage's file protocols: what was not synced may be lost, torn, garbled or kept, in any
subset.

A file has its durable bytes and the writes since its last sync; a directory has its durable names and the changes
since its last sync (a rename is one change: it happens or not). `crash` makes one of the disks that a power cut could
leave behind. `before` and `after` see every operation, for faults and for crash points. Deterministic, no root,
thousands of images a second.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from rtree_anon.storage.files import Access

CHANGING = {"create", "write", "sync", "make_directory", "rename", "remove", "remove_directory", "sync_directory"}


@dataclass
class Node:
    """A file."""

    durable: bytearray = field(default_factory=bytearray)
    cached: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    locked_by: object | None = None


@dataclass
class Directory:
    """Names; each pending change is a list of (name, node or None) that happens as a whole."""

    durable: dict[str, Node | Directory] = field(default_factory=dict)
    cached: dict[str, Node | Directory] = field(default_factory=dict)
    pending: list[list[tuple[str, Node | Directory | None]]] = field(default_factory=list)

    def change(self, changes: list[tuple[str, Node | Directory | None]]) -> None:
        self.pending.append(changes)
        apply_names(self.cached, changes)


def apply_names(names: dict[str, Node | Directory], changes: list[tuple[str, Node | Directory | None]]) -> None:
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class SimulatedFile:
    """An open handle; survives the renaming or removal of its name."""

    def __init__(self, disk: SimulatedDisk, node: Node, path: str) -> None:
        self._disk, self._node, self.path, self._open = disk, node, path, True
        disk.n_open += 1

    def size(self) -> int:
        return len(self._require_open().cached)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        node = self._require_open()
        self._disk.before("read", self.path)
        piece = node.cached[offset : offset + len(buffer)]
        buffer[: len(piece)] = piece
        return len(piece)

    def write(self, buffer: memoryview, offset: int) -> int:
        node = self._require_open()
        fate = self._disk.before("write", self.path)
        data = bytes(buffer)
        if fate == "short" and len(data) > 1:
            data = data[: len(data) // 2]
        self._disk.last_write = (offset, data)
        node.pending.append(self._disk.last_write)
        overlay(node.cached, offset, data)
        self._disk.after("write", self.path)
        return len(data)

    def sync(self) -> None:
        node = self._require_open()
        try:
            self._disk.before("sync", self.path)
        except OSError:
            # As Linux does: what could not be written is still in the cache, and counts as clean. Only writing it again
            # can make it durable; syncing again succeeds and does nothing.
            node.pending = []
            raise
        for offset, data in node.pending:
            overlay(node.durable, offset, data)
        node.pending = []
        self._disk.after("sync", self.path)

    def try_lock(self) -> bool:
        node = self._require_open()
        self._disk.before("lock", self.path)
        if node.locked_by not in (None, self):
            return False
        node.locked_by = self
        return True

    def unlock(self) -> None:
        if self._node.locked_by is self:
            self._node.locked_by = None

    def close(self) -> None:
        if self._open:
            self._open = False
            self._disk.n_open -= 1
            self.unlock()

    def _require_open(self) -> Node:
        if not self._open:
            raise OSError(errno.EBADF, "the handle is closed", self.path)
        return self._node


def overlay(content: bytearray, offset: int, data: bytes) -> None:
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class SimulatedDisk:
    """Implements `FileSystem`; paths are relative to one root directory."""

    def __init__(self, seed: int = 0) -> None:
        self.root = Directory()
        self.random = random.Random(seed)
        self.n_open = 0
        self.last_write: tuple[int, bytes] = (0, b"")
        self.before: Callable[[str, str], str | None] = lambda operation, path: None
        self.after: Callable[[str, str], None] = lambda operation, path: None

    # ---- the protocol

    def open(self, path: str, access: Access) -> SimulatedFile:
        directory, name = self._parent(path)
        self.before("create" if access is Access.CREATE else "open", path)
        node = directory.cached.get(name)
        if access is Access.CREATE:
            if node is not None:
                raise FileExistsError(errno.EEXIST, "it exists", path)
            node = Node()
            directory.change([(name, node)])
            self.after("create", path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "it is a directory", path)
        return SimulatedFile(self, node, path)

    def make_directory(self, path: str) -> None:
        directory, name = self._parent(path)
        self.before("make_directory", path)
        if name in directory.cached:
            raise FileExistsError(errno.EEXIST, "it exists", path)
        directory.change([(name, Directory())])
        self.after("make_directory", path)

    def rename(self, old: str, new: str) -> None:
        (directory, old_name), (target, new_name) = self._parent(old), self._parent(new)
        assert directory is target, "only renames within a directory are atomic here"
        self.before("rename", new)
        node, replaced = directory.cached[old_name], directory.cached.get(new_name)
        if isinstance(replaced, Directory) and replaced.cached:
            raise OSError(errno.ENOTEMPTY, "it is not empty", new)
        directory.change([(old_name, None), (new_name, node)])
        self.after("rename", new)

    def remove(self, path: str) -> None:
        directory, name = self._parent(path)
        self.before("remove", path)
        if name not in directory.cached:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", path)
        directory.change([(name, None)])
        self.after("remove", path)

    def remove_directory(self, path: str) -> None:
        node = self._find(path)
        self.before("remove_directory", path)
        if not isinstance(node, Directory) or node.cached:
            raise OSError(errno.ENOTEMPTY, "it is not empty", path)
        directory, name = self._parent(path)
        directory.change([(name, None)])
        self.after("remove_directory", path)

    def names(self, path: str) -> list[str]:
        self.before("names", path)
        return sorted(self._directory(path).cached)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), Directory)

    def sync_directory(self, path: str) -> None:
        directory = self._directory(path)
        self.before("sync_directory", path)
        directory.durable, directory.pending = dict(directory.cached), []
        self.after("sync_directory", path)

    def random_bytes(self, n: int) -> bytes:
        return self.random.randbytes(n)

    def process_id(self) -> int:
        return 1

    def pause(self, seconds: float) -> None:
        pass

    # ---- what a test may do to it

    def crash(self, fates: Fates) -> SimulatedDisk:
        """A disk that a power cut at this moment could leave behind; locks and handles are gone."""
        image = SimulatedDisk()
        image.random = self.random  # fresh salts and ids go on being fresh
        made: dict[int, Node | Directory] = {}
        image.root = _after_crash(self.root, fates, made)
        return image

    def copy(self) -> SimulatedDisk:
        """The same files on a disk of their own."""
        return self.crash(Fates(lambda kind: "kept", 0))

    def content(self, path: str) -> bytearray:
        """The bytes of a file, to be flipped in place."""
        node = self._find(path)
        assert isinstance(node, Node)
        return node.cached

    def _find(self, path: str) -> Node | Directory | None:
        node: Node | Directory | None = self.root
        for part in path.split("/"):
            if part in {"", "."}:
                continue
            if not isinstance(node, Directory):
                return None
            node = node.cached.get(part)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._find(path)
        if not isinstance(node, Directory):
            raise FileNotFoundError(errno.ENOENT, "there is no such directory", path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name


class Fates:
    """Decides what a crash does to each pending change, in a fixed order; `taken` tells images apart."""

    def __init__(self, choose: Callable[[str], str], seed: int) -> None:
        self.choose, self.random, self.taken = choose, random.Random(seed), []
        self.torn_write: tuple[int, bytes] | None = None  # this one is cut at exactly this byte
        self.cut = 0
        self.rest: Callable[[bytes], bytes] = lambda lost: b""  # what is behind the cut instead

    def of(self, kind: str) -> str:
        fate = self.choose(kind)
        self.taken.append(fate)
        return fate


def _after_crash(node: Node | Directory, fates: Fates, made: dict[int, Node | Directory]) -> Node | Directory:
    if id(node) in made:
        return made[id(node)]
    if isinstance(node, Directory):
        result = Directory()
        made[id(node)] = result
        names = dict(node.durable)
        for changes in node.pending:
            if fates.of("names") != "lost":
                apply_names(names, changes)
        survivors = {name: _after_crash(inner, fates, made) for name, inner in names.items()}
        result.durable, result.cached = survivors, dict(survivors)
        return result
    content = bytearray(node.durable)
    for write in node.pending:
        if write is fates.torn_write:
            offset, data = write
            overlay(content, offset, data[: fates.cut] + fates.rest(data[fates.cut :]))
        else:
            _write_after_crash(content, *write, fates)
    made[id(node)] = survivor = Node(content, bytearray(content))
    return survivor


def _write_after_crash(content: bytearray, offset: int, data: bytes, fates: Fates) -> None:
    fate = fates.of("write")
    if fate == "kept":
        overlay(content, offset, data)
    elif fate == "torn":
        cut = fates.random.randrange(len(data) + 1)
        fates.taken.append(str(cut))
        overlay(content, offset, data[:cut])
    elif fate == "torn tail":  # the end arrived and the beginning did not
        cut = fates.random.randrange(len(data) + 1)
        fates.taken.append(str(cut))
        overlay(content, offset + cut, data[cut:])
    elif fate == "garbage":
        overlay(content, offset, fates.random.randbytes(len(data)))
    elif fate == "zeros":  # the length arrived and the data did not
        overlay(content, offset, bytes(len(data)))
    elif fate == "sectors":
        for start in range(0, len(data), 512):
            if fates.random.random() < 0.5:
                overlay(content, offset + start, data[start : start + 512])
    else:
        assert fate == "lost"


def torn_fates(write: tuple[int, bytes], cut: int, names: str, rest: Callable[[bytes], bytes]) -> Fates:
    """Everything else arrives; this write is cut."""
    fates = Fates(lambda kind: names if kind == "names" else "kept", cut)
    fates.torn_write, fates.cut, fates.rest = write, cut, rest
    return fates


WRITE_FATES = ("lost", "kept", "torn", "torn tail", "garbage", "zeros", "sectors")


def crash_fates(number: int, seed: int) -> Fates:
    """The outcome `number` of a crash point: the extremes first, then random mixtures."""
    rng = random.Random(seed * 1_000_003 + number)
    if number == 0:
        return Fates(lambda kind: "lost", seed)
    if number == 1:
        return Fates(lambda kind: "kept", seed)
    if number == 2:  # names arrive before the data that they stand for
        return Fates(lambda kind: "kept" if kind == "names" else "lost", seed)
    if number == 3:
        return Fates(lambda kind: "kept" if kind == "names" else "garbage", seed)
    if number == 4:
        return Fates(lambda kind: "kept" if kind == "names" else "torn", seed + number)
    return Fates(
        lambda kind: rng.choice(WRITE_FATES) if kind == "write" else rng.choice(("lost", "kept")), seed + number
    )
