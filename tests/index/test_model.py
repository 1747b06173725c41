"""The whole index against a dictionary: any sequence of calls, crashes and reopenings, checked after every step.

Promises P1-P4 and P7 of the index: what was acknowledged is there after a crash, what was not durable may be missing
only from the end, deleted rows do not come back, readers keep their version. Under a privacy model, no version that
anybody can see has a leaf that breaks it, and nothing is refused that could be released.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import rtree_anon as ra
from rtree_anon.errors import PrivacyError
from rtree_anon.models import Model
from rtree_anon.models.fitting import with_k
from tests.index.making import rows_by_id, tiny
from tests.index.test_streaming import CITIES, SCHEMA, rows
from tests.models.naive_models import World, holds

K = 3
Row = tuple[Any, ...]


class IndexModel(RuleBasedStateMachine):
    """`durable` is what a crash leaves, `current` what the writer has."""

    schema = SCHEMA
    privacy: Model | None = None
    first_rows = (0, 2, 40, 150)

    @initialize(size=st.integers(0, 3), seed=st.integers(0, 2**20))
    def create(self, size: int, seed: int) -> None:
        n_rows = self.first_rows[size]
        self.stack = ExitStack()
        self.stack.enter_context(tiny())
        self.directory = Path(tempfile.mkdtemp())
        self.stack.callback(shutil.rmtree, self.directory)
        self.path = self.directory / "index"
        self.generator = np.random.default_rng(seed)
        self.index = ra.Index.create(self.path, self.schema, k=K, model=self.privacy)
        self.current: dict[int, Row] = {}
        if n_rows:
            table = self.rows(n_rows)
            try:
                self.index.load(table)
                self.current = rows_by_id(self.index)
            except PrivacyError:
                assert not self.is_possible(K, [tuple(row.values()) for row in table.to_pylist()])
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

    def is_possible(self, k: int, rows: Collection[Row]) -> bool:
        """Whether the rows can be released at k."""
        return len(rows) >= k

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
        self.durable, self.committed = dict(self.current), dict(self.current)
        if not self.is_possible(4, self.current.values()):
            with pytest.raises(PrivacyError, match="cannot be met"):
                self.index.release(k=4)
            return
        release = self.index.release(k=4)
        table = release.to_arrow()
        assert table.num_rows == len(self.current)
        assert release.smallest_group >= 4
        place = len(self.schema.quasi) + self.schema.payload_names.index("illness")
        illnesses = Counter(row[place] for row in self.current.values())
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
        if since in [*kept, self.index.version] and self.is_possible(4, self.current.values()):
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


class PrivateIndexModel(IndexModel):
    """The same with people who have several rows, and a model: whatever comes and goes, every leaf satisfies it."""

    schema = ra.Schema(
        ["age", ra.Categorical("city", allow_new=True)], sensitive=["illness", "amount"], identity="person"
    )
    privacy: Model = ra.DistinctLDiversity(3, "illness") & ra.EntropyLDiversity(2.2, "illness")
    first_rows = (0, 2, 150, 900)

    @rule(young=st.integers(0, 89), years=st.integers(5, 60), keep=st.sampled_from(["flu", "cold", "none", None]))
    def only_one_illness_stays(self, young: int, years: int, keep: str | None) -> None:
        """Many rows go, and those that stay beside each other are all alike: whole bundles cannot stand alone."""
        gone = [row for row, values in self.current.items() if young <= values[0] < young + years and values[2] != keep]
        self.index.delete(gone)
        for row in gone:
            del self.current[row]
        if gone:
            self.acknowledged(True)

    def rows(self, n: int) -> pa.Table:
        """Now and then many rows of one person, or of one illness, or of one age."""
        table = super().rows(n)
        if n < 100 and self.generator.random() < 0.3:
            table = table.set_column(0, "age", pa.array(self.generator.integers(0, 4, n)))
        n_people, n_ill = self.generator.integers(1, 40), self.generator.integers(1, 5) if n < 100 else 4
        illness = self.generator.choice(["flu", "cold", "none", None][:n_ill], n)
        person = self.generator.integers(0, n_people, n)
        amount = self.generator.integers(0, 4, n)
        columns = {"illness": illness, "person": person, "amount": amount}
        table = table.select(["age", "city"])
        for name in self.schema.payload_names:
            table = table.append_column(name, pa.array(columns[name].tolist()))
        return table

    def world(self, rows: Collection[Row]) -> World:
        names = [*self.schema.quasi_names, *self.schema.payload_names]
        columns: dict[str, list[Any]] = {
            name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }
        shown = {"illness": [value or "" for value in columns["illness"]], "amount": columns["amount"]}
        return World(shown, columns["person"])

    def is_possible(self, k: int, rows: Collection[Row]) -> bool:
        return len(rows) >= k and holds(with_k(k, "person", self.privacy), self.world(rows), range(len(rows)))

    @invariant()
    def every_leaf_satisfies_the_model(self) -> None:
        """By the definitions, for the newest version and for all that are being read."""
        if not hasattr(self, "index"):
            return
        for index in (self.index, *(reader for reader, _ in self.readers)):
            view = index._current
            if not len(view.tree):
                continue
            found = list(rows_by_id(index).values())
            starts = view.reader.rows(0, len(view.tree), np.int64).starts.tolist()
            if len(starts) > 2:
                world, model = self.world(found), with_k(K, "person", self.privacy)
                assert all(holds(model, world, range(a, b)) for a, b in itertools.pairwise(starts))


class ComparedIndexModel(PrivateIndexModel):
    """With a model that depends on the whole table: a remote update can break a leaf that nobody touched."""

    privacy = ra.TCloseness(0.45, "illness") & ra.TCloseness(0.3, "amount", "ordered")


TestIndexModel = IndexModel.TestCase
TestPrivateIndexModel = PrivateIndexModel.TestCase
TestComparedIndexModel = ComparedIndexModel.TestCase
for each in (TestIndexModel, TestPrivateIndexModel, TestComparedIndexModel):
    each.settings = settings(
        max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
    )
