"""Publishing: a directory of release files that becomes visible all at once and durably, or not at all (P11).

    .out.publishing-1f0c…/ ─► files ─► sync each ─► manifest, synced ─► sync directory ─► rename to out/ ─► sync parent
The manifest, ``manifest.json``, holds the caller's facts, the length and SHA-256 of every file, and a SHA-256 of
itself, in one canonical form: any flipped bit in it, or in a file it names, is found by `read_publication`.

Invariant: nothing is ever written outside the temporary directory (names are checked), and the target's name never
shows a directory in which a file is missing, short or unsynced. A killed process leaves a ``.….publishing-…``
directory; nothing looks at it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from os import PathLike, fspath
from typing import Any, Final, Self

from rtree_anon.errors import CorruptionError, StorageError, UsageError
from rtree_anon.storage.files import (
    OPERATING_SYSTEM,
    Access,
    FileSystem,
    explained,
    parent_and_name,
    read_available,
    write_fully,
)

MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 16 << 20
MAX_NAME_BYTES: Final = 200
_OWN_DIGEST: Final = "manifest_sha256"
_FORBIDDEN: Final = frozenset('/\\:*?"<>|')
_DEVICES: Final = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))})
_PIECE_BYTES: Final = 1 << 20


def require_file_name(name: str) -> str:
    """`name` if it is a plain file name on every system we know; UsageError otherwise."""
    try:
        n_bytes = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        n_bytes = 0
    if not 0 < n_bytes <= MAX_NAME_BYTES:
        raise UsageError(f"{name!r} cannot be a file name: it has to have 1 to {MAX_NAME_BYTES} bytes of valid text.")
    if any(letter in _FORBIDDEN or not letter.isprintable() for letter in name):
        raise UsageError(
            f"{name!r} cannot be a file name: it has a separator or another character that is not allowed."
        )
    if name.startswith((".", " ", "-", "~")) or name.endswith((".", " ")):
        raise UsageError(f"{name!r} cannot be a file name: it begins or ends with a character that is not allowed.")
    if name.split(".")[0].lower() in _DEVICES:
        raise UsageError(f"{name!r} cannot be a file name: it means a device on some systems.")
    return name


class Publication:
    """Files on their way into a new directory; a context manager that leaves nothing unless `finish` was called."""

    def __init__(self, target: str | PathLike[str], *, fs: FileSystem = OPERATING_SYSTEM) -> None:
        self._fs, self._target = fs, fspath(target).rstrip("/")
        self._parent, name = parent_and_name(self._target)
        _require_absent(fs, self._target)
        self._making = f"{self._parent}/.{name}.publishing-{fs.random_bytes(8).hex()}"
        self._names: list[str] = []
        self._open = True
        with explained("prepare the output directory", self._target):
            fs.make_directory(self._making)

    def path(self, name: str) -> str:
        """Where to write the file `name`; it need not be synced, only closed before `finish`."""
        if require_file_name(name).casefold() in {known.casefold() for known in (*self._names, MANIFEST)}:
            raise UsageError(f"The file {name!r} is already part of this output.")
        self._names.append(name)
        return f"{self._making}/{name}"

    def write(self, name: str, content: bytes) -> None:
        """Add a file with this content."""
        _write_file(self._fs, self.path(name), content)

    def finish(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Make everything durable, then visible; the manifest as it was written."""
        if not self._open:
            raise UsageError(f"{self._target}: this output is finished or was given up.")
        if reserved := {"files", _OWN_DIGEST} & manifest.keys():
            raise UsageError(f"The manifest key {sorted(reserved)[0]!r} is reserved.")
        fs = self._fs
        with explained("publish the output", self._target):
            unexpected = set(fs.names(self._making)) ^ set(self._names)
            if unexpected:
                raise StorageError(
                    f"{self._making}: the file {sorted(unexpected)[0]!r} is missing or was not announced."
                )
            files = {name: _digest(fs, f"{self._making}/{name}", sync=True) for name in self._names}
            complete = _with_digest({**manifest, "files": files})
            _write_file(fs, f"{self._making}/{MANIFEST}", _canonical(complete))
            fs.sync_directory(self._making)
            _require_absent(fs, self._target)
            fs.rename(self._making, self._target)
            self._open = False
            fs.sync_directory(self._parent)
        return complete

    def abort(self) -> None:
        """Remove what was written."""
        if self._open:
            self._open = False
            with explained("remove an unfinished output", self._making):
                for name in self._fs.names(self._making):
                    self._fs.remove(f"{self._making}/{name}")
                self._fs.remove_directory(self._making)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        try:
            self.abort()
        except StorageError:
            if kind is None:  # otherwise the first error is the one to report
                raise


