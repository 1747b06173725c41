"""`changes` under random histories: for every method, compacted or not, what it says leads from one release to another.

Also what it refuses: no replacement that passes has gained or lost from 1 to k - 1 rows, and what is refused has one.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.errors import PrivacyError, UsageError
from tests.index.making import tiny

K = 3
METHODS = ("optimal", "greedy", "hierarchical")
WAYS = [(method, compact) for method in METHODS for compact in (True, False)]

steps = st.tuples(
    st.sampled_from(["insert", "delete", "update", "far", "new city", "missing", "nothing"]), st.integers(1, 40)
)


def rows(draw: np.random.Generator, n: int, what: str) -> pa.Table:
    ages = draw.integers(0, 90, n)
    cities: list[Any] = draw.choice(["Aachen", "Bonn", "Celle"], n).tolist()
    if what == "far":
        ages[: max(n // 3, 1)] += 10_000
    if what == "new city":
        cities[0] = f"city {draw.integers(30)}"
    if what == "missing":
        cities[-1] = None
    return pa.table({"age": ages, "city": cities, "illness": draw.choice(["flu", "cold"], n), "note": draw.random(n)})


def change(index: ra.Index, draw: np.random.Generator, known: list[int], what: str, n: int) -> None:
    if what in ("delete", "update"):
        chosen = sorted(draw.permutation(known)[:n].tolist())
        if what == "delete":
            index.delete(chosen)
            known[:] = [row for row in known if row not in set(chosen)]
        elif chosen:
            index.update(chosen, rows(draw, len(chosen), what))
    elif what != "nothing":
        known.extend(index.insert(rows(draw, n, what)).tolist())
    index.checkpoint()


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def check_histories(seed: int, history: list[tuple[str, int]], k: int, n_rows: int) -> None:
    draw = np.random.default_rng(seed)
    schema = ra.Schema(["age", ra.Categorical("city", allow_new=True)], sensitive=["illness"], keep=["note"])
    with (
        tempfile.TemporaryDirectory() as directory,
        tiny(),
        ra.Index.create(Path(directory) / "i", schema, k=K) as index,
    ):
        index.load(rows(draw, n_rows, ""))
        known = list(range(n_rows))
        published = {index.version: released(index, k)}
        for what, n in history:
            change(index, draw, known, what, n)
            if len(known) >= k:
                published.setdefault(index.version, released(index, k))
        now = published.get(index.version)
        if now is None:
            return
        kept = {version.version for version in index._current.catalog.history} | {index.version}
        for since, before in published.items():
            for way in WAYS:
                if since not in kept:
                    with pytest.raises(UsageError, match="not kept"):
                        index.changes(since, k, *way)
                else:
                    check(index, since, k, way, before[way], now[way])


def released(index: ra.Index, k: int) -> dict[tuple[str, bool], pa.Table]:
    return {(method, compact): index.release(k, method, compact).to_arrow() for method, compact in WAYS}


def check(index: ra.Index, since: int, k: int, way: tuple[str, bool], before: pa.Table, now: pa.Table) -> None:
    changes = index.changes(since, k, *way, allow_small=True)
    after = changes.apply_to(before)
    assert after.schema.names == now.schema.names and counted(after) == counted(now)
    facts = changes.facts()
    assert facts["rows_added"] - facts["rows_dropped"] == now.num_rows - before.num_rows
    assert facts["gained"] - facts["lost"] == now.num_rows - before.num_rows
    deltas = changes.replacements["gained"].to_pylist() + changes.replacements["lost"].to_pylist()
    if any(0 < delta < k for delta in deltas):
        with pytest.raises(PrivacyError, match=f"fewer than {k} rows"):
            index.changes(since, k, *way)
    else:
        assert index.changes(since, k, *way).facts() == facts


histories = given(
    seed=st.integers(0, 2**20),
    history=st.lists(steps, min_size=1, max_size=6),
    k=st.sampled_from([3, 4, 11]),
    n_rows=st.sampled_from([12, 90, 400]),
)


@settings(max_examples=15, deadline=None)
@histories
def test_changes_lead_from_any_version_to_this_one(seed: int, history: Any, k: int, n_rows: int) -> None:
    check_histories(seed, history, k, n_rows)


@pytest.mark.deep
@settings(max_examples=400, deadline=None)
@histories
def test_changes_lead_from_any_version_to_this_one_deep(seed: int, history: Any, k: int, n_rows: int) -> None:
    check_histories(seed, history, k, n_rows)
