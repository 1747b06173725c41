"""Crashes and faults of the whole index on a simulated disk: what was acknowledged is there (P1-P4, P8)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from rtree_anon.errors import StorageError
from tests.index.conftest import COUNTS
from tests.index.crashes import explore_crashes, explore_second_crashes, inject_faults
from tests.index.making import tiny
from tests.index.workloads import WORKLOADS, IndexScript
from tests.storage.deep import accumulate
from tests.storage.disk import SimulatedDisk
from tests.storage.faults import KINDS

Tally = Callable[[str, int], None]
# Odd ones have text keys, 6 and 7 a privacy model that is about whole tables too (crashes.py).
SEEDS = {"streaming": (1, 2, 6), "shrinking": (2, 6), "rebuilding": (1, 2, 7)}


@pytest.mark.parametrize(("workload", "seed"), [(name, seed) for name in WORKLOADS for seed in SEEDS[name]])
def test_every_operation_is_a_crash_point(workload: str, seed: int, tally: Tally) -> None:
    n_images = explore_crashes(workload, seed, n_outcomes=2)
    assert n_images > 100
    tally("crash images", n_images)


@pytest.mark.parametrize(("workload", "seed"), [("streaming", 1), ("rebuilding", 2)])
def test_a_second_crash_during_recovery(workload: str, seed: int, tally: Tally) -> None:
    n_first, n_images = explore_second_crashes(workload, seed, every=9)
    assert n_images > n_first > 5
    tally("crash images of recoveries", n_images)


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_is_a_named_error_and_leaves_an_allowed_state(kind: str, for_good: bool, tally: Tally) -> None:
    n_faults = 0
    for number, workload in enumerate(WORKLOADS):
        every = {"EIO": 17, "ENOSPC": 7, "short write": 7}[kind]
        n_faults += inject_faults(workload, kind, 3 + number, for_good=for_good, every=every)
    assert n_faults > 20
    tally("injected faults", n_faults)


@pytest.mark.parametrize("file", ["journal", "data"])
def test_after_a_failed_sync_the_writer_has_ended(tmp_path: Path, file: str) -> None:
    """Nothing more is acknowledged by a handle whose sync failed; what was, is found when the index is opened again."""
    disk = SimulatedDisk(1)
    script = IndexScript(disk, tmp_path, 1, keyed=True)

    def before(operation: str, path: str) -> None:
        if operation == "sync" and path.endswith(file):
            raise OSError(errno.EIO, "injected", path)

    with tiny():
        script.create()
        script.insert(20)
        disk.before = before
        with pytest.raises(StorageError):
            script.insert(5) if file == "journal" else script.checkpoint()
        disk.before = lambda operation, path: None
        for act in (script.checkpoint, lambda: script.insert(1), lambda: script.delete(1), script.opened.flush):
            n_states = len(script.states)
            with pytest.raises(StorageError, match="Open it again"):
                act()
            del script.states[n_states:]
        with pytest.raises(StorageError):
            script.opened.compact(scrub=True)
        script.opened.close()
        assert disk.n_open == 0
        script.check(disk, goes_on=True)


@pytest.mark.deep
def test_every_operation_is_a_crash_point_deep(tally: Tally) -> None:
    names = list(WORKLOADS)
    n_now, total = accumulate(
        "crash images",
        20_000,
        lambda seed: explore_crashes(names[seed // 2 % len(names)], seed, n_outcomes=8),
        counts=COUNTS,
    )
    tally("crash images", n_now)
    tally("crash images, all deep runs of this code", total)


@pytest.mark.deep
def test_a_second_crash_during_recovery_deep(tally: Tally) -> None:
    names = list(WORKLOADS)

    def step(seed: int) -> int:
        return explore_second_crashes(names[seed // 2 % len(names)], seed, every=3)[1]

    n_now, total = accumulate("crash images of recoveries", 5_000, step, counts=COUNTS)
    tally("crash images of recoveries", n_now)
    tally("crash images of recoveries, all deep runs of this code", total)


@pytest.mark.deep
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_every_operation_deep(kind: str, for_good: bool, tally: Tally) -> None:
    """All positions, of a workload with text keys and of one without."""
    what = f"faults: {kind}{', for good' if for_good else ''}"
    cases = [(name, seed) for name in WORKLOADS for seed in (4, 5)]

    def step(seed: int) -> int:
        name, own = cases[seed % len(cases)]
        inject_faults(name, kind, own, for_good=for_good)
        return 1

    n_now, total = accumulate(what, len(cases), step, counts=COUNTS)
    tally(f"workloads with {what} at every operation", n_now)
    tally(f"workloads with {what} at every operation, all deep runs of this code", total)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_version_that_cannot_be_read_after_its_commit(tmp_path: Path, keyed: bool) -> None:
    """Its rows are pending no more, whichever read fails: the next checkpoint does not work them in once again."""
    n_faults = 0
    for position in range(1, 100):
        disk = SimulatedDisk(1)
        script = IndexScript(disk, tmp_path, 2, keyed=keyed)
        n_syncs = n_reads = 0

        def before(operation: str, path: str, position: int = position) -> None:
            nonlocal n_syncs, n_reads
            n_syncs += operation == "sync" and path.endswith("data")
            n_reads += operation == "read" and n_syncs >= 2  # the second sync is that of the commit record
            if n_reads == position and operation == "read":
                raise OSError(errno.EIO, "injected", path)

        with tiny():
            script.create()
            script.insert(30)
            script.checkpoint()
            script.insert(20)
            script.delete(5)
            disk.before = before
            try:
                script.checkpoint()
                failed = False
            except StorageError:
                failed = True
            disk.before = lambda operation, path: None
            assert len(script.opened) == 45
            script.insert(4)
            script.checkpoint()
            script.opened.close()
            script.check(disk)
        n_faults += failed
        if not failed:
            break
    assert n_faults >= 3
