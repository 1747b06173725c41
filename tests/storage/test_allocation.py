"""Which page ids a transaction gives out: the lowest hole that is long enough, found without looking at every id."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rtree_anon.errors import UsageError
from rtree_anon.storage import MemoryStore, create_store
from rtree_anon.storage import edit as edit_module
from rtree_anon.storage.page import empty_run
from tests.storage.disk import SimulatedDisk


def test_ids_are_given_out_as_the_twin_in_memory_does():
    """The twin looks at all ids one by one; small windows make the store look in many steps."""
    for seed in range(40):
        rng, window = random.Random(seed), (1, 3, 1024)[seed % 3]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(edit_module, "_FIRST_WINDOW", window)
            with create_store("index", page_bytes=512, fs=SimulatedDisk(seed)) as store:
                twin, known = MemoryStore(512), []
                for step in range(60):
                    dice = rng.random()
                    if dice < 0.55 or not known:
                        n_pages = rng.choice((1, 1, 2, 3, 7, 30))
                        first = twin.allocate(n_pages)
                        assert store.allocate(n_pages) == first, f"seed {seed}, step {step}"
                        written = [page_id for page_id in range(first, first + n_pages) if rng.random() < 0.9]
                        for page_id in written:
                            store.write(page_id, b"x", 16)
                            twin.write(page_id, b"x", 16)
                        known = sorted({*known, *range(first, first + n_pages)})
                    elif dice < 0.9:
                        start = rng.randrange(len(known))
                        freed = known[start : start + rng.choice((1, 2, 5, 40))]
                        rng.shuffle(freed)
                        store.free(np.array(freed, np.uint64))
                        twin.free(np.array(freed, np.uint64))
                        known = sorted(set(known) - set(freed))
                    else:
                        store.commit()
                        twin.commit()
                        known = twin.page_ids().tolist()
                assert store.page_ids().tolist() == twin.page_ids().tolist()


@pytest.mark.parametrize("numbers", [[5], [(1 << 64) - 1], [(1 << 64) - 1, 0], [1, 0], [0, 5], [3, 4, 5, 6]])
def test_ids_that_were_not_allocated_are_refused_by_name(numbers):
    with create_store("index", page_bytes=512, fs=SimulatedDisk()) as store:
        store.allocate(3)
        store.write_run(np.arange(3, dtype=np.uint64), empty_run(3, 512), 16)
        store.free(np.array([0], np.uint64))
        ids = np.array(numbers, np.uint64)
        with pytest.raises(UsageError, match="was not allocated"):
            store.write_run(ids, empty_run(len(ids), 512), 16)
        with pytest.raises(UsageError, match="was not allocated"):
            store.free(ids)


def test_a_bulk_load_does_not_look_at_the_ids_again_for_every_run(monkeypatch):
    """Neither in an empty store, nor above holes that are too short; the number of ids looked at stays linear."""
    n_looked_at = 0
    holes = edit_module._holes

    def counted(state):
        nonlocal n_looked_at
        n_looked_at += len(state)
        return holes(state)

    with create_store("index", page_bytes=512, fs=SimulatedDisk()) as store:
        store.allocate(600)
        run = empty_run(600, 512)
        store.write_run(np.arange(600, dtype=np.uint64), run, 16)
        store.free(np.arange(0, 600, 2, dtype=np.uint64))
        store.commit()
        monkeypatch.setattr(edit_module, "_holes", counted)
        for _ in range(200):
            first = store.allocate(30)
            store.write_run(np.arange(first, first + 30, dtype=np.uint64), run[:30], 16)
        assert n_looked_at <= 600
        n_looked_at = 0
        for _ in range(300):
            assert store.allocate() < 600
        assert n_looked_at <= 300 * 1024
        n_looked_at = 0
        for _ in range(300):
            assert store.allocate() >= 6_600
        assert n_looked_at <= 2 * 6_600  # once, in growing windows
