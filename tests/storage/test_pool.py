"""The buffer pool and the memory budget: what is pinned stays, what is evicted is read and checked again."""

from __future__ import annotations

import doctest
import threading

import numpy as np
import pytest

from rtree_anon.errors import AnonError, BudgetError, CorruptionError, UsageError
from rtree_anon.storage import BufferPool, MemoryBudget, budget, create_store, open_snapshot
from tests.storage.disk import SimulatedDisk

N_PAGES = 20


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    with create_store("index", page_bytes=512, fs=disk) as store:
        store.allocate(N_PAGES)
        for page_id in range(N_PAGES):
            store.write(page_id, bytes([page_id]) * 100, 16)
        store.commit()
    return disk


@pytest.fixture
def snapshot(disk):
    with open_snapshot("index", fs=disk) as snapshot:
        yield snapshot


def test_pages_come_from_the_disk_once_and_then_from_memory(snapshot):
    with BufferPool(MemoryBudget(10_000), 4, 512) as pool:
        for page_id in (0, 1, 0, 1, 0):
            with pool.pin(snapshot, page_id) as payload:
                assert payload.tobytes() == bytes([page_id]) * 100
        assert (pool.n_hits, pool.n_misses, pool.n_pinned) == (3, 2, 0)


def test_views_are_read_only_and_without_copies(snapshot):
    pool = BufferPool(MemoryBudget(10_000), 2, 512)
    with pool.pin(snapshot, 3) as one, pool.pin(snapshot, 3) as two:
        assert one.dtype == np.uint8
        assert np.shares_memory(one, two)
        with pytest.raises(ValueError, match="read-only"):
            one[0] = 1
    pool.close()


def test_a_pinned_page_is_never_evicted(snapshot):
    with BufferPool(MemoryBudget(10_000), 3, 512) as pool:
        held = pool.pin(snapshot, 7)
        for page_id in range(N_PAGES):
            with pool.pin(snapshot, page_id) as payload:
                assert payload[0] == page_id
            assert held.payload.tobytes() == bytes([7]) * 100
        held.release()
        held.release()
        assert pool.n_pinned == 0


def test_when_everything_is_pinned_there_is_a_clear_error(snapshot):
    with BufferPool(MemoryBudget(10_000), 2, 512) as pool:
        with pool.pin(snapshot, 0), pool.pin(snapshot, 1):
            with pytest.raises(BudgetError, match="All 2 pages of the buffer pool are pinned"):
                pool.pin(snapshot, 2)
            with pytest.raises(UsageError, match="2 pages are still pinned"):
                pool.close()
        with pool.pin(snapshot, 2) as payload:
            assert payload[0] == 2


def test_a_page_used_lately_gets_a_second_chance(snapshot):
    with BufferPool(MemoryBudget(10_000), 3, 512) as pool:
        for page_id in (0, 1, 2, 3):  # 3 takes the place of one of the others, and their second chances
            pool.pin(snapshot, page_id).release()
        pool.pin(snapshot, 1).release()
        n_misses = pool.n_misses
        pool.pin(snapshot, 4).release()
        pool.pin(snapshot, 1).release()  # was used after the others, so it is still there
        assert pool.n_misses == n_misses + 1


def test_a_damaged_page_is_reported_when_it_is_loaded_and_leaves_the_pool_whole(disk, snapshot):
    with BufferPool(MemoryBudget(10_000), 1, 512) as pool:
        pool.pin(snapshot, 1).release()
        place = 16384 + 512 * int(snapshot.locate(np.array([2], np.uint64))[0, 0])
        disk.content("index/data")[place + 50] ^= 4
        with pytest.raises(CorruptionError, match="page 2 is damaged"):
            pool.pin(snapshot, 2)
        with pool.pin(snapshot, 1) as payload:
            assert payload.tobytes() == bytes([1]) * 100
        with pytest.raises(CorruptionError, match="no such page"):
            pool.pin(snapshot, 99)


def test_versions_share_pages_that_did_not_change_and_never_mix_those_that_did(disk):
    from rtree_anon.storage import open_store

    with BufferPool(MemoryBudget(100_000), 50, 512) as pool, open_store("index", fs=disk) as store:
        old = store.snapshot()
        pool.pin(old, 0).release()
        pool.pin(old, 1).release()
        store.write(1, b"changed", 16)
        store.commit()
        new = store.snapshot()
        with pool.pin(new, 0), pool.pin(new, 1) as changed, pool.pin(old, 1) as before:
            assert changed.tobytes() == b"changed"
            assert before.tobytes() == bytes([1]) * 100
        assert (pool.n_hits, pool.n_misses) == (2, 3)
        old.close()
        new.close()


def test_threads_share_a_pool(snapshot):
    with BufferPool(MemoryBudget(100_000), 8, 512) as pool:
        wrong: list[int] = []

        def work(seed: int) -> None:
            rng = np.random.default_rng(seed)
            for page_id in rng.integers(0, N_PAGES, 200).tolist():
                with pool.pin(snapshot, page_id) as payload:
                    if payload.tobytes() != bytes([page_id]) * 100:
                        wrong.append(page_id)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert pool.n_hits + pool.n_misses == 1200


def test_the_pool_reserves_its_memory_and_gives_it_back():
    whole = MemoryBudget(4 * 512)
    pool = BufferPool(whole, 4, 512)
    assert whole.available == 0
    with pytest.raises(BudgetError, match=r"the buffer pool needs 512 bytes more.*held: the buffer pool 2,048"):
        BufferPool(whole, 1, 512)
    pool.close()
    assert whole.available == 4 * 512
    with pytest.raises(UsageError, match="at least one"):
        BufferPool(whole, 0, 512)


def test_reservations_grow_shrink_and_end():
    whole = MemoryBudget(100)
    with whole.reserve(40, "sorting") as sorting:
        sorting.resize(90)
        with pytest.raises(BudgetError, match="sorting needs 20 bytes more"):
            sorting.resize(110)
        assert sorting.n_bytes == 90
        with pytest.raises(BudgetError, match="held: sorting 90"):
            whole.reserve(11, "routing")
        sorting.resize(10)
        assert (whole.reserved, whole.available) == (10, 90)
        with pytest.raises(UsageError, match="-1 bytes"):
            sorting.resize(-1)
    sorting.release()
    assert whole.reserved == 0
    with pytest.raises(UsageError, match="not possible"):
        MemoryBudget(-1)
    with pytest.raises(BudgetError, match="held: nothing") as error:
        whole.reserve(101, "everything")
    assert isinstance(error.value, AnonError)
    assert isinstance(error.value, MemoryError)


def test_the_examples_in_the_documentation():
    assert doctest.testmod(budget).failed == 0
