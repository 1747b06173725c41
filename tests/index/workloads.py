"""Workloads of a whole index on a simulated disk, and what may be found after a crash or a fault (P1-P4, P8).

A script calls the index and notes the state that each call leads to before it calls; `durable` is the last state that
was acknowledged as durable. Whatever happens, an index that is opened again must be one of the states from there on: no
hole in what was acknowledged, no row that was deleted, no half of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rtree_anon as ra
from rtree_anon.errors import AnonError
from rtree_anon.index.catalog import Catalog
from rtree_anon.index.creating import create_index_store
from rtree_anon.index.loading import Resources
from rtree_anon.index.verifying import verify_index
from rtree_anon.models import EntropyLDiversity, KAnonymity, Model, TCloseness
from rtree_anon.storage import open_store, verify_store
from tests.index.making import rows_by_id, tiny
from tests.storage.disk import SimulatedDisk

K = 3
PLAIN: Model = KAnonymity(K)
PRIVATE = PLAIN & EntropyLDiversity(1.8, "illness") & TCloseness(0.4, "illness")
PATH = "/d/i"
Rows = dict[Any, tuple[Any, ...]]


class ViolationError(AssertionError):
    """A promise that was not kept."""


def schema_of(keyed: bool) -> ra.Schema:
    quasi = ["age", ra.Categorical("city", allow_new=True)]
    return ra.Schema(quasi, sensitive=["illness"], key="visit" if keyed else None)


class IndexScript:
    """An index on a simulated disk, and the states that it went through."""

    def __init__(self, disk: SimulatedDisk, directory: Path, seed: int, *, keyed: bool, model: Model = PLAIN) -> None:
        """`directory` is a real one, for temporary files."""
        self.disk, self.keyed, self.model = disk, keyed, model
        self.resources = Resources(1_000_000, 1, str(directory))
        self.generator = np.random.default_rng(seed)
        self.states: list[Rows] = [{}]
        self.durable = 0
        self.n_named = 0
        self.index: ra.Index | None = None
        disk.make_directory("/d")
        disk.sync_directory("/")

    # ---- what workloads are made of

    def create(self) -> None:
        catalog = Catalog(schema_of(self.keyed), K, self.model, "balanced", 0)
        store = create_index_store(PATH, catalog, fs=self.disk)
        self.index = ra.Index._opened(PATH, store, self.resources)

    def insert(self, n: int, durable: bool = True) -> None:
        table, names = self.rows(n)
        self.does(self.now | dict(zip(names, values_of(table), strict=True)))
        assert self.opened.insert(table, durable=durable).tolist() == names
        self.acknowledged(durable)

    def delete(self, n: int, durable: bool = True) -> None:
        gone = self.some(n)
        if gone:
            self.does({name: row for name, row in self.now.items() if name not in gone})
            self.opened.delete(gone, durable=durable)
            self.acknowledged(durable)

    def update(self, n: int, durable: bool = True) -> None:
        chosen = self.some(n)
        if chosen:
            table, _ = self.rows(len(chosen), chosen)
            self.does(self.now | dict(zip(chosen, values_of(table), strict=True)))
            self.opened.update(chosen, table, durable=durable)
            self.acknowledged(durable)

    def load(self, n: int) -> None:
        assert self.keyed, "ids that a load gives are not known before"
        table, names = self.rows(n)
        self.does(self.now | dict(zip(names, values_of(table), strict=True)))
        self.opened.load(table)
        self.acknowledged(True)

    def checkpoint(self) -> None:
        self.opened.checkpoint()
        self.acknowledged(True)

    def compact(self, scrub: bool) -> None:
        self.opened.compact(scrub=scrub)
        self.acknowledged(True)

    # ---- the states

    @property
    def opened(self) -> ra.Index:
        assert self.index is not None
        return self.index

    @property
    def now(self) -> Rows:
        return self.states[-1]

    def does(self, state: Rows) -> None:
        self.states.append(state)

    def acknowledged(self, durable: bool) -> None:
        if durable:
            self.durable = len(self.states) - 1

    def some(self, n: int) -> list[Any]:
        known = sorted(self.now)
        return [known[place] for place in self.generator.permutation(len(known))[:n].tolist()]

    def rows(self, n: int, names: list[Any] | None = None) -> tuple[pa.Table, list[Any]]:
        draw = self.generator
        cities = ["Aachen", "Bonn", "Celle", f"city {draw.integers(9)}", None]
        table = pa.table(
            {
                "age": draw.integers(0, 90 + 10 * len(self.states), n),
                "city": pa.array(draw.choice(np.array(cities, object), n).tolist(), pa.string()),
                "illness": draw.choice(["flu", "cold", f"illness {draw.integers(99)}"], n).tolist(),
            }
        )
        if names is None:
            first, self.n_named = self.n_named, self.n_named + n
            names = [f"v{number}" if self.keyed else number for number in range(first, first + n)]
        return (table.append_column("visit", pa.array(names)) if self.keyed else table), names

    # ---- what may be found

    def check(self, disk: SimulatedDisk, *, goes_on: bool = False) -> None:
        """Open what is on a disk: it is an allowed state, sound, and stays so; with `goes_on` it can be changed."""
        if not disk.exists(PATH):
            if self.durable or len(self.states) > 1 or self.index is not None:
                raise ViolationError("the index is gone")
            return
        try:
            with ra.Index._opened(PATH, open_store(PATH, fs=disk), self.resources) as index:
                index.checkpoint()
                found = self.found(index)
                if found not in self.states[self.durable :]:
                    raise ViolationError(f"{len(found)} rows are no state since {self.durable} of {len(self.states)}")
                if goes_on:
                    index.insert(self.other_rows())
                    if found:
                        index.delete([next(iter(found))])
                    index.checkpoint()
                    if len(index) != len(found) + 5 - bool(found):
                        raise ViolationError("it cannot be changed any more")
                verify_index(index._current, verify_store(PATH, fs=disk))
        except AnonError as error:
            raise ViolationError(f"it cannot be opened and read: {error}") from error
        if disk.n_open:
            raise ViolationError("a file handle was leaked")

    def found(self, index: ra.Index) -> Rows:
        rows = rows_by_id(index) if len(index._current.tree) else {}
        return {row[-1]: row[:-1] for row in rows.values()} if self.keyed else dict(rows)

    def other_rows(self) -> list[dict[str, Any]]:
        rows = [{"age": age, "city": "Dresden", "illness": "none"} for age in range(5)]
        return [row | {"visit": f"other {number}"} for number, row in enumerate(rows)] if self.keyed else rows


def values_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values())[:3] for row in table.to_pylist()]


def streaming(script: IndexScript) -> None:
    """Inserts, updates and deletes, some of them durable, with checkpoints between."""
    script.create()
    for step in range(6):
        durable = step % 3 != 1
        script.insert(14, durable)
        if step % 2:
            script.delete(9, durable)
            script.update(4, durable)
        if step % 3 == 2:
            script.checkpoint()
    script.checkpoint()


def shrinking(script: IndexScript) -> None:
    """Until few rows, and then none, are left; and rows again."""
    script.create()
    script.insert(40)
    script.checkpoint()
    for n in (20, 15, 4, 40):
        script.delete(n)
        script.checkpoint()
    script.insert(8)
    script.checkpoint()


def rebuilding(script: IndexScript) -> None:
    """Loads, compaction and scrubbing between changes."""
    script.create()
    if script.keyed:
        script.load(40)
    else:
        script.insert(40)
    script.delete(10)
    script.compact(scrub=False)
    script.update(5)
    script.compact(scrub=True)
    script.delete(3, durable=False)
    if script.keyed:
        script.load(20)
    script.insert(6, durable=False)
    script.compact(scrub=True)
    script.delete(4)


WORKLOADS: dict[str, Callable[[IndexScript], None]] = {
    "streaming": streaming,
    "shrinking": shrinking,
    "rebuilding": rebuilding,
}


def run_workload(name: str, script: IndexScript) -> None:
    with tiny():
        WORKLOADS[name](script)
