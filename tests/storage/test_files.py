"""The one module that calls the operating system: no links, no FIFOs, no inherited or leaked handles, full syncs."""

from __future__ import annotations

import ast
import errno
import fcntl
import os
from pathlib import Path

import pytest

import rtree_anon.storage
from rtree_anon.errors import StorageError
from rtree_anon.storage import create_store, open_store
from rtree_anon.storage.files import OPERATING_SYSTEM as OS
from rtree_anon.storage.files import Access, explained, read_available, write_fully


def test_only_one_module_calls_the_operating_system():
    allowed = {"fspath", "PathLike"}
    for path in Path(rtree_anon.storage.__file__).parent.glob("*.py"):
        if path.name == "files.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {"os", "io", "fcntl", "shutil", "socket", "mmap", "tempfile", "pathlib", "time"} & set(names), (
                path
            )
            if isinstance(node, ast.ImportFrom) and node.module == "os":
                assert {alias.name for alias in node.names} <= allowed, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "open", path


def test_links_fifos_and_directories_are_refused_at_once(tmp_path):
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    for name in ("link", "fifo", "directory"):
        for access in (Access.READ, Access.WRITE):
            with pytest.raises(OSError):
                OS.open(str(tmp_path / name), access).close()
    with pytest.raises(FileExistsError):
        OS.open(str(tmp_path / "link"), Access.CREATE)


def test_an_index_whose_files_are_links_is_refused(tmp_path):
    create_store(tmp_path / "index").close()
    (tmp_path / "index" / "data").rename(tmp_path / "elsewhere")
    (tmp_path / "index" / "data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="symbolic link"):
        open_store(tmp_path / "index")


def test_handles_are_not_inherited_and_close_twice(tmp_path):
    file = OS.open(str(tmp_path / "file"), Access.CREATE)
    assert not os.get_inheritable(file._descriptor)
    write_fully(file, b"hello", 3)
    assert file.size() == 8
    buffer = bytearray(20)
    assert read_available(file, memoryview(buffer), 2) == 6
    file.sync()
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.size()


def test_locks_belong_to_the_handle_and_not_to_the_process(tmp_path):
    one = OS.open(str(tmp_path / "lock"), Access.CREATE)
    two = OS.open(str(tmp_path / "lock"), Access.WRITE)
    three = OS.open(str(tmp_path / "lock"), Access.WRITE)
    assert one.try_lock()
    assert not two.try_lock()
    three.close()  # with POSIX locks this would drop the lock of the first handle
    assert not two.try_lock()
    one.unlock()
    assert two.try_lock()
    two.close()
    assert one.try_lock()
    one.close()


def test_a_lock_that_fails_for_another_reason_is_an_error(tmp_path, monkeypatch):
    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    file = OS.open(str(tmp_path / "lock"), Access.CREATE)
    monkeypatch.setattr(fcntl, "fcntl", fail)
    with pytest.raises(OSError, match="no locks available"):
        file.try_lock()
    file.close()


def test_without_open_file_description_locks_flock_does_the_same(tmp_path, monkeypatch):
    monkeypatch.delattr(fcntl, "F_OFD_SETLK")
    test_locks_belong_to_the_handle_and_not_to_the_process(tmp_path)
    (tmp_path / "lock").unlink()


@pytest.mark.parametrize("way", ["full sync", "fdatasync", "fsync"])
def test_the_strongest_sync_that_the_system_has_is_used(tmp_path, monkeypatch, way):
    calls = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    if way == "full sync":
        monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
        monkeypatch.setattr(
            fcntl, "fcntl", lambda descriptor, command: calls.append("full sync" if command == 51 else "?")
        )
    elif way == "fdatasync":
        monkeypatch.setattr(os, "fdatasync", lambda descriptor: calls.append("fdatasync"))
    else:
        monkeypatch.delattr(os, "fdatasync")
    file = OS.open(str(tmp_path / "file"), Access.CREATE)
    file.sync()
    file.close()
    assert calls == [way]


def test_names_directories_and_the_rest(tmp_path):
    base = str(tmp_path / "d")
    OS.make_directory(base)
    assert OS.is_directory(base)
    OS.open(f"{base}/b", Access.CREATE).close()
    OS.open(f"{base}/a", Access.CREATE).close()
    assert OS.names(base) == ["a", "b"]
    OS.rename(f"{base}/a", f"{base}/c")
    OS.sync_directory(base)
    assert OS.exists(f"{base}/c")
    assert not OS.exists(f"{base}/a")
    OS.remove(f"{base}/b")
    OS.remove(f"{base}/c")
    OS.remove_directory(base)
    assert not OS.exists(base)
    assert len(OS.random_bytes(9)) == 9
    assert OS.process_id() == os.getpid()
    OS.pause(0.0)


def test_a_write_that_does_nothing_is_an_error():
    class Stuck:
        path = "stuck"

        def write(self, buffer: memoryview, offset: int) -> int:
            return 0

    with pytest.raises(OSError, match="wrote nothing"):
        write_fully(Stuck(), b"x", 0)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "device reports"),
        (errno.EBADF, "descriptor"),
    ],
)
def test_errors_say_what_where_and_what_helps(code, advice):
    with (
        pytest.raises(StorageError, match=f"some/file: could not do it: .*{advice}") as found,
        explained("do it", "some/file"),
    ):
        raise OSError(code, os.strerror(code), "some/file")
    assert isinstance(found.value.__cause__, OSError)
    with pytest.raises(StorageError, match=r"could not do it: odd\."), explained("do it", "x"):
        raise OSError("odd")
    with pytest.raises(StorageError, match=r"^as it was$"), explained("do it", "x"):
        raise StorageError("as it was")


def test_no_handle_is_leaked_by_a_life_of_a_store(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    with create_store(tmp_path / "index", page_bytes=512) as store:
        store.write(store.allocate(), b"x", 16)
        store.commit()
        with store.snapshot() as snapshot:
            snapshot.read(0)
        store.compact()
        store.append([b"r"])
        store.rebuild()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == [
        "data",
        "journal",
        "reader-000",
        "writer.lock",
    ]
