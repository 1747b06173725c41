"""The six workloads of the crash tests, each with a model of what it was promised, and the check of what a crash left.

A workload runs once on a simulated disk; after each changing operation the explorer makes crash images and calls
`check`, which knows from the model what may be found: the last acknowledged state, or that plus the one in flight
(P2), and of the journal a prefix that holds everything acknowledged (P3).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rtree_anon.errors import CorruptionError, StorageError
from rtree_anon.storage import (
    DiskStore,
    Publication,
    create_store,
    open_snapshot,
    open_store,
    read_publication,
    verify_store,
)
from rtree_anon.storage.page import empty_run, payloads
from tests.storage.disk import SimulatedDisk

PAGE_BYTES = 512
INDEX = "index"
KIND = 16


class ViolationError(AssertionError):
    """A promise was broken."""


@dataclass(frozen=True)
class State:
    """A committed version."""

    pages: dict[int, bytes]
    metadata: dict[str, Any]
    journal_seq: int


@dataclass
class Model:
    """What the workload was promised so far, and what is in flight."""

    acknowledged: State | None = None  # None: creation has not returned yet
    in_flight: State | None = None
    records: list[bytes] = field(default_factory=list)  # all that were ever appended
    n_durable: int = 0  # of these acknowledged as durable
    pages: dict[int, bytes] = field(default_factory=dict)  # of the open transaction
    published: dict[str, dict[str, bytes]] = field(
        default_factory=dict
    )  # directory -> files, in flight or acknowledged
    n_published: int = 0  # of these acknowledged

    def allowed(self) -> list[State | None]:
        return [self.acknowledged] if self.in_flight is None else [self.acknowledged, self.in_flight]


class Script:
    """Drives a store and the model side by side."""

    def __init__(self, disk: SimulatedDisk, seed: int) -> None:
        self.disk, self.random, self.model = disk, random.Random(seed), Model()
        self.store: DiskStore = None  # type: ignore[assignment]

    def create(self) -> None:
        self.model.in_flight = State({}, {}, 0)
        self.store = create_store(INDEX, page_bytes=PAGE_BYTES, fs=self.disk)
        self.model.acknowledged, self.model.in_flight = self.model.in_flight, None

    def payload(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 1, 40, 200, PAGE_BYTES - 32)))

    def write_new(self, n_pages: int) -> None:
        first = self.store.allocate(n_pages)
        run, lengths = empty_run(n_pages, PAGE_BYTES), np.zeros(n_pages, np.uint32)
        for row in range(n_pages):
            content = self.payload()
            payloads(run)[row, : len(content)] = np.frombuffer(content, np.uint8) if content else 0
            lengths[row] = len(content)
            self.model.pages[first + row] = content
        self.store.write_run(np.arange(first, first + n_pages, dtype=np.uint64), run, KIND, lengths)

    def rewrite(self, n_pages: int) -> None:
        for page_id in self.random.sample(sorted(self.model.pages), min(n_pages, len(self.model.pages))):
            content = self.payload()
            self.store.write(page_id, content, KIND)
            self.model.pages[page_id] = content

    def free(self, n_pages: int) -> None:
        chosen = self.random.sample(sorted(self.model.pages), min(n_pages, len(self.model.pages)))
        self.store.free(np.array(chosen, np.uint64))
        for page_id in chosen:
            del self.model.pages[page_id]

    def append(self, n_records: int, *, durable: bool = True) -> None:
        records = [self.random.randbytes(self.random.choice((0, 3, 50, 700))) for _ in range(n_records)]
        self.model.records += records
        self.store.append(records, durable=durable)
        if durable:
            self.model.n_durable = len(self.model.records)

    def commit(self, *, apply: bool = False, how: Callable[[State], object] | None = None) -> None:
        acknowledged = self.model.acknowledged
        assert acknowledged is not None
        seq = len(self.model.records) if apply else acknowledged.journal_seq
        state = State(dict(self.model.pages), {"step": self.random.randrange(1 << 30)}, seq)
        self.model.in_flight = state
        if how is None:
            self.store.commit(state.metadata, seq)
        else:
            how(state)
        self.model.acknowledged, self.model.in_flight = state, None
        self.model.n_durable = max(self.model.n_durable, seq)

    def compact(self) -> None:
        acknowledged = self.model.acknowledged
        assert acknowledged is not None
        self.model.in_flight = acknowledged
        self.store.compact()
        self.model.in_flight = None

    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(INDEX, fs=self.disk)

    def publish(self, name: str) -> None:
        files = {f"k{number}.csv": self.random.randbytes(self.random.choice((0, 5, 900))) for number in range(2)}
        self.model.published[name] = files
        with Publication(name, fs=self.disk) as publication:
            for file_name, content in files.items():
                publication.write(file_name, content)
            publication.finish({"k": 5})
        self.model.n_published += 1


def create_workload(script: Script) -> None:
    script.create()
    script.reopen()
    script.store.close()


def bulk_load_workload(script: Script) -> None:
    script.create()
    for n_pages in (40, 25):
        script.store.rebuild()
        script.model.pages = {}
        for _ in range(3):
            script.write_new(n_pages)
            script.store.sync_ahead()
        script.commit()
    script.free(30)
    script.commit()
    script.compact()
    script.rewrite(4)
    script.commit()
    script.store.close()


def split_workload(script: Script) -> None:
    script.create()
    for step in range(8):
        script.write_new(3 + step)
        if step % 3 == 1:
            script.store.sync_ahead()
        script.rewrite(4)
        script.commit()
        if step == 5:
            script.reopen()
    script.store.close()


def merge_workload(script: Script) -> None:
    script.create()
    script.write_new(45)
    script.commit()
    for step in range(7):
        script.free(5)
        script.rewrite(3)
        if step == 3:
            script.store.abort()
            assert script.model.acknowledged is not None
            script.model.pages = dict(script.model.acknowledged.pages)
            continue
        script.commit()
    script.free(len(script.model.pages))
    script.commit()
    script.store.close()


def journal_workload(script: Script) -> None:
    script.create()
    script.write_new(4)
    script.commit()
    for step in range(6):
        script.append(1 + step % 3)
        script.append(2, durable=False)
        script.append(1)
        if step == 3:
            for _ in range(9):  # beyond the reserve of zeros in the file
                script.append(10)
        script.rewrite(1)
        script.commit(apply=step % 2 == 0)
        script.append(1)
        if step == 4:
            script.reopen()
    script.append(3, durable=False)
    script.store.flush()
    script.model.n_durable = len(script.model.records)
    script.store.close()


def publish_workload(script: Script) -> None:
    script.create()
    for number in range(4):
        script.publish(f"out{number}")
    script.store.close()


WORKLOADS: dict[str, Callable[[Script], None]] = {
    "create": create_workload,
    "bulk load": bulk_load_workload,
    "commits with splits": split_workload,
    "deletes with merges": merge_workload,
    "journal rotation": journal_workload,
    "publish": publish_workload,
}


def check(disk: SimulatedDisk, model: Model, depth: int = 0) -> None:
    """Open what a crash left as the writer; by `depth` mod 4 also before that as a reader (0, 2), by `verify` (1), and
    go on to write (3); ViolationError if a promise is broken."""
    _check_publications(disk, model)
    if not disk.exists(INDEX):
        _require(None in model.allowed(), "the index is gone")
        return
    try:
        version = 0
        if depth % 2 == 0:
            with open_snapshot(INDEX, fs=disk) as snapshot:
                seen, version = _state(snapshot), snapshot.commit_id
            _require(seen in model.allowed(), "a reader sees a state that was never committed")
        if depth % 4 == 1:
            report = verify_store(INDEX, fs=disk)
            _require(report.ok, f"verify finds problems after a crash: {report.problems}")
        store = open_store(INDEX, fs=disk)
        found = _state(store)
        _require(found in model.allowed(), "the writer finds a state that was never committed")
        _require(store.commit_id >= version, "the writer finds an older version than a reader saw")
        replayed = [record for _, record in store.replay()]
        n_found = found.journal_seq + len(replayed)
        _require(model.n_durable <= n_found <= len(model.records), "acknowledged journal records are lost")
        _require(
            replayed == model.records[found.journal_seq : n_found], "the journal is not a prefix of what was written"
        )
        if depth % 4 == 3:
            store.write(store.allocate(), b"life goes on", KIND)
            store.append([b"and on"])
            after = store.commit()
            store.close()
            with open_snapshot(INDEX, fs=disk) as snapshot:
                _require(snapshot.commit_id == after, "a commit after recovery is not found")
                _require(len(snapshot.page_ids()) == len(found.pages) + 1, "a commit after recovery lost pages")
        store.close()
    except StorageError as error:
        raise ViolationError(f"a crash left something that cannot be opened: {error}") from error
    _require(disk.n_open == 0, "a file handle was leaked")


def _check_publications(disk: SimulatedDisk, model: Model) -> None:
    for number, (name, files) in enumerate(model.published.items()):
        if not disk.exists(name):
            _require(number >= model.n_published, f"the published directory {name} is gone")
            continue
        try:
            manifest = read_publication(name, fs=disk)
        except (CorruptionError, StorageError) as error:
            raise ViolationError(f"a published directory is visible and not complete: {error}") from error
        _require(set(manifest["files"]) == set(files), "a published directory lacks a file")
        for file_name, content in files.items():
            _require(bytes(disk.content(f"{name}/{file_name}")) == content, "a published file has another content")


def _state(reader: Any) -> State:
    ids = reader.page_ids()
    run = np.empty((len(ids), reader.page_bytes), np.uint8)
    lengths = reader.read_run(ids, run).tolist()
    pages = {page_id: run[row, 32 : 32 + lengths[row]].tobytes() for row, page_id in enumerate(ids.tolist())}
    return State(pages, reader.metadata, reader.journal_seq)


def _require(condition: bool, promise: str) -> None:
    if not condition:
        raise ViolationError(promise)
