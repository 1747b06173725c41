"""A Hypothesis state machine: the disk store against its twin in memory, with crashes and reopening as rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rtree_anon.storage import create_store, open_snapshot, open_store, verify_store
from tests.storage.deep import accumulate
from tests.storage.disk import SimulatedDisk, crash_fates
from tests.storage.workloads import State, _state

KIND = 16


class StoreMachine(RuleBasedStateMachine):
    """The model is a dictionary of pages and lists of states; the store may lose only what was never acknowledged."""

    @initialize(seed=st.integers(0, 1 << 30))
    def start(self, seed: int) -> None:
        self.disk = SimulatedDisk(seed)
        self.store = create_store("index", page_bytes=512, fs=self.disk)
        self.pages: dict[int, bytes] = {}
        self.committed = State({}, {}, 0)
        self.records: list[bytes] = []
        self.n_durable = 0
        self.step = 0
        self.readers: list[tuple[object, State]] = []

    @rule(
        n=st.integers(1, 40),
        n_skipped=st.integers(0, 39),
        fill=st.integers(0, 255),
        length=st.sampled_from([0, 1, 100, 480]),
    )
    def add(self, n: int, n_skipped: int, fill: int, length: int) -> None:
        first = self.store.allocate(n)
        for page_id in range(first + min(n_skipped, n - 1), first + n):  # not every allocated page is written
            self.store.write(page_id, bytes([fill]) * length, KIND)
            self.pages[page_id] = bytes([fill]) * length

    @precondition(lambda self: self.pages)
    @rule(data=st.data(), fill=st.integers(0, 255))
    def rewrite(self, data: st.DataObject, fill: int) -> None:
        page_id = data.draw(st.sampled_from(sorted(self.pages)))
        self.pages[page_id] = bytes([fill]) * 33
        self.store.write(page_id, self.pages[page_id], KIND)

    @precondition(lambda self: self.pages)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.pages)), unique=True, max_size=20))
        self.store.free(np.array(chosen, np.uint64))
        for page_id in chosen:
            del self.pages[page_id]

    @rule(record=st.binary(max_size=60), durable=st.booleans())
    def append(self, record: bytes, durable: bool) -> None:
        self.records.append(record)
        assert self.store.append([record], durable=durable) == len(self.records)
        if durable:
            self.n_durable = len(self.records)

    @rule(apply=st.booleans())
    def commit(self, apply: bool) -> None:
        self.step += 1
        state = State(dict(self.pages), {"step": self.step}, len(self.records) if apply else self.committed.journal_seq)
        self.store.commit(state.metadata, state.journal_seq)
        self.committed = state
        self.n_durable = max(self.n_durable, state.journal_seq)

    @rule()
    def abort(self) -> None:
        self.store.abort()
        self.pages = dict(self.committed.pages)

    @rule()
    def compact(self) -> None:
        self.abort()
        self.store.compact()

    @precondition(lambda self: len(self.readers) < 4)
    @rule()
    def open_reader(self) -> None:
        self.readers.append((self.store.snapshot(), self.committed))

    @precondition(lambda self: self.readers)
    @rule()
    def close_reader(self) -> None:
        self.readers.pop(0)[0].close()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self._recover()

    @rule(outcome=st.integers(0, 40), seed=st.integers(0, 1 << 30))
    def crash(self, outcome: int, seed: int) -> None:
        self.disk = self.disk.crash(crash_fates(outcome, seed))
        self.readers = []  # they died with the machine
        with open_snapshot("index", fs=self.disk) as snapshot:
            assert _state(snapshot) == self.committed
        self._recover()

    def _recover(self) -> None:
        self.store = open_store("index", fs=self.disk)
        assert _state(self.store) == self.committed
        replayed = self.store.replay()
        n_found = self.committed.journal_seq + len(replayed)
        assert self.n_durable <= n_found <= len(self.records)
        assert [record for _, record in replayed] == self.records[self.committed.journal_seq : n_found]
        self.records = self.records[:n_found]
        self.n_durable = n_found
        self.pages = dict(self.committed.pages)

    @invariant()
    def readers_see_their_version(self) -> None:
        for reader, state in getattr(self, "readers", []):
            assert _state(reader) == state

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert {
                page_id: bytes(self.store.read(page_id)) for page_id in self.store.page_ids().tolist()
            } == self.pages
            for reader, _ in self.readers:
                reader.close()
            self.store.close()
            assert verify_store("index", fs=self.disk).problems == []
            assert self.disk.n_open == 0


CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def test_the_store_is_its_model_through_crashes_and_reopening(tally):
    examples = settings(
        max_examples=300, stateful_step_count=50, deadline=None, suppress_health_check=CHECKS, derandomize=True
    )
    run_state_machine_as_test(StoreMachine, settings=examples)
    tally("runs of the state machine (50 steps)", 300)


@pytest.mark.deep
def test_the_store_is_its_model_through_crashes_and_reopening_deep(tally):
    def step(seed: int) -> int:
        examples = settings(
            max_examples=100, stateful_step_count=100, deadline=None, suppress_health_check=CHECKS, database=None
        )
        run_state_machine_as_test(StoreMachine, settings=examples)
        return 100

    n_now, total = accumulate("runs of the state machine (100 steps)", 5_000, step)
    tally("runs of the state machine (100 steps)", n_now)
    tally("runs of the state machine, all deep runs of this code", total)
