"""The state machine of test_model.py under privacy models, with people who have several rows.

No version that anybody can see has a leaf that breaks the model, by its definition; nothing is refused that could be
released, and rows that cannot be released are kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import rtree_anon as ra
from rtree_anon.models import Model
from rtree_anon.models.fitting import with_k
from tests.index.conftest import COUNTS
from tests.index.making import rows_by_id
from tests.index.test_model import IndexModel, K, Name, Row, run_model
from tests.models.naive_models import World, holds
from tests.storage.deep import accumulate


class PrivateIndexModel(IndexModel):
    """With a model of diversity: whatever comes and goes, every leaf satisfies it."""

    schema = ra.Schema(
        ["age", ra.Categorical("city", allow_new=True)], sensitive=["illness", "amount"], identity="person"
    )
    privacy: Model = ra.DistinctLDiversity(3, "illness") & ra.EntropyLDiversity(2.2, "illness")
    first_rows = (0, 2, 150, 900)

    @rule(young=st.integers(0, 89), years=st.integers(5, 60), stays=st.sampled_from(["flu", "cold", "none", None]))
    def only_one_illness_stays(self, young: int, years: int, stays: str | None) -> None:
        """Many rows go, and those that stay beside each other are all alike: whole bundles cannot stand alone."""
        age, ill = (self.schema.column_names.index(name) for name in ("age", "illness"))
        gone = [
            name
            for name, row in self.current.items()
            if row[age] is not None and young <= row[age] < young + years and row[ill] != stays
        ]
        self.index.delete(gone)
        for name in gone:
            del self.current[name]
        if gone:
            self.acknowledged(True)

    def rows(self, n: int, names: list[Name] | None = None) -> pa.Table:
        """Now and then many rows of one person, or of one illness, or of one age."""
        table, draw = super().rows(n, names), self.generator
        if n < 100 and draw.random() < 0.3:
            table = table.set_column(0, "age", pa.array(draw.integers(0, 4, n)))
        n_people, n_ill = draw.integers(1, 40), draw.integers(1, 5) if n < 100 else 4
        columns = {
            "illness": draw.choice(["flu", "cold", "none", None][:n_ill], n).tolist(),
            "amount": draw.integers(0, 4, n).tolist(),
            "person": draw.integers(0, n_people, n).tolist(),
        }
        for name, values in columns.items():
            column = pa.array(values, pa.string() if name == "illness" else pa.int64())
            place = table.schema.get_field_index(name)
            table = table.append_column(name, column) if place < 0 else table.set_column(place, name, column)
        return table.select([*self.schema.column_names, *(["visit"] if self.key != "none" else [])])

    def world(self, rows: Collection[Row]) -> World:
        names = self.schema.column_names
        columns: dict[str, list[Any]] = {name: [row[place] for row in rows] for place, name in enumerate(names)}
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


MACHINES = pytest.mark.parametrize("machine", [PrivateIndexModel, ComparedIndexModel])


@MACHINES
def test_every_leaf_satisfies_the_model_whatever_happens(
    machine: type[RuleBasedStateMachine], tally: Callable[[str, int], None]
) -> None:
    tally(f"runs of {machine.__name__} (20 steps)", run_model(12, 20, 1, machine))


@pytest.mark.deep
@MACHINES
def test_every_leaf_satisfies_the_model_whatever_happens_deep(
    machine: type[RuleBasedStateMachine], tally: Callable[[str, int], None]
) -> None:
    what = f"runs of {machine.__name__} (50 steps)"
    n_now, total = accumulate(what, 300, lambda number: run_model(10, 50, number, machine), counts=COUNTS)
    tally(what, n_now)
    tally(f"{what}, all deep runs of this code", total)
