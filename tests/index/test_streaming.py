"""Inserts, deletes and updates through `Index`: what was acknowledged is there, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rtree_anon as ra
from rtree_anon.errors import InputError, PrivacyError, UsageError
from rtree_anon.index import directory, streaming, updating
from rtree_anon.storage import journal
from tests.index.making import rows_by_id, tiny

SCHEMA = ra.Schema(["age", ra.Categorical("city", allow_new=True)], sensitive=["illness"], keep=["amount"])
CITIES = ["Aachen", "Bonn", "Celle"]


def rows(generator: np.random.Generator, n: int, cities: list[str] = CITIES) -> pa.Table:
    return pa.table(
        {
            "age": generator.integers(0, 90, n),
            "city": generator.choice(cities, n),
            "illness": generator.choice(["flu", "cold", "none"], n),
            "amount": generator.random(n),
        }
    )


def tuples(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(3)


def test_insert_delete_update(tmp_path: Path, generator: np.random.Generator) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
        first = rows(generator, 300)
        index.load(first)
        expected = rows_by_id(index)
        more = rows(generator, 120, [*CITIES, "Ulm"])
        ids = index.insert(more)
        assert ids.tolist() == list(range(300, 420))
        assert len(index) == 420
        expected |= dict(zip(ids.tolist(), tuples(more), strict=True))
        index.delete([5, 301, 17])
        for gone in (5, 301, 17):
            del expected[gone]
        new = rows(generator, 2)
        index.update([6, 302], new)
        expected |= dict(zip([6, 302], tuples(new), strict=True))
        version = index.checkpoint()
        assert index.version == version
        assert rows_by_id(index) == expected
        index.verify()
        assert index.checkpoint() == version, "nothing has changed"


@pytest.mark.parametrize("at_once", [7, 64])
def test_the_directory_is_changed_in_slices(
    tmp_path: Path, generator: np.random.Generator, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """On disk, where a page at the edge of two slices is read again in the transaction that has written it."""
    monkeypatch.setattr(directory, "_CHANGES_AT_ONCE", at_once)
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
        index.load(rows(generator, 300))
        expected = rows_by_id(index)
        for _ in range(4):
            more = rows(generator, 150)
            ids = index.insert(more)
            expected |= dict(zip(ids.tolist(), tuples(more), strict=True))
            gone = generator.permutation(sorted(expected))[:60]
            index.delete(gone)
            for row in gone.tolist():
                del expected[row]
            index.checkpoint()
            assert rows_by_id(index) == expected
            index.verify()


def test_the_directory_is_told_while_bundles_are_renewed(
    tmp_path: Path, generator: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where more rows change bundles than there is memory for: those of several stretches, one after the other."""
    monkeypatch.setattr(updating, "_BYTES_PER_MOVED", 1 << 40)  # no memory
    monkeypatch.setattr(updating, "STRETCH_ROWS", 100)
    told: list[int] = []
    change = directory.Directory.change

    def counted(self: directory.Directory, *arguments: Any) -> None:
        told.append(sum(len(ids) for ids, _ in arguments[1]))
        change(self, *arguments)

    monkeypatch.setattr(directory.Directory, "change", counted)
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
        index.load(rows(generator, 2000))
        expected = rows_by_id(index)
        for _ in range(4):
            more = rows(generator, 20)
            ids = index.insert(more)
            expected |= dict(zip(ids.tolist(), tuples(more), strict=True))
            gone = generator.permutation(sorted(expected))[:300]
            index.delete(gone)
            for row in gone.tolist():
                del expected[row]
            told.clear()
            index.checkpoint()
            assert rows_by_id(index) == expected
            index.verify()
            assert len(told) > 1, "not only the rest at the end"
            assert told[0] > 0


def test_an_index_that_begins_with_inserts(tmp_path: Path, generator: np.random.Generator) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
        some = rows(generator, 2)
        index.insert(some)
        index.checkpoint()
        index.verify()
        with pytest.raises(PrivacyError):
            index.release(k=3)
        more = rows(generator, 100)
        index.insert(more.to_pylist())
        assert index.release(k=3).n_rows == 102
        index.verify()
        index.delete(range(102))
        index.checkpoint()
        index.verify()
        assert len(index) == 0
        assert index.insert(more).tolist() == list(range(102, 202))
        index.checkpoint()
        index.verify()


