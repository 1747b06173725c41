"""`changes`: applied to the release of an earlier version, they give exactly the release of now."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rtree_anon as ra
from rtree_anon.errors import PrivacyError, UsageError
from tests.index.making import tiny
from tests.index.test_streaming import CITIES, SCHEMA, rows


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize(("method", "compact"), [("optimal", True), ("greedy", False), ("hierarchical", True)])
def test_applied_to_an_earlier_release(tmp_path: Path, method: str, compact: bool) -> None:
    generator = np.random.default_rng(1)
    options: dict[str, Any] = {"k": 4, "method": method, "compact": compact}
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
        index.load(rows(generator, 600))
        published = {index.version: index.release(**options).to_arrow()}
        for round_ in range(4):
            cities = CITIES if round_ < 3 else [*CITIES, "Trier"]  # a new category: other domains, all groups anew
            ids = index.insert(rows(generator, 30, cities))
            index.delete(ids[:3])
            index.delete(generator.choice(600, 5, replace=False) + 0 if round_ == 0 else [])
            index.update(ids[5:7], rows(generator, 2))
            version = index.checkpoint()
            now = index.release(**options).to_arrow()
            for since, table in published.items():
                changes = index.changes(since, **options, allow_small=True)
                assert counted(changes.apply_to(table)) == counted(now)
                assert (changes.since, changes.version) == (since, version)
            published[version] = now
        index.verify()
        nothing = index.changes(index.version, **options)
        assert nothing.n_dropped == nothing.n_added == 0


def test_only_the_neighbourhood_changes(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
        index.load(rows(generator, 3000))
        since = index.version
        index.delete([100])
        changes = index.changes(since, k=4, allow_small=True)
        assert 1 <= changes.n_dropped < 60
        assert pa.compute.sum(changes.replacements["lost"]).as_py() == 1
        assert pa.compute.sum(changes.replacements["gained"]).as_py() == 0


def test_small_deltas_are_refused(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
        index.load(rows(generator, 300))
        since = index.version
        index.update([7], rows(generator, 1))
        with pytest.raises(PrivacyError, match="fewer than 5 rows"):
            index.changes(since, k=5)
        same = pa.table({"age": [5] * 20, "city": ["Bonn"] * 20, "illness": ["flu"] * 20, "amount": [1.0] * 20})
        since = index.checkpoint()
        index.insert(same)
        changes = index.changes(since, k=5)
        assert changes.replacements["gained"].to_pylist() == [20]


def test_versions_that_are_not_kept(tmp_path: Path) -> None:
    generator = np.random.default_rng(4)
    with tiny():
        with ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
            index.load(rows(generator, 300))
            first = index.version
            for _ in range(30):
                index.insert(rows(generator, 4))
                index.checkpoint()
            index.verify()
            with pytest.raises(UsageError, match=f"version {first} is not kept"):
                index.changes(first, k=4)
        with ra.Index.open(tmp_path / "i") as reader:
            kept = [version.version for version in reader._current.catalog.history]
            assert len(kept) > 3
            assert reader.changes(kept[0], k=4, allow_small=True).since == kept[0]
