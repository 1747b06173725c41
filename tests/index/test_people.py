"""People in an index that is scrubbed and goes on: the same person is recognised, whatever type names people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rtree_anon as ra

KINDS = {"text": lambda number: f"person {number}", "number": int, "bytes": lambda number: f"p{number}".encode()}


def visits(people: Any, kind: str, seed: int = 0) -> pa.Table:
    generator = np.random.default_rng(seed)
    n = len(people)
    return pa.table(
        {
            "age": generator.integers(0, 100, n),
            "ill": generator.choice(["flu", "cold", "gout"], n),
            "who": [KINDS[kind](number) for number in people],
        }
    )


@pytest.mark.parametrize("kind", KINDS)
def test_people_are_still_known_after_scrubbing(kind: str, tmp_path: Path) -> None:
    schema = ra.Schema(["age"], sensitive=["ill"], identity="who")
    people = np.repeat(np.arange(60), 3)
    with ra.Index.create(tmp_path / "i", schema, k=3, model=ra.DistinctLDiversity(2, on="ill")) as index:
        index.load(visits(people, kind))
        before = index.release(k=3)
        index.compact(scrub=True)
        index.verify()
        assert len(index) == len(people)
        # 300 rows of one person who is known already are no new people: all of them in one place need two others.
        more = visits([7] * 300, kind, seed=1).set_column(0, "age", pa.array([50] * 300))
        ids = index.insert(more)
        index.checkpoint()
        index.verify()
        table = index.release(k=3).to_arrow(identity=True)
        assert table.num_rows == len(people) + 300
        report = ra.check(table.rename_columns(["who" if n == "who" else n for n in table.column_names]),
                          quasi=["age"], sensitive=["ill"], identity="who")  # fmt: skip
        assert report.individuals is not None and report.individuals >= 3
        assert report.identity is not None and report.identity.n_individuals == 60
        index.delete(ids)
        index.checkpoint()
        index.verify()
        assert index.release(k=3).n_rows == before.n_rows == len(people)
