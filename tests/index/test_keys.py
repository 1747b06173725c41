"""Rows named by keys that are no whole numbers: found without a dictionary, unique, and never taken for one another."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

import rtree_anon as ra
from rtree_anon.errors import InputError, UsageError
from rtree_anon.index import gathering
from rtree_anon.io.key_column import KeyColumn
from tests.cli.running import run
from tests.index.making import rows_by_id, tiny

SCHEMA = ra.Schema(["age"], sensitive=["illness"], key="visit")


def table(names: list[Any], seed: int = 0) -> pa.Table:
    generator = np.random.default_rng(seed)
    return pa.table({"age": generator.integers(0, 90, len(names)), "illness": ["flu"] * len(names), "visit": names})


def names(n: int, first: int = 0) -> list[str]:
    return [f"visit/{number:04}-{'x' * (number % 5)}" for number in range(first, first + n)]


def found(index: ra.Index) -> dict[Any, int]:
    """Age by key."""
    index.checkpoint()
    index.verify()
    return {row[2]: row[0] for row in rows_by_id(index).values()} if len(index) else {}


def test_insert_update_and_delete_by_text(tmp_path: Path) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=3) as index:
        first, more = table(names(200)), table(names(50, 200), seed=1)
        index.load(first)
        inserted = index.insert(more)
        assert inserted.tolist() == more["visit"].to_pylist()
        expected = dict(zip(first["visit"].to_pylist(), first["age"].to_pylist(), strict=True))
        expected |= dict(zip(more["visit"].to_pylist(), more["age"].to_pylist(), strict=True))
        index.delete(names(20, 190))  # of the tree and of what waits
        for gone in names(20, 190):
            del expected[gone]
        index.update(
            names(1) + names(1, 220), [{"age": 7, "illness": "x", "visit": v} for v in names(1) + names(1, 220)]
        )
        expected |= dict.fromkeys(names(1) + names(1, 220), 7)
        assert found(index) == expected
        index.insert(table(names(1, 190)))  # a key that is free again
        index.delete(names(1, 190)[0])
        index.delete(pa.array(names(2, 10)))
        index.delete(np.array(names(2, 12), object))
        for gone in names(4, 10):
            del expected[gone]
    with ra.Index.open(tmp_path / "i", mode="w") as index:  # from the journal
        assert found(index) == expected
        released = index.release(k=3).to_arrow(key=True)
        assert sorted(released["visit"].to_pylist()) == sorted(expected)
        assert "visit" not in index.release(k=3).to_arrow().schema.names


def test_unknown_and_taken_keys_change_nothing(tmp_path: Path) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=2) as index:
        index.load(table(names(40)))
        index.insert(table(names(5, 40)))
        before = len(index)
        for unknown in ("none", "x" * 500, names(1)[0] + "\0", ""):
            with pytest.raises(InputError, match="there is no row"):
                index.delete([names(1)[0], unknown])
            with pytest.raises(InputError, match="there is no row"):
                index.update([unknown], table([unknown]))
        for taken in (names(1), names(1, 42), ["new", "new"]):
            with pytest.raises(InputError, match=f"the key {taken[0]!r} names more than one row"):
                index.insert(table(taken))
        with pytest.raises(InputError, match="the key is missing"):
            index.insert(table(["new", None]))
        with pytest.raises(UsageError, match="twice"):
            index.delete(names(1) + names(1))
        for wrong in ([1.5], [None], [["a"]]):
            with pytest.raises((UsageError, InputError)):
                index.delete(wrong)
        with pytest.raises(UsageError, match="must have the keys"):
            index.update(names(1), table(names(1, 1)))
        assert len(index) == before == len(found(index))
        assert index.insert(table([])).tolist() == []


def test_a_load_into_an_index_with_keys(tmp_path: Path) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=2) as index:
        index.load(table(names(100)))
        index.load(table(names(100, 100)))
        assert len(found(index)) == 200
        with pytest.raises(InputError, match=r"the key 'visit/000[789]-x+' names more than one row"):
            index.load(table(names(3, 7)))
        assert len(found(index)) == 200
        index.delete(names(1, 150))
        assert len(found(index)) == 199


def test_keys_that_are_longer_than_any_before(tmp_path: Path) -> None:
    """There is room for twice the longest; beyond that all rows are loaded anew, with more room."""
    long = ["y" * 300, "z" * 301]
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=2) as index:
        index.load(table(names(50)))
        assert index.insert(iter(table(long[:1]).to_batches())).tolist() == long[:1]
        assert index.insert(table(long[1:])).tolist() == long[1:]
        assert set(found(index)) == {*names(50), *long}
        index.delete([long[0], names(1)[0]])
        assert set(found(index)) == {*names(49, 1), long[1]}
        with pytest.raises(InputError, match="bytes; the longest"):
            index.insert(table(["q" * 10_000]))


@pytest.mark.parametrize(
    "keys",
    [
        [datetime.date(2020, 1, 1) + datetime.timedelta(day) for day in range(30)],
        [bytes([number, 0, 255]) for number in range(30)],
        [number / 8 for number in range(30)],
        pa.array([f"{number}.50" for number in range(30)]).cast(pa.decimal128(9, 2)),
        [-number for number in range(1, 31)],
    ],
    ids=["dates", "binary", "floats", "decimals", "negative"],
)
def test_other_types(tmp_path: Path, keys: Any) -> None:
    if isinstance(keys, list) and keys[0] == -1:  # whole numbers that cannot be ids come as text
        keys = list(map(str, keys))
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=2) as index:
        index.load(table(keys[:25]))
        index.insert(table(keys[25:]))
        values = pa.array(keys).to_pylist()
        index.delete(values[3:5] + values[26:27])
        assert set(found(index)) == set(values) - {values[3], values[4], values[26]}


def weak(self: KeyColumn, codes: Any) -> Any:
    """Ids of very few bits for the first salt; those of any other are fine."""
    ids = strong(self, codes)
    return ids % 64 if self.salt == KeyColumn("x", pa.string(), 28).salt else ids


strong = KeyColumn.ids


def test_different_keys_with_one_hash(tmp_path: Path) -> None:
    """A load is made again with another salt; an insert becomes a load; a delete finds the right row or none."""
    with mock.patch.object(KeyColumn, "ids", weak), tiny():
        with ra.Index.create(tmp_path / "i", SCHEMA, k=2) as index:
            index.load(table(names(200)))  # cannot have different ids with the first salt
            assert len(found(index)) == 200
        with ra.Index.create(tmp_path / "j", SCHEMA, k=2) as index:
            for name in names(30):
                assert index.insert(table([name])).tolist() == [name]
            assert set(found(index)) == set(names(30))
            for name in names(30, 30):
                with pytest.raises(InputError, match="there is no row"):
                    index.delete([name])
            with pytest.raises(InputError, match="names more than one row"):
                index.insert(table(names(2, 30) + names(1, 3)))
            index.delete(names(10))
            assert set(found(index)) == set(names(20, 10))


def test_hashes_that_are_always_equal(tmp_path: Path) -> None:
    equal = mock.patch.object(KeyColumn, "ids", lambda self, codes: np.zeros(codes.shape[1], np.int64))
    with equal, tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=2) as index:
        with pytest.raises(UsageError, match="hashes are equal"):
            index.load(table(names(5)))
        assert len(index) == 0


@pytest.mark.parametrize("twice", [None, 0, 377])
def test_the_directory_is_sorted_outside_memory(tmp_path: Path, twice: int | None) -> None:
    """Runs that are merged part by part give what a sort in memory gives, and meet keys that come twice."""
    keys = [*np.random.default_rng(5).permutation(100_000)[:400].tolist()]
    keys += [] if twice is None else [keys[twice]]
    for key in (keys, list(map(str, keys))):
        with (
            tiny(),
            mock.patch.object(gathering, "_RUN_ROWS", (40, 40)),
            mock.patch.object(gathering, "_SAMPLED", 8),
            ra.Index.create(tmp_path / f"{type(key[0]).__name__}.idx", SCHEMA, k=2) as index,
        ):
            if twice is None:
                index.load(table(key))
                index.verify()
            else:
                with pytest.raises(InputError, match="names more than one row"):
                    index.load(table(key))


def test_commands(tmp_path: Path) -> None:
    """Keys with leading zeros stay text; a file of keys names rows for delete and update."""
    path = tmp_path / "people.idx"
    with ra.Index.create(path, SCHEMA, k=2) as index:
        index.load(table([f"{number:05}" for number in range(40)]))
    pc.write_csv(table(["00100", "a,b", 'say "x"']), tmp_path / "new.csv")
    done = run("insert", str(path), str(tmp_path / "new.csv"), "--ids")
    assert done.code == 0 and done.out.splitlines() == ["00100", "a,b", 'say "x"']
    (tmp_path / "gone.csv").write_text('visit\n00003\n"a,b"\n')
    done = run("delete", str(path), "--ids", str(tmp_path / "gone.csv"), "--json")
    assert done.code == 0 and json.loads(done.out)["rows"] == 41
    done = run("delete", str(path), "--ids", str(tmp_path / "gone.csv"))
    assert done.code == 1 and "there is no row '00003' (and 1 more); nothing was changed" in done.err
    (tmp_path / "changed.csv").write_text("visit,age,illness\n00004,77,gone\n")
    done = run("update", str(path), str(tmp_path / "changed.csv"), "--json")
    assert done.code == 0 and json.loads(done.out)["rows_updated"] == 1
    with ra.Index.open(path) as index:
        assert {row[2]: row[:2] for row in rows_by_id(index).values()}["00004"] == (77, "gone")
    (tmp_path / "empty.csv").write_text("visit\n00005\n\n")
    done = run("insert", str(path), str(tmp_path / "new.csv"))
    assert done.code == 1 and "the key '00100' names more than one row" in done.err
