"""Syncing the open transaction from another thread: harmless at any moment, and its error ends the store (P8)."""

from __future__ import annotations

import errno
import threading

import numpy as np
import pytest

from rtree_anon.errors import StorageError
from rtree_anon.storage import create_store, open_store, verify_store
from rtree_anon.storage.page import empty_run, payloads
from tests.storage.disk import SimulatedDisk, crash_fates


def failing_sync(operation: str, path: str) -> None:
    if operation == "sync" and path.endswith(("/data", "/data.new")):
        raise OSError(errno.EIO, "injected", path)


def committed_and_open(*, rebuild: bool = False):
    disk = SimulatedDisk()
    store = create_store("index", page_bytes=512, fs=disk)
    store.write(store.allocate(), b"kept", 16)
    store.commit()
    if rebuild:
        store.rebuild()
    store.write(store.allocate(), b"new", 16)
    return disk, store


def test_it_syncs_the_pages_of_the_open_transaction_and_only_then():
    disk = SimulatedDisk()
    store = create_store("index", page_bytes=512, fs=disk)
    synced: list[str] = []
    disk.before = lambda operation, path: synced.append(path) if operation == "sync" else None
    store.sync_ahead()
    assert synced == []
    store.write(store.allocate(), b"x", 16)
    store.sync_ahead()
    assert synced == ["index/data"]
    store.abort()
    store.rebuild()
    store.sync_ahead()
    assert synced == ["index/data", "index/data.new"]
    store.close()
    with pytest.raises(StorageError, match="it was closed"):
        store.sync_ahead()


@pytest.mark.parametrize("rebuild", [False, True], ids=["in place", "rebuild"])
def test_an_error_of_syncing_ahead_ends_the_store(rebuild):
    disk, store = committed_and_open(rebuild=rebuild)
    disk.before = failing_sync
    with pytest.raises(StorageError, match="could not make the page file durable"):
        store.sync_ahead()
    disk.before = lambda operation, path: None
    for act in (store.commit, store.abort, store.allocate, store.sync_ahead, store.snapshot, store.flush):
        with pytest.raises(StorageError, match="syncing ahead failed"):
            act()
    assert disk.n_open == 0
    with open_store("index", fs=disk) as again:
        assert [bytes(again.read(page_id)) for page_id in again.page_ids().tolist()] == [b"kept"]


def test_a_commit_does_not_believe_its_own_sync_after_another_one_failed():
    """Between the failure in the one thread and the end of the store, the other may already be inside `commit`."""
    disk, store = committed_and_open()
    edit = store._edit
    assert edit is not None
    disk.before = failing_sync
    with pytest.raises(StorageError, match="injected"):
        edit.data.sync_ahead()
    disk.before = lambda operation, path: None
    with pytest.raises(StorageError, match="an earlier sync of the page file failed"):
        store.commit()
    with open_store("index", fs=disk.crash(crash_fates(0, 0))) as again:
        assert len(again.page_ids()) == 1


def test_the_file_is_not_closed_while_it_is_synced():
    disk, store = committed_and_open()
    in_sync, go_on = threading.Event(), threading.Event()
    closed: list[bool] = []

    def slow_sync(operation: str, path: str) -> None:
        if operation == "sync" and path.endswith("/data") and threading.current_thread() is syncing:
            in_sync.set()
            go_on.wait(10)
            closed.append(not store._data._file._open)

    syncing = threading.Thread(target=store.sync_ahead)
    closing = threading.Thread(target=store.close)
    disk.before = slow_sync
    syncing.start()
    assert in_sync.wait(10)
    closing.start()
    closing.join(0.05)
    go_on.set()
    syncing.join(10)
    closing.join(10)
    assert closed == [False]
    assert disk.n_open == 0


def test_a_failing_append_of_another_thread_does_not_close_the_file_under_a_write():
    disk, store = committed_and_open()
    seen: list[str | None] = []
    failures: list[StorageError] = []

    def append() -> None:
        try:
            store.append([b"x"])
        except StorageError as error:
            failures.append(error)

    appending = threading.Thread(target=append)

    def before(operation: str, path: str) -> None:
        if operation == "sync" and path.endswith("/journal"):
            raise OSError(errno.EIO, "injected", path)
        if operation == "write" and path.endswith("/data") and not appending.is_alive():
            appending.start()
            appending.join(0.05)  # it waits for this write to end
            seen.append(store._ended)

    disk.before = before
    store.write(0, b"under way", 16)
    appending.join(10)
    assert seen == [None]
    assert len(failures) == 1
    with pytest.raises(StorageError, match="the journal failed"):
        store.commit()
    assert disk.n_open == 0


def test_a_bulk_load_with_a_thread_that_syncs_all_the_time(tmp_path):
    """On the real disk: rebuilds, commits in place and closing, none of them waiting for the other thread."""
    path = tmp_path / "index"
    store = create_store(path, page_bytes=4096)
    n_syncs, errors = 0, []

    def sync_until_closed() -> None:
        nonlocal n_syncs
        try:
            while True:
                store.sync_ahead()
                n_syncs += 1
        except StorageError as error:
            errors.append(str(error))

    other = threading.Thread(target=sync_until_closed)
    other.start()
    for version in range(6):
        if version % 2 == 0:
            store.rebuild()
        for _ in range(20):
            first = store.allocate(30)
            run = empty_run(30, 4096)
            payloads(run)[:] = version
            store.write_run(np.arange(first, first + 30, dtype=np.uint64), run, 16)
        store.commit({"version": version})
    store.close()
    other.join(30)
    assert n_syncs > 6
    assert len(errors) == 1
    assert "it was closed" in errors[0]
    assert verify_store(path).ok
    with open_store(path) as again:
        assert again.metadata == {"version": 5}
        assert {int(again.read(page_id)[7]) for page_id in again.page_ids().tolist()} == {4, 5}