def publish_file(
    target: str | PathLike[str],
    write: Callable[[str], None],
    *,
    replace: bool = False,
    fs: FileSystem = OPERATING_SYSTEM,
) -> None:
    """Let `write` make one file at the path it is given, then show it under the name `target`, complete and durable."""
    path = fspath(target)
    parent, name = parent_and_name(path)
    if not replace and fs.exists(path):
        raise UsageError(f"{path} exists already. Choose another path, or allow replacing it.")
    making = f"{parent}/.publishing-{fs.random_bytes(8).hex()}-{name}"  # it ends as the target does
    try:
        write(making)
        with explained("publish the file", path):
            file = fs.open(making, Access.READ)
            try:
                file.sync()
            finally:
                file.close()
            fs.rename(making, path)
            fs.sync_directory(parent)
    except BaseException:
        try:
            if fs.exists(making):
                fs.remove(making)
        except OSError:
            pass  # the first error is the one to report
        raise


def read_publication(directory: str | PathLike[str], *, fs: FileSystem = OPERATING_SYSTEM) -> dict[str, Any]:
    """The manifest of a published directory, after checking it and every file that it names."""
    where = fspath(directory).rstrip("/")
    path = f"{where}/{MANIFEST}"
    with explained("read the manifest", path):
        file = fs.open(path, Access.READ)
        try:
            n_bytes = file.size()
            if n_bytes > MAX_MANIFEST_BYTES:
                raise CorruptionError(f"{path}: a manifest of {n_bytes} bytes is not ours.")
            content = bytearray(n_bytes)
            read_available(file, memoryview(content), 0)
        finally:
            file.close()
    manifest = _decode(bytes(content), path)
    for name, expected in manifest["files"].items():
        with explained("read the published file", f"{where}/{name}"):
            if _digest(fs, f"{where}/{name}", sync=False) != expected:
                raise CorruptionError(f"{where}/{name}: the file is not the one that was published; do not use it.")
    return manifest


def _decode(content: bytes, path: str) -> dict[str, Any]:
    damaged = CorruptionError(f"{path}: the manifest is damaged.")
    try:
        manifest = json.loads(content)
        if not isinstance(manifest, dict) or _canonical(_with_digest(manifest)) != content:
            raise damaged
        files = manifest["files"]
        if not isinstance(files, dict):
            raise damaged
        for name in files:
            require_file_name(name)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged from error
    return manifest


def _with_digest(manifest: dict[str, Any]) -> dict[str, Any]:
    facts = {key: value for key, value in manifest.items() if key != _OWN_DIGEST}
    return {**facts, _OWN_DIGEST: hashlib.sha256(_canonical(facts)).hexdigest()}


def _canonical(manifest: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(manifest, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
        return (text + "\n").encode("utf-8")
    except (TypeError, ValueError) as error:
        raise UsageError(f"The manifest cannot be written as JSON: {error}.") from error


def _digest(fs: FileSystem, path: str, *, sync: bool) -> dict[str, Any]:
    file = fs.open(path, Access.READ)
    try:
        digest, at, buffer = hashlib.sha256(), 0, memoryview(bytearray(_PIECE_BYTES))
        while n_read := read_available(file, buffer, at):
            digest.update(buffer[:n_read])
            at += n_read
        if sync:
            file.sync()
    finally:
        file.close()
    return {"bytes": at, "sha256": digest.hexdigest()}


def _write_file(fs: FileSystem, path: str, content: bytes) -> None:
    with explained("write the file", path):
        file = fs.open(path, Access.CREATE)
        try:
            write_fully(file, content, 0)
            file.sync()
        finally:
            file.close()


def _require_absent(fs: FileSystem, target: str) -> None:
    with explained("look at the output directory", target):
        if fs.exists(target) and not (fs.is_directory(target) and not fs.names(target)):
            raise UsageError(f"{target} exists already. Choose another path, or remove it first.")