def test_unknown_ids_change_nothing(tmp_path: Path, generator: np.random.Generator) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=2) as index:
        index.load(rows(generator, 50))
        index.delete([7])
        for ids in ([1, 50], [7], [-1], [2**61]):
            with pytest.raises(InputError, match="there is no row"):
                index.delete(ids)
            with pytest.raises(InputError, match="there is no row"):
                index.update(ids, rows(generator, len(ids)))
        with pytest.raises(UsageError, match="twice"):
            index.delete([1, 1])
        with pytest.raises(UsageError):
            index.delete(["a"])
        with pytest.raises(UsageError, match="one row for every id"):
            index.update([1, 2], rows(generator, 3))
        index.checkpoint()
        assert sorted(rows_by_id(index)) == [row for row in range(50) if row != 7]


def test_bad_rows_change_nothing(tmp_path: Path, generator: np.random.Generator) -> None:
    schema = ra.Schema(["age", "city"], sensitive=["illness"])
    with tiny(), ra.Index.create(tmp_path / "i", schema, k=2) as index:
        index.load(rows(generator, 50))
        bad = [{"age": 1, "city": "Bonn", "illness": "new"}, {"age": 2, "city": "Nowhere", "illness": "newer"}]
        with pytest.raises(InputError, match="Nowhere"):
            index.insert(bad)
        assert len(index) == 50
        index.insert(bad[:1])
        index.checkpoint()
        index.verify()
        assert rows_by_id(index)[50] == (1, "Bonn", "new")


def test_domains_grow(tmp_path: Path, generator: np.random.Generator) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=2) as index:
        index.load(rows(generator, 60))
        odd = pa.table({"age": [-1000, 2**20, None], "city": ["Zwickau", None, "Essen"]})
        odd = odd.append_column("illness", pa.array(["x", None, "y"])).append_column(
            "amount", pa.array([1.0, 2.0, None])
        )
        index.insert(odd)
        index.checkpoint()
        index.verify()
        found = rows_by_id(index)
        assert [found[row] for row in (60, 61, 62)] == tuples(odd)
        assert index.release(k=2).n_rows == 63


@pytest.mark.parametrize("n", [40, 1500])  # many rows are packed for the journal
def test_what_was_acknowledged_survives(tmp_path: Path, generator: np.random.Generator, n: int) -> None:
    with tiny(memory_bytes=4_000_000):
        with ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
            index.load(rows(generator, 100))
            expected = rows_by_id(index)
            more = rows(generator, n, [*CITIES, "Kiel"])
            more = more.set_column(1, "city", pa.concat_arrays([pa.nulls(1, pa.string()), more["city"][1:].chunk(0)]))
            index.insert(more)
            index.delete([3, 120])
        with ra.Index.open(tmp_path / "i") as reader:
            assert len(reader) == 100, "readers see versions, never the journal"
        expected |= dict(zip(range(100, 100 + n), tuples(more), strict=True))
        del expected[3], expected[120]
        with ra.Index.open(tmp_path / "i", mode="w") as index:
            assert len(index) == len(expected)
            assert index.insert(rows(generator, 1)).tolist() == [100 + n]
            index.delete([100 + n])
            index.checkpoint()
            assert rows_by_id(index) == expected
            index.verify()


def test_keys_are_ids(tmp_path: Path) -> None:
    schema = ra.Schema(["age"], key="number")
    with tiny(), ra.Index.create(tmp_path / "i", schema, k=2) as index:
        index.load(pa.table({"age": np.arange(40) % 7, "number": np.arange(40) * 1000}))
        assert index.insert([{"age": 3, "number": 17}]).tolist() == [17]
        for taken in (17, 5000):
            with pytest.raises(InputError, match="names more than one row"):
                index.insert([{"age": 3, "number": taken}])
        index.delete([5000])
        index.insert([{"age": 4, "number": 5000}])
        index.update([17], [{"age": 6, "number": 17}])
        with pytest.raises(UsageError, match="keys"):
            index.update([17], [{"age": 6, "number": 18}])
        index.checkpoint()
        index.verify()
        assert {row: values for row, values in rows_by_id(index).items() if row in (17, 5000)} == {17: (6,), 5000: (4,)}


