"""P7: a reader sees one version for its whole life, from any process, whatever the writer does; the writer is one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rtree_anon.errors import LockedError, StorageError, UsageError
from rtree_anon.storage import create_store, open_snapshot, open_store
from tests.storage.deep import accumulate
from tests.storage.disk import SimulatedDisk
from tests.storage.workloads import ViolationError

ROOT = Path(__file__).parents[2]
N_READERS = 8


def soak(path: Path, seconds: float, seed: int) -> tuple[int, int]:
    """One writer and eight readers; (commits, snapshots)."""
    if not path.exists():
        create_store(path, page_bytes=4096).close()

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.storage.reading", *arguments]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    writer = start("write", str(path), str(seconds))
    readers = [start("read", str(path), str(seconds), str(seed * 100 + number)) for number in range(N_READERS)]
    outputs = []
    for process in (writer, *readers):
        out, problem = process.communicate()
        assert process.returncode == 0, problem
        outputs.append([int(number) for number in out.split()])
    n_commits, n_largest = outputs[0]
    # Both slots and every reader may hold a version of 60 pages and 2 map pages, plus the one being written; and a
    # transaction that meets a registration in the making reuses nothing.
    assert n_largest <= (N_READERS + 8) * 64, f"the file grew to {n_largest} pages"
    return n_commits, sum(snapshots for (snapshots,) in outputs[1:])


def test_one_writer_and_eight_readers_in_processes(tmp_path, tally):
    n_commits, n_snapshots = soak(tmp_path / "soak.idx", 30.0, 1)
    assert n_commits > 5
    assert n_snapshots > N_READERS
    tally("commits under eight readers", n_commits)
    tally("snapshots read by eight processes", n_snapshots)


@pytest.mark.deep
def test_one_writer_and_eight_readers_for_an_hour(tmp_path, tally):
    def minute(seed: int) -> int:
        n_commits, n_snapshots = soak(tmp_path / "soak.idx", 60.0, seed)
        tally("commits under eight readers", n_commits)
        tally("snapshots read by eight processes", n_snapshots)
        return 1

    n_now, total = accumulate("minutes with eight readers", 60, minute)
    tally("minutes with eight readers", n_now)
    tally("minutes with eight readers, all deep runs of this code", total)


def rewrite_all(store, value: int, n_pages: int = 12) -> None:
    for page_id in range(n_pages):
        store.write(page_id, bytes([value]) * 100, 16)
    store.commit({"value": value})


def values(reader) -> set[int]:
    return {bytes(reader.read(page_id))[0] for page_id in reader.page_ids().tolist()}


def check_pinned_reader(fs, path, *, reopen: bool = False) -> None:
    """A snapshot while the writer rewrites everything many times (and, with `reopen`, hands over to other writers)."""
    store = create_store(path, page_bytes=512, fs=fs)
    store.allocate(12)
    rewrite_all(store, 1)
    snapshot = store.snapshot()
    n_before = store.n_pages
    for value in range(2, 30):
        if reopen and value % 4 == 0:
            store.close()
            store = open_store(path, fs=fs)
        rewrite_all(store, value)
        if values(snapshot) != {1} or snapshot.metadata != {"value": 1}:
            raise ViolationError("a pinned reader sees another version")
    if store.n_pages > n_before + 4 * 14:
        raise ViolationError(f"the file grew from {n_before} to {store.n_pages} pages under one reader")
    snapshot.close()
    store.close()


def check_file_growth_after_reader(fs, path) -> None:
    """A reader that has gone (its file is still there, unlocked) holds nothing."""
    with create_store(path, page_bytes=512, fs=fs) as store:
        store.allocate(12)
        rewrite_all(store, 1)
        store.snapshot().close()
        for value in range(2, 12):
            rewrite_all(store, value)
        if store.n_pages > 3 * 14:
            raise ViolationError(f"the file grew to {store.n_pages} pages for a reader that has gone")


def test_a_reader_that_has_gone_does_not_make_the_file_grow():
    check_file_growth_after_reader(SimulatedDisk(), "index")


@pytest.mark.parametrize("reopen", [False, True], ids=["one writer", "many writers"])
def test_pages_are_never_reused_under_a_reader_and_the_file_does_not_grow(reopen):
    check_pinned_reader(SimulatedDisk(), "index", reopen=reopen)


def test_reader_and_writer_in_one_process_on_a_real_disk(tmp_path):
    from rtree_anon.storage.files import OPERATING_SYSTEM

    check_pinned_reader(OPERATING_SYSTEM, str(tmp_path / "index"), reopen=True)


def test_a_reader_survives_compaction_and_sees_its_own_version():
    disk = SimulatedDisk()
    with create_store("index", page_bytes=512, fs=disk) as store:
        store.allocate(12)
        rewrite_all(store, 1)
        with store.snapshot() as snapshot:
            store.compact()
            for value in range(2, 8):
                rewrite_all(store, value)
            assert values(snapshot) == {1}
            with store.snapshot() as later:
                assert values(later) == {7}


def test_many_readers_of_many_versions_at_once():
    disk = SimulatedDisk()
    with create_store("index", page_bytes=512, fs=disk) as store:
        store.allocate(12)
        held = []
        for value in range(1, 12):
            rewrite_all(store, value)
            held.append(store.snapshot())
            if value % 3 == 0:
                held.pop(0).close()
        seen = [values(snapshot) for snapshot in held]
        assert seen == [{snapshot.metadata["value"]} for snapshot in held]
        assert all(len(one) == 1 for one in seen)
        for snapshot in held:
            snapshot.close()


def test_a_reader_that_registers_while_two_commits_pass_takes_a_newer_version():
    """The version it chose first is no longer in a slot when its registration is written: it must not be used."""
    disk = SimulatedDisk()
    store = create_store("index", page_bytes=512, fs=disk)
    store.allocate(12)
    rewrite_all(store, 1)
    n_slips = 0

    def slip_in(operation: str, path: str) -> None:
        nonlocal n_slips
        if operation == "write" and path.endswith("/reader-000") and n_slips < 3:
            n_slips += 1
            for value in (2, 3, 4, 5):
                rewrite_all(store, value * n_slips)

    disk.before = slip_in
    with open_snapshot("index", fs=disk) as snapshot:
        assert values(snapshot) == {15}
        disk.before = lambda operation, path: None
        for value in range(20, 26):
            rewrite_all(store, value)
        assert values(snapshot) == {15}
    store.close()


def test_a_reader_that_never_gets_its_turn_gives_up_with_a_clear_error():
    disk = SimulatedDisk()
    store = create_store("index", page_bytes=512, fs=disk)
    store.allocate(12)
    busy = False

    def slip_in(operation: str, path: str) -> None:
        nonlocal busy
        if operation == "write" and path.endswith("/reader-000") and not busy:
            busy = True
            for value in (1, 2):
                rewrite_all(store, value)
            busy = False

    disk.before = slip_in
    with pytest.raises(StorageError, match="commits faster than a reader can begin"):
        open_snapshot("index", fs=disk)
    disk.before = lambda operation, path: None
    store.close()
    assert disk.n_open == 0


def test_a_closed_snapshot_says_so():
    disk = SimulatedDisk()
    with create_store("index", page_bytes=512, fs=disk) as store:
        snapshot = store.snapshot()
        snapshot.close()
        with pytest.raises(UsageError, match="this snapshot is closed"):
            snapshot.read_run(np.zeros(0, np.uint64), np.zeros((0, 512), np.uint8))


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path):
    path = tmp_path / "index"
    with create_store(path) as store:
        with pytest.raises(LockedError, match=f"process {os.getpid()} is writing"):
            open_store(path)
        store.commit()
    open_store(path).close()


def holder(opening: str, path: Path) -> subprocess.Popen[str]:
    """A process that opens the index, says so, and waits."""
    code = f"from rtree_anon.storage import {opening} as o; x = o({str(path)!r}); print('ready', flush=True); input()"
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_writer_in_another_process_holds_the_lock_until_it_dies(tmp_path):
    path = tmp_path / "index"
    create_store(path).close()
    code = (
        f"from rtree_anon.storage import open_store; s = open_store({str(path)!r}); print('ready', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(LockedError, match=f"process {other.pid}"):
            open_store(path)
        with open_snapshot(path) as snapshot:  # reading is possible meanwhile
            assert snapshot.commit_id == 1
        other.kill()
    open_store(path).close()


def test_a_dead_reader_protects_nothing(tmp_path):
    path = tmp_path / "index"
    store = create_store(path, page_bytes=512)
    store.allocate(12)
    rewrite_all(store, 1)
    with holder("open_snapshot", path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        rewrite_all(store, 2)
        rewrite_all(store, 3)
        n_protected = store.n_pages
        other.kill()
    for value in range(4, 12):
        rewrite_all(store, value)
    assert store.n_pages <= n_protected + 14
    store.close()
