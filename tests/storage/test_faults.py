"""P8: an I/O error, a full disk or a short write is a named error, leaves no partial state, no lock and no handle
behind.
"""

from __future__ import annotations

import errno

import numpy as np
import pytest

from rtree_anon.errors import StorageError
from rtree_anon.storage import create_store, open_store
from tests.storage.disk import SimulatedDisk
from tests.storage.faults import KINDS, inject_everywhere
from tests.storage.workloads import WORKLOADS


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_fault_at_any_operation_is_a_named_error_and_leaves_an_allowed_state(workload, kind, for_good, tally):
    tally("injected faults", inject_everywhere(workload, kind, for_good=for_good))


@pytest.mark.deep
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_fault_at_any_operation_deep(workload, kind, for_good, tally):
    seeds = (1, 2, 3)
    tally(
        "injected faults", sum(inject_everywhere(workload, kind, for_good=for_good, seed=s, outcomes=3) for s in seeds)
    )


def failing(operation: str, suffix: str, code: int):
    def before(seen: str, path: str) -> None:
        if seen == operation and path.endswith(suffix):
            raise OSError(code, "injected", path)

    return before


def test_after_a_failed_sync_the_writer_has_ended_and_says_so():
    """A sync that failed once may succeed when repeated although the data is gone; so it is never repeated."""
    disk = SimulatedDisk()
    store = create_store("index", page_bytes=512, fs=disk)
    store.write(store.allocate(), b"x", 16)
    disk.before = failing("sync", "/data", errno.EIO)
    with pytest.raises(StorageError, match="could not make the page file durable"):
        store.commit()
    disk.before = lambda operation, path: None
    for act in (store.commit, store.allocate, store.abort, store.flush, store.snapshot, store.rebuild, store.page_ids):
        with pytest.raises(StorageError, match="Open it again"):
            act()
    with open_store("index", fs=disk) as again:  # the lock was given back
        assert len(again.page_ids()) == 0


def test_after_a_failed_journal_sync_the_writer_has_ended():
    disk = SimulatedDisk()
    store = create_store("index", page_bytes=512, fs=disk)
    disk.before = failing("sync", "/journal", errno.EIO)
    with pytest.raises(StorageError, match="could not write to the journal"):
        store.append([b"x"])
    disk.before = lambda operation, path: None
    with pytest.raises(StorageError, match="the journal failed"):
        store.append([b"y"])
    assert disk.n_open == 0


def test_a_full_disk_while_writing_pages_only_ends_the_transaction():
    disk = SimulatedDisk()
    store = create_store("index", page_bytes=512, fs=disk)
    store.write(store.allocate(), b"kept", 16)
    store.commit()
    disk.before = failing("write", "/data", errno.ENOSPC)
    with pytest.raises(StorageError, match=r"The disk is full: make room"):
        store.write(0, b"lost", 16)
    disk.before = lambda operation, path: None
    with pytest.raises(StorageError, match="abort it"):
        store.write(0, b"lost", 16)
    with pytest.raises(StorageError, match="abort it"):
        store.free(np.array([0], np.uint64))
    store.abort()
    assert bytes(store.read(0)) == b"kept"
    store.write(0, b"after", 16)
    store.commit()
    assert bytes(store.read(0)) == b"after"
    store.close()


def test_committing_a_transaction_with_a_failed_write_is_refused():
    disk = SimulatedDisk()
    store = create_store("index", page_bytes=512, fs=disk)
    page_id = store.allocate()
    disk.before = failing("write", "/data", errno.ENOSPC)
    with pytest.raises(StorageError):
        store.write(page_id, b"lost", 16)
    disk.before = lambda operation, path: None
    with pytest.raises(StorageError, match="abort it"):
        store.commit()
    with open_store("index", fs=disk) as again:
        assert len(again.page_ids()) == 0
