"""The whole index against a dictionary: any sequence of calls, crashes and reopenings, checked after every step.

Promises P1-P4 and P7 of the index: what was acknowledged is there after a crash, what was not durable may be missing
only from the end, deleted rows do not come back, nor their values once the index was scrubbed, readers keep their
version. Rows are named by ids, whole numbers or text; they have missing values, values outside all domains so far, and
new categories, also when they are updated.
"""

from __future__ import annotations

import datetime
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Hashable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import rtree_anon as ra
from rtree_anon.errors import InputError, PrivacyError, UsageError
from rtree_anon.models import Model
from tests.index.conftest import COUNTS
from tests.index.making import rows_by_id, tiny
from tests.storage.deep import accumulate

K = 3
KEYS = ("none", "whole", "text")
DAY = datetime.date(2000, 1, 1)
METHODS = ("optimal", "greedy", "hierarchical")

Name = Hashable  # an id or a key
Row = tuple[Any, ...]
Rows = dict[Name, Row]


class IndexModel(RuleBasedStateMachine):
    """`durable` is what a crash leaves, `current` what the writer has."""

    schema = ra.Schema(["age", ra.Categorical("city", allow_new=True), "born"], sensitive=["illness"], keep=["amount"])
    privacy: Model | None = None
    first_rows = (0, 2, 40, 150)

    @initialize(size=st.integers(0, 3), seed=st.integers(0, 2**20), key=st.sampled_from(KEYS), first=st.booleans())
    def create(self, size: int, seed: int, key: str, first: bool) -> None:
        n_rows = self.first_rows[size]
        self.stack = ExitStack()
        self.stack.enter_context(tiny())
        self.directory = Path(tempfile.mkdtemp())
        self.stack.callback(shutil.rmtree, self.directory)
        self.path = self.directory / "index"
        self.generator = np.random.default_rng(seed)
        self.key, self.n_named, self.n_odd = key, 0, 0
        schema = self.schema if key == "none" else replace(self.schema, key="visit")
        self.index = ra.Index.create(self.path, schema, k=K, model=self.privacy)
        self.current: Rows = {}
        self.durable: Rows = {}
        self.committed: Rows = {}
        self.published: dict[int, tuple[str, bool, pa.Table]] = {}
        self.readers: list[tuple[ra.Index, Rows]] = []
        if n_rows and first:
            self.load(n_rows)
        elif n_rows:
            self.insert(n_rows, True)

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            for reader, _ in self.readers:
                reader.close()
            self.index.close()
            self.stack.close()

    # ---- rows

    def rows(self, n: int, names: list[Name] | None = None) -> pa.Table:
        """Rows of which some have missing values, some lie outside of all before; new keys unless `names` are given."""
        draw = self.generator
        ages = draw.integers(0, 90, n)
        if draw.random() < 0.2:
            self.n_odd += 1
            ages[: n // 2] += int(draw.integers(-5000, 5000)) * self.n_odd
        cities = draw.choice(["Aachen", "Bonn", "Celle", f"city {draw.integers(20)}"], n).tolist()
        born = [DAY + datetime.timedelta(int(days)) for days in draw.integers(0, 9000 * (1 + self.n_odd % 3), n)]
        illness = draw.choice(["flu", "cold", f"illness {draw.integers(1000)}"], n).tolist()
        columns = {"age": ages.tolist(), "city": cities, "born": born, "illness": illness}
        for name, values in columns.items():
            columns[name] = [None if gone else one for one, gone in zip(values, draw.random(n) < 0.04, strict=True)]
        types = {"age": pa.int64(), "city": pa.string(), "born": pa.date32(), "illness": pa.string()}
        table = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
        table = table.append_column("amount", pa.array(draw.random(n)))
        if self.key != "none":
            keys = [self.new_key() for _ in range(n)] if names is None else names
            table = table.append_column("visit", pa.array(keys, pa.int64() if self.key == "whole" else pa.string()))
        return table

    def new_key(self) -> Name:
        self.n_named += 1
        number = (self.n_named * 7919) % 104_729
        return number if self.key == "whole" else f"{'v' * (number % 7)}{number}{'é' * (self.n_named // 60)}"

    def some_names(self, n: int) -> list[Name]:
        known = sorted(self.current, key=str)
        return [known[place] for place in self.generator.permutation(len(known))[:n].tolist()]

    def found(self, index: ra.Index) -> Rows:
        rows = rows_by_id(index) if len(index._current.tree) else {}
        return {row[-1]: row[:-1] for row in rows.values()} if self.key == "text" else dict(rows)

    def values(self, table: pa.Table) -> list[Row]:
        n_columns = len(self.schema.column_names)  # without the key
        return [tuple(row.values())[:n_columns] for row in table.to_pylist()]

    def illnesses(self) -> list[Any]:
        place = self.schema.column_names.index("illness")
        return [row[place] for row in self.current.values()]

    def is_possible(self, k: int, rows: Collection[Row]) -> bool:
        """Whether the rows can be released at k."""
        return len(rows) >= k

    def acknowledged(self, durable: bool) -> None:
        if durable:
            self.durable = dict(self.current)

    def settled(self) -> None:
        self.durable, self.committed = dict(self.current), dict(self.current)

    def refused(self, call: Callable[[], object], *errors: type[Exception]) -> None:
        before = len(self.index)
        with pytest.raises(errors):
            call()
        assert len(self.index) == before

    # ---- rules

    @rule(n=st.integers(1, 30), durable=st.booleans())
    def insert(self, n: int, durable: bool) -> None:
        table = self.rows(n)
        version = self.index.version
        names = self.index.insert(table, durable=durable).tolist()
        assert not set(names) & set(self.current)
        if self.key != "none":
            assert names == table["visit"].to_pylist()
        before = dict(self.current)
        self.current.update(zip(names, self.values(table), strict=True))
        if self.index.version != version:  # it was loaded, or memory was full
            self.committed = self.found(self.index)
            assert self.committed in (before, self.current)
            self.durable = dict(self.committed)
        self.acknowledged(durable)

    @rule(n=st.integers(1, 40))
    def load(self, n: int) -> None:
        table, before = self.rows(n), dict(self.current)
        try:
            assert self.index.load(table) == n
        except PrivacyError:
            assert not self.is_possible(K, [*before.values(), *self.values(table)])
            self.settled()
            return
        self.current = self.found(self.index)
        assert all(self.current[name] == row for name, row in before.items()) and len(self.current) == len(before) + n
        assert Counter(self.current.values()) == Counter(before.values()) + Counter(self.values(table))
        self.settled()

    @rule(n=st.integers(1, 40), durable=st.booleans())
    def delete(self, n: int, durable: bool) -> None:
        names = self.some_names(n)
        self.index.delete(names, durable=durable)
        for name in names:
            del self.current[name]
        if names:
            self.acknowledged(durable)

    @rule(n=st.integers(1, 8), durable=st.booleans())
    def update(self, n: int, durable: bool) -> None:
        names = self.some_names(n)
        if names:
            table = self.rows(len(names), names)
            self.index.update(names, table, durable=durable)
            self.current.update(zip(names, self.values(table), strict=True))
            self.acknowledged(durable)

    @rule()
    def refusals(self) -> None:
        """Unknown rows, keys that are taken, rows that are named twice: nothing changes."""
        known = self.some_names(2)
        unknown: Name = "nobody" if self.key == "text" else 2**61
        self.refused(lambda: self.index.delete([*known, unknown]), InputError, UsageError)
        self.refused(lambda: self.index.update([unknown], self.rows(1, [unknown])), InputError, UsageError)
        if known:
            self.refused(lambda: self.index.delete([known[0], known[0]]), UsageError)
            if self.key != "none":
                self.refused(lambda: self.index.insert(self.rows(2, [self.new_key(), known[0]])), InputError)

    @rule()
    def flush(self) -> None:
        self.index.flush()
        self.durable = dict(self.current)

    @rule()
    def checkpoint(self) -> None:
        assert self.index.checkpoint() == self.index.version
        self.settled()
        assert self.found(self.index) == self.current

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
    @rule(method=st.sampled_from(METHODS), compact=st.booleans())
    def release(self, method: str, compact: bool) -> None:
        if not self.is_possible(4, self.current.values()):
            self.refused(lambda: self.index.release(k=4, method=method, compact=compact), PrivacyError)
            self.settled()
            return
        release = self.index.release(k=4, method=method, compact=compact)
        self.settled()
        table = release.to_arrow()
        assert table.num_rows == len(self.current)
        assert release.smallest_group >= 4
        assert Counter(table["illness"].to_pylist()) == Counter(self.illnesses())
        self.published[self.index.version] = method, compact, table

    @precondition(lambda self: self.published and len(self.current) >= 4)
    @rule()
    def changes(self) -> None:
        since = min(self.published)
        method, compact, table = self.published.pop(since)
        self.index.checkpoint()
        self.settled()
        kept = [version.version for version in self.index._current.catalog.history]
        if since not in [*kept, self.index.version]:
            self.refused(lambda: self.index.changes(since, k=4), UsageError)
            return
        if not self.is_possible(4, self.current.values()):
            self.refused(lambda: self.index.changes(since, k=4, allow_small=True), PrivacyError)
            return
        changed = self.index.changes(since, k=4, method=method, compact=compact, allow_small=True).apply_to(table)
        now = self.index.release(k=4, method=method, compact=compact).to_arrow()
        as_rows = [Counter(tuple(row.values()) for row in each.to_pylist()) for each in (changed, now)]
        assert as_rows[0] == as_rows[1]

    @rule(scrub=st.booleans())
    def compact(self, scrub: bool) -> None:
        self.index.compact(scrub=scrub)
        self.settled()
        if scrub:
            self.knows_nothing_else()

    def knows_nothing_else(self) -> None:
        """Domains, categories and dictionaries are those of the rows that are left."""
        view = self.index._current
        illnesses = view.carried.dictionaries["illness"].values().to_pylist() if self.current else []
        assert set(illnesses) == set(self.illnesses()) - {None}
        for place, attribute in enumerate(view.catalog.schema.quasi):
            present = {row[place] for row in self.current.values()} - {None}
            if isinstance(attribute, ra.Categorical):
                assert set(attribute.values or ()) == present
            elif isinstance(attribute, ra.Numeric | ra.Date):
                assert attribute.domain == ((min(present), max(present)) if present else None)
            else:
                assert not self.current

    @invariant()
    def sound(self) -> None:
        if not hasattr(self, "index"):
            return
        self.index.verify()
        assert len(self.index) == len(self.current)
        for reader, expected in self.readers:
            assert self.found(reader) == expected


CHECKS = list(HealthCheck)


def run_model(examples: int, steps: int, first_seed: int, machine: type[RuleBasedStateMachine] = IndexModel) -> int:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=CHECKS,
        database=None,
        print_blob=True,
    )
    run_state_machine_as_test(seed(first_seed)(machine), settings=chosen)
    return examples


def test_the_index_is_its_model(tally: Callable[[str, int], None]) -> None:
    tally("runs of the state machine (25 steps)", run_model(30, 25, 1))


@pytest.mark.deep
def test_the_index_is_its_model_deep(tally: Callable[[str, int], None]) -> None:
    def step(number: int) -> int:
        return run_model(20, 50, number)

    n_now, total = accumulate("runs of the state machine (50 steps)", 1_000, step, counts=COUNTS)
    tally("runs of the state machine (50 steps)", n_now)
    tally("runs of the state machine, all deep runs of this code", total)