def test_keys_of_an_index_that_begins_with_inserts(tmp_path: Path) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", ra.Schema(["age"], key="number"), k=2) as index:
        assert index.insert([{"age": row, "number": row * 9} for row in range(20)]).tolist() == list(range(0, 180, 9))
        index.delete([9])
        index.checkpoint()
        index.verify()


def test_a_clean_close_loses_nothing(tmp_path: Path, generator: np.random.Generator) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
        index.insert(rows(generator, 10), durable=False)
    with ra.Index.open(tmp_path / "i", mode="w") as index:
        assert len(index) == 10


def test_a_full_buffer_makes_a_version(tmp_path: Path, generator: np.random.Generator) -> None:
    with tiny(memory_bytes=400_000), ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
        index.load(rows(generator, 100))
        version = index.version
        for _ in range(10):
            index.insert(rows(generator, 400))
        assert index.version > version
        assert len(index) == 4100
        index.checkpoint()
        index.verify()


def test_new_categories_that_change_the_order_of_others(tmp_path: Path, generator: np.random.Generator) -> None:
    """More than 63 categories are measured in another way: all rows are cut anew, and keep their ids."""
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=2) as index:
        index.load(rows(generator, 100))
        ids = index.insert(rows(generator, 200, [f"city {number}" for number in range(100)]))
        assert ids.tolist() == list(range(100, 300))
        index.verify()
        index.delete(ids[:50])
        index.checkpoint()
        index.verify()
        assert len(index) == 250


def test_an_update_that_is_refused_leaves_no_value_behind(tmp_path: Path) -> None:
    """Rows of known types are coded at once; a new text of theirs must not stay in a dictionary."""
    rows = pa.table({"age": list(range(20, 40)), "illness": ["flu", "cold"] * 10})
    with ra.Index.create(tmp_path / "index", ra.Schema(["age"], sensitive=["illness"]), k=3) as index:
        ids = index.insert(rows)
        index.checkpoint()
        before = index.stats()["dictionary_bytes"]
        refused = pa.table({"age": [25, 26], "illness": ["a secret", "another"]})
        with pytest.raises(UsageError, match="1 ids were given for 2 rows"):
            index.update(ids[:1], refused)
        index.insert(rows.slice(0, 1))
        index.checkpoint()
        assert index.stats()["dictionary_bytes"] == before


@pytest.mark.parametrize("n_frames", [0, 1, 2])
def test_a_part_of_an_operation_never_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generator: np.random.Generator, n_frames: int
) -> None:
    """P2, P3: an operation of several frames is torn by a crash, and so is what comes after it.

    The part that had reached the disk was once joined to the next operation, when the journal was replayed again.
    """
    with tiny(), ra.Index.create(tmp_path / "index", SCHEMA, k=4) as index:
        index.load(rows(generator, 100))
    monkeypatch.setattr(streaming, "_RECORD_ROWS", 20)
    monkeypatch.setattr(journal, "MAX_RECORD_BYTES", 6_000)  # of a frame
    with ra.Index.open(tmp_path / "index", mode="w") as index:
        write, written = journal.Journal._write_frame, []

        def torn(self: journal.Journal, records: list[bytes]) -> None:
            if len(written) == n_frames:
                raise OSError("the power is gone")
            written.append(len(records))
            write(self, records)

        with monkeypatch.context() as patched:
            patched.setattr(journal.Journal, "_write_frame", torn)
            with pytest.raises(OSError, match="power"):
                index.insert(rows(generator, 200))
        assert sum(written) < 10
    for turn in range(3):
        with ra.Index.open(tmp_path / "index", mode="w") as index:
            assert len(index) == 100 + turn
            assert index.insert(rows(generator, 1)).tolist() == [100 + turn]
    with ra.Index.open(tmp_path / "index", mode="w") as index:
        index.checkpoint()
        index.verify()
        assert len(index) == 103
