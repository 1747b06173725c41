"""A disk-loaded index is as good as the tree in memory, whatever the order of the input, and however little memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import rtree_anon as ra

ROWS = 60_000
SOURCE = ra.generate("agrawal", ROWS, seed=4)
SCHEMA = ra.Schema.infer(SOURCE, SOURCE.column_names)


def certainty(path: Path, source: pa.Table, quality: str = "balanced", memory: str = "16MB") -> float:
    with ra.Index.create(path, SCHEMA, k=5, quality=quality, memory=memory) as index:
        index.load(source)
        assert index.verify().n_rows == source.num_rows
        return float(index.release(10).quality()["certainty"])


@pytest.mark.parametrize("quality", ["fast", "balanced", "best"])
def test_as_good_as_in_memory(tmp_path: Path, quality: str) -> None:
    in_memory = ra.anonymize(SOURCE, k=10, schema=SCHEMA, base_k=5, quality=quality).quality()["certainty"]
    assert certainty(tmp_path / "i", SOURCE, quality) <= 1.02 * in_memory


def test_as_good_in_any_order(tmp_path: Path) -> None:
    shuffled = certainty(tmp_path / "shuffled", SOURCE)
    order = SOURCE.sort_by([("salary", "ascending"), ("age", "ascending")])
    blocks = np.random.default_rng(0).permutation(ROWS // 500)
    clustered = pa.concat_tables([order.slice(int(block) * 500, 500) for block in blocks])
    for name, source in (("sorted", order), ("reversed", order.take(np.arange(ROWS)[::-1])), ("clustered", clustered)):
        assert certainty(tmp_path / name, source) <= 1.10 * shuffled, name


def test_a_second_load_is_as_good_as_one(tmp_path: Path) -> None:
    whole = certainty(tmp_path / "whole", SOURCE)
    with ra.Index.create(tmp_path / "parts", SCHEMA, k=5, memory="16MB") as index:
        order = SOURCE.sort_by("age")
        for begin in (0, ROWS // 3, 2 * ROWS // 3):
            index.load(order.slice(begin, ROWS // 3))
        assert index.release(10).quality()["certainty"] <= 1.02 * whole


def test_duplicates_and_constants(tmp_path: Path) -> None:
    """99 % of the rows are the same, or a column is: the others are cut as if alone."""
    rng = np.random.default_rng(1)
    n = 20_000
    rare = rng.random(n) < 0.01
    table = pa.table({name: np.where(rare, rng.integers(0, 1000, n), 7) for name in ("a", "b", "c")})
    with ra.Index.create(tmp_path / "d", ra.Schema(["a", "b", "c"]), k=5, memory="16MB") as index:
        index.load(table)
        report = index.verify()
        assert report.largest_leaf >= 0.98 * n and report.n_leaves > 10
        in_memory = ra.anonymize(table, k=5, quasi=["a", "b", "c"]).quality()["certainty"]
        assert index.release(5).quality()["certainty"] <= 1.1 * in_memory
    constant = SOURCE.set_column(0, "salary", pa.array(np.full(ROWS, 3, np.int32)))
    with ra.Index.create(tmp_path / "c", ra.Schema(SOURCE.column_names), k=5, memory="16MB") as index:
        index.load(constant)
        index.verify()
        in_memory = ra.anonymize(constant, k=10, quasi=SOURCE.column_names).quality()["certainty"]
        assert index.release(10).quality()["certainty"] <= 1.02 * in_memory
