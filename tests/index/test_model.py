"""The whole index against a dictionary: any sequence of calls, crashes and reopenings, checked after every step.

Promises P1-P4 and P7 of the index: what was acknowledged is there after a crash, what was not durable may be missing
only from the end, deleted rows do not come back, readers keep their version.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import rtree_anon as ra
from tests.index.making import rows_by_id, tiny
from tests.index.test_streaming import CITIES, SCHEMA, rows

K = 3
Row = tuple[Any, ...]


class IndexModel(RuleBasedStateMachine):
    """`durable` is what a crash leaves, `current` what the writer has."""

    @initialize(n_rows=st.sampled_from([0, 2, 40, 150]), seed=st.integers(0, 2**20))
    def create(self, n_rows: int, seed: int) -> None:
        self.stack = ExitStack()
        self.stack.enter_context(tiny())
        self.directory = Path(tempfile.mkdtemp())
        self.stack.callback(shutil.rmtree, self.directory)
        self.path = self.directory / "index"
        self.generator = np.random.default_rng(seed)
        self.index = ra.Index.create(self.path, SCHEMA, k=K)
        self.current: dict[int, Row] = {}
        if n_rows:
            self.index.load(self.rows(n_rows))
            self.current = rows_by_id(self.index)
        self.durable, self.committed = dict(self.current), dict(self.current)
        self.readers: list[tuple[ra.Index, dict[int, Row]]] = []
        self.published: dict[int, pa.Table] = {}

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            for reader, _ in self.readers:
                reader.close()
            self.index.close()
            self.stack.close()

    def rows(self, n: int) -> pa.Table:
        return rows(self.generator, n, [*CITIES, f"city {self.generator.integers(20)}"])

    def some_ids(self, n: int) -> list[int]:
        known = sorted(self.current)
        return self.generator.permutation(known)[:n].tolist() if known else []

    def acknowledged(self, durable: bool) -> None:
        if durable:
            self.durable = dict(self.current)

    @rule(n=st.integers(1, 30), durable=st.booleans())
    def insert(self, n: int, durable: bool) -> None:
        table = self.rows(n)
        ids = self.index.insert(table, durable=durable)
        assert not set(ids.tolist()) & set(self.current)
        self.current.update(zip(ids.tolist(), (tuple(row.values()) for row in table.to_pylist()), strict=True))
        self.acknowledged(durable)

    @rule(n=st.integers(1, 40), durable=st.booleans())
    def delete(self, n: int, durable: bool) -> None:
        ids = self.some_ids(n)
        self.index.delete(ids, durable=durable)
        for row in ids:
            del self.current[row]
        if ids:
            self.acknowledged(durable)

    @rule(n=st.integers(1, 8), durable=st.booleans())
    def update(self, n: int, durable: bool) -> None:
        ids = self.some_ids(n)
        table = self.rows(len(ids))
        if ids:
            self.index.update(ids, table, durable=durable)
            self.current.update(zip(ids, (tuple(row.values()) for row in table.to_pylist()), strict=True))
            self.acknowledged(durable)

    @rule()
    def flush(self) -> None:
        self.index.flush()
        self.durable = dict(self.current)

    @rule()
    def checkpoint(self) -> None:
        assert self.index.checkpoint() == self.index.version
        self.durable, self.committed = dict(self.current), dict(self.current)
        assert rows_by_id(self.index) == self.current if self.current else len(self.index) == 0

    @rule(clean=st.booleans())
    def crash(self, clean: bool) -> None:
        """Whatever was not durable is gone; closing an index makes it so first."""
        if clean:
            self.durable = dict(self.current)
        else:
            assert self.index._store is not None and self.index._stream is not None
            self.index._store.close()
            self.index._stream._unsynced = False
        self.index.close()
        self.index = ra.Index.open(self.path, mode="w")
        assert len(self.index) == len(self.durable)
        self.current = dict(self.durable)
        self.checkpoint()

    @rule()
    def read(self) -> None:
        if len(self.readers) < 3:
            self.readers.append((ra.Index.open(self.path), dict(self.committed)))

    @precondition(lambda self: self.readers)
    @rule()
    def leave(self) -> None:
        self.readers.pop(0)[0].close()

    @precondition(lambda self: len(self.current) >= 4)
    @rule()
    def release(self) -> None:
        release = self.index.release(k=4)
        self.durable, self.committed = dict(self.current), dict(self.current)
        table = release.to_arrow()
        assert table.num_rows == len(self.current)
        assert release.smallest_group >= 4
        illnesses = Counter(row[2] for row in self.current.values())
        assert Counter(table["illness"].to_pylist()) == illnesses
        self.published[self.index.version] = table

    @precondition(lambda self: self.published and len(self.current) >= 4)
    @rule()
    def changes(self) -> None:
        since = min(self.published)
        table = self.published.pop(since)
        self.index.checkpoint()
        self.durable, self.committed = dict(self.current), dict(self.current)
        kept = [version.version for version in self.index._current.catalog.history]
        if since in [*kept, self.index.version]:
            changed = self.index.changes(since, k=4, allow_small=True).apply_to(table)
            now = self.index.release(k=4).to_arrow()
            as_rows = [Counter(tuple(row.values()) for row in each.to_pylist()) for each in (changed, now)]
            assert as_rows[0] == as_rows[1]

    @rule(scrub=st.booleans())
    def compact(self, scrub: bool) -> None:
        self.index.compact(scrub=scrub)
        self.durable, self.committed = dict(self.current), dict(self.current)

    @invariant()
    def sound(self) -> None:
        if not hasattr(self, "index"):
            return
        self.index.verify()
        assert len(self.index) == len(self.current)
        for reader, expected in self.readers:
            assert (rows_by_id(reader) if expected else {}) == expected


TestIndexModel = IndexModel.TestCase
TestIndexModel.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
