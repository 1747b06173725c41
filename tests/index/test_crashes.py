"""Crashes of the whole index on a simulated disk: after any of them, what was acknowledged is there (P1-P4).

Every changing operation of a workload of inserts, deletes, updates and checkpoints is a crash point; each is looked at
in several outcomes (what was not synced is lost, kept or torn). What recovery finds must be the state after some
operation, no earlier than the last one that was acknowledged as durable.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtree_anon as ra
from rtree_anon.index.catalog import Catalog
from rtree_anon.index.creating import create_index_store
from rtree_anon.index.loading import Resources
from rtree_anon.models import KAnonymity, Model
from rtree_anon.storage import open_store
from tests.index.making import rows_by_id, tiny
from tests.index.test_streaming import SCHEMA, rows
from tests.models.naive_models import World, holds
from tests.storage.disk import CHANGING, SimulatedDisk, crash_fates

K = 3
PLAIN = KAnonymity(K)
Rows = dict[int, tuple[Any, ...]]


class Workload:
    """The states that the index went through; `durable` is the number of the last one that was acknowledged."""

    def __init__(self, disk: SimulatedDisk, directory: Path, seed: int, model: Model) -> None:
        self.disk, self.directory, self.model = disk, directory, model
        self.generator = np.random.default_rng(seed)
        self.states: list[Rows] = [{}]
        self.durable = 0

    def resources(self) -> Resources:
        return Resources(1_000_000, 1, str(self.directory))

    def run(self) -> None:
        self.disk.make_directory("/d")
        self.disk.sync_directory("/")
        catalog = Catalog(SCHEMA, K, self.model, "balanced", 0)
        store = create_index_store("/d/i", catalog, fs=self.disk)
        with ra.Index._opened("/d/i", store, self.resources()) as index:
            for step in range(9):
                self.change(index, durable=step % 3 != 1)
                if step % 4 == 3:
                    index.checkpoint()
                    self.durable = len(self.states) - 1
            index.checkpoint()
            self.durable = len(self.states) - 1

    def change(self, index: ra.Index, durable: bool) -> None:
        now = dict(self.states[-1])
        table = rows(self.generator, 14)
        tuples = [tuple(row.values()) for row in table.to_pylist()]
        gone = self.generator.permutation(sorted(now))[:9].tolist() if len(self.states) % 2 else []
        first = max(max(now, default=-1), max(max(state, default=-1) for state in self.states)) + 1
        self.states.append(now | dict(zip(range(first, first + 14), tuples, strict=True)))
        ids = index.insert(table, durable=durable)
        assert ids.tolist() == list(range(first, first + 14))
        self.acknowledged(durable)
        if gone:
            self.states.append({row: values for row, values in self.states[-1].items() if row not in gone})
            index.delete(gone, durable=durable)
            self.acknowledged(durable)

    def acknowledged(self, durable: bool) -> None:
        if durable:
            self.durable = len(self.states) - 1

    def check(self, image: SimulatedDisk) -> None:
        """What is found is one of the states from the last durable one on, and stays so."""
        if not image.exists("/d/i"):
            assert self.durable == 0 and len(self.states) == 1
            return
        with ra.Index._opened("/d/i", open_store("/d/i", fs=image), self.resources()) as index:
            index.checkpoint()
            found = rows_by_id(index) if len(index) else {}
            assert found in self.states[self.durable :], f"{len(found)} rows are no state since {self.durable}"
            if found:
                starts = index._current.reader.rows(0, len(index._current.tree), np.int64).starts.tolist()
                world = World({"illness": [row[2] for row in found.values()]}, list(found))
                leaves = [range(a, b) for a, b in itertools.pairwise(starts)]
                assert all(holds(self.model, world, leaf) for leaf in leaves) or len(leaves) == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_every_operation_is_a_crash_point(tmp_path: Path, seed: int) -> None:
    n_images = sweep(tmp_path, seed, outcomes=2)
    assert n_images > 150


def test_every_operation_is_a_crash_point_under_a_privacy_model(tmp_path: Path) -> None:
    model = KAnonymity(K) & ra.EntropyLDiversity(1.8, "illness") & ra.TCloseness(0.4, "illness")
    assert sweep(tmp_path, 3, outcomes=2, model=model) > 150


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10, 30))
def test_many_crashes(tmp_path: Path, seed: int) -> None:
    assert sweep(tmp_path, seed, outcomes=8) > 600


def sweep(directory: Path, seed: int, outcomes: int, model: Model = PLAIN) -> int:
    disk = SimulatedDisk(seed)
    workload = Workload(disk, directory, seed, model)
    n_images = n_operations = 0

    def crash_here(operation: str, path: str) -> None:
        nonlocal n_images, n_operations
        if operation not in CHANGING:
            return
        n_operations += 1
        for outcome in range(outcomes):
            number = outcome if outcomes > 2 else (n_operations * 2 + outcome) % 9
            workload.check(disk.crash(crash_fates(number, seed * 7919 + n_operations)))
            n_images += 1

    disk.after = crash_here
    with tiny():
        workload.run()
    return n_images
