"""Inserts, deletes and updates under a privacy model: no version has a leaf that breaks it, near or far."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import rtree_anon as ra
from rtree_anon.errors import PrivacyError
from rtree_anon.models.fitting import with_k
from tests.index.making import rows_by_id, tiny
from tests.index.test_privacy_models import leaves_of

SCHEMA = ra.Schema(["x", "y"], sensitive=["illness"], keep=["row"], identity="person")
ILLNESSES = ["asthma", "cold", "flu", "none"]


def rows(
    n: int, seed: int, x: tuple[int, int] = (0, 1000), illnesses: list[str] = ILLNESSES, first: int = 0
) -> pa.Table:
    generator = np.random.default_rng(seed)
    return pa.table(
        {
            "x": generator.integers(*x, n),
            "y": generator.integers(0, 1000, n),
            "illness": generator.choice(illnesses, n),
            "row": np.arange(first, first + n),
            "person": generator.integers(0, n // 2 + 1, n) + first,
        }
    )


def test_a_far_away_insert_breaks_leaves_that_nobody_touched(tmp_path: Path) -> None:
    """Groups are compared with the whole table: many rows in one corner change what all others are held against."""
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3, model=ra.TCloseness(0.5, "illness")) as index:
        index.load(rows(1500, 1))
        before = {tuple(leaf) for leaf in leaves_of(index)}
        index.insert(rows(700, 2, x=(0, 10), illnesses=["flu"], first=1500))
        index.checkpoint()
        index.verify()
        after = {tuple(leaf) for leaf in leaves_of(index)}
        far = [leaf for leaf in before if min(leaf) < 1500 and leaf not in after]
        assert len(far) > 20 and len(before & after) > 20
        assert ra.check(index.release(5).to_arrow(), ["x", "y"], ["illness"]).t <= 0.5  # type: ignore[operator]


def test_bundles_that_cannot_stand_alone_go_with_their_neighbours(tmp_path: Path) -> None:
    """One illness is all that stays in a region of many bundles, with far more than k rows and people."""
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3, model=ra.DistinctLDiversity(3, "illness")) as index:
        index.load(rows(3000, 3))
        n_bundles = index.stats()["bundles"]
        there = rows_by_id(index)
        gone = [row for row, (x, _, illness, *_) in there.items() if x < 600 and illness != "flu"]
        index.delete(gone)
        index.checkpoint()
        index.verify()
        assert n_bundles > 30 and len(index) == 3000 - len(gone)
        illness = {values[3]: values[2] for values in there.values()}
        leaves = leaves_of(index)
        assert min(len({illness[row] for row in leaf}) for leaf in leaves) >= 3 and len(leaves) > 100


def test_a_table_that_breaks_the_model_is_kept_until_it_is_repaired(tmp_path: Path) -> None:
    model = ra.DistinctLDiversity(2, "illness")
    path = tmp_path / "i"
    with tiny(), ra.Index.create(path, SCHEMA, k=3, model=model) as index:
        ids = index.insert(rows(400, 4, illnesses=["flu"]))
        for _ in range(2):
            with pytest.raises(PrivacyError, match=r"DistinctLDiversity\(2.*it has 1 distinct values of 'illness'"):
                index.release(5)
            index.verify()
            assert len(index) == 400 and index.stats()["leaves"] == 1
            index.update(ids[:3], rows(3, 5, illnesses=["flu"]))
        index.insert(rows(400, 6, illnesses=["cold"], first=400))
        release = index.release(5)
        assert index.verify().n_leaves > 20 and release.n_rows == 800 and release.n_groups > 10
        found = rows_by_id(index)
        index.delete([row for row, values in found.items() if values[2] == "cold"])
        with pytest.raises(PrivacyError, match="it has 1 distinct values of 'illness'"):
            index.release(5)
    with ra.Index.open(path) as index:
        assert len(index) == 400 and index.verify().n_leaves == 1
        with pytest.raises(PrivacyError, match="cannot be met"):
            index.release(5)


def test_too_few_people(tmp_path: Path) -> None:
    """Many rows of few people: k counts people."""
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=4) as index:
        table = rows(300, 7)
        of_three = table.set_column(4, "person", pa.array(np.arange(300) % 3))
        ids = index.insert(of_three)
        with pytest.raises(PrivacyError, match=r"IdentityKAnonymity\(5\) cannot be met.*it has 3 people"):
            index.release(5)
        index.update(ids[:200], table.slice(0, 200))
        assert index.release(5).n_groups > 5
        index.verify()


def test_leaves_that_are_not_touched_keep_their_rows(tmp_path: Path) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3, model="entropy_l=2 on illness") as index:
        index.load(rows(1500, 8))
        generator = np.random.default_rng(9)
        for step in range(5):
            before = Counter(tuple(sorted(leaf)) for leaf in leaves_of(index))
            index.insert(rows(1, 20 + step, first=2000 + step))
            index.delete([int(generator.choice(sorted(rows_by_id(index))))])
            index.checkpoint()
            index.verify()
            after = Counter(tuple(sorted(leaf)) for leaf in leaves_of(index))
            assert sum((before - after).values()) < 40 < sum(before.values())


def test_updates_keep_leaves_as_small_as_a_load_does(tmp_path: Path) -> None:
    model, table = with_k(3, "person", ra.DistinctLDiversity(3, "illness")), rows(3000, 10)
    leaves = []
    for name, n_loaded in (("loaded", 3000), ("grown", 300)):
        with tiny(), ra.Index.create(tmp_path / name, SCHEMA, k=3, model=model) as index:
            index.load(table.slice(0, n_loaded))
            for begin in range(n_loaded, 3000, 300):
                index.insert(table.slice(begin, 300))
                index.checkpoint()
            leaves.append(index.verify().n_leaves)
    assert leaves[1] > 0.9 * leaves[0]


def test_changes_between_versions(tmp_path: Path) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3, model="t=0.5 on illness") as index:
        index.load(rows(800, 11))
        published = index.release(6).to_arrow()
        version = index.version
        index.insert(rows(60, 12, first=800))
        index.delete(list(range(30)))
        changes = index.changes(version, k=6, allow_small=True)
        now = index.release(6)
        assert Counter(map(str, changes.apply_to(published).to_pylist())) == Counter(
            map(str, now.to_arrow().to_pylist())
        )
        report = ra.check(now.to_arrow(identity=True), ["x", "y"], ["illness"], "person")
        assert report.individuals is not None and report.individuals >= 6 and report.unmet(index.model.demands()) == []
