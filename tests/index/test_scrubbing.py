"""What `compact(scrub=True)` leaves of deleted rows in the files: nothing, wherever values are kept (P4).

Secrets are looked for byte by byte in every file of the index: text as it is, in dictionaries that are compressed only
where the dictionary could hide it (so these are read back, too), numbers with distinctive bytes as text and in binary.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rtree_anon as ra
from tests.index.making import rows_by_id, tiny

NUMBER = 0x5EC2E7_5EC2E7  # no byte of it is zero
AGE = 0x5EC2E7A1
TEXT = "a secret of a deleted row"
DAY = datetime.date(1867, 3, 7)
MOMENT = datetime.datetime(1859, 11, 24, 5, 46, 40)

SCHEMA = ra.Schema(
    quasi=["age", "born", ra.Categorical("city", allow_new=True), "seen", "height"],
    sensitive=["illness"],
    keep=["ward", "note"],
    key="visit",
)


def rows(n: int, seed: int = 0, **fixed: Any) -> pa.Table:
    generator = np.random.default_rng(seed)
    day = datetime.date(2000, 1, 1)
    moment = datetime.datetime(2020, 1, 1)
    columns = {
        "age": generator.integers(0, 100, n).tolist(),
        "born": [day + datetime.timedelta(int(number)) for number in generator.integers(0, 5000, n)],
        "city": generator.choice(["Aachen", "Bonn"], n).tolist(),
        "seen": [moment + datetime.timedelta(seconds=int(number)) for number in generator.integers(0, 10**6, n)],
        "height": (generator.integers(1400, 2000, n) / 10).tolist(),
        "illness": generator.choice(["flu", "cold", None], n).tolist(),
        "ward": generator.integers(0, 9, n).tolist(),
        "note": [f"note {number}" for number in range(n)],
        "visit": [f"visit {seed} {number}" for number in range(n)],
    }
    return pa.table(columns | {name: [value] * n for name, value in fixed.items()})


def marked(n: int, seed: int) -> pa.Table:
    """Rows that are all secret, but for the ages of every second one, so that there are cuts between them."""
    table = rows(n, seed, city=f"city, {TEXT}", illness=f"illness, {TEXT}", note=f"note, {TEXT}", ward=NUMBER, born=DAY)
    table = table.set_column(3, "seen", pa.array([MOMENT] * n))
    table = table.set_column(8, "visit", pa.array([f"{TEXT} {number}" for number in range(n)]))
    return table.set_column(0, "age", pa.array([AGE if number % 2 else 50 for number in range(n)]))


def traces(path: Path) -> list[str]:
    """Where something of the secrets is left in the files, or in what they say when they are read."""
    half, whole = NUMBER.to_bytes(8, "little")[:4], NUMBER.to_bytes(8, "little")
    age = AGE.to_bytes(4, "little")
    needles = [TEXT.encode(), half, half[::-1], whole, age, DAY.isoformat().encode(), b"1859-11-24"]
    needles += [str(number).encode() for number in (NUMBER, AGE)]
    found = []
    for file in sorted(path.iterdir()):
        content = file.read_bytes()
        found += [f"{needle!r} in {file.name}" for needle in needles if needle in content]
    with ra.Index.open(path) as index:
        described = index.schema.to_toml(path.parent / "schema.toml") or (path.parent / "schema.toml").read_text()
        found += [f"{needle!r} in the schema" for needle in needles if needle.decode("latin-1") in described]
        dictionaries = index._current.carried.dictionaries
        found += [f"in the dictionary of {name}" for name, one in dictionaries.items() if TEXT in str(one.values())]
        if len(index._current.tree):
            cuts = index._current.tree.cuts
            own = index._current.tree
            found += ["a cut is outside all rows"] if _outside(cuts.axis, cuts.threshold, cuts.is_set, own) else []
    return found


def _outside(axis: Any, threshold: Any, is_set: Any, tree: Any) -> bool:
    lo, hi = tree.lo.min(axis=0)[axis], tree.hi.max(axis=0)[axis]
    return bool((~is_set & ((threshold < lo) | (threshold > hi))).any())


def values(index: ra.Index) -> dict[Any, Any]:
    return {row[-1]: row for row in rows_by_id(index).values()} if len(index) else {}


@pytest.mark.parametrize("first", ["load", "insert"])
def test_scrubbing_forgets_deleted_rows_and_earlier_versions(tmp_path: Path, first: str) -> None:
    path = tmp_path / "index"
    with ra.Index.create(path, SCHEMA, k=5) as index:
        if first == "load":
            index.load(pa.concat_tables([rows(500), marked(10, 2).replace_schema_metadata(None)]))
            index.delete([f"{TEXT} {number}" for number in range(10)])
        else:
            index.insert(rows(500))
        index.checkpoint()
        kept = index.insert(marked(20, 1))
        version = index.checkpoint()
        index.delete(kept[:10])
        some = index.insert(rows(6, 9, note=f"other, {TEXT}"))
        index.update(some, rows(6, 9))
        index.checkpoint()
        index.delete(kept[10:])
        index.compact()
        assert index.changes(since=version, k=5, allow_small=True) is not None  # the version is still there
        expected = values(index)
        assert traces(path)
        index.compact(scrub=True)
        index.verify()
        assert values(index) == expected and len(index) == 506
        with pytest.raises(ra.UsageError):
            index.changes(since=version, k=5)
        assert traces(path) == [] and not index._current.catalog.history
        index.insert(rows(50, 4))
        index.delete(["visit 0 3"])
        index.checkpoint()
        index.verify()
        assert index.release(k=5).n_rows == 555
    assert traces(path) == []


def test_ids_are_kept_and_never_given_again(tmp_path: Path) -> None:
    schema = ra.Schema(["age"], keep=["id"])
    with tiny(), ra.Index.create(tmp_path / "i", schema, k=2) as index:
        index.load(pa.table({"age": np.arange(90) % 31, "id": [f"n{number}" for number in range(90)]}))
        before = rows_by_id(index)
        index.delete([3, 89])
        index.compact(scrub=True)
        index.verify()
        assert rows_by_id(index) == {row: one for row, one in before.items() if row not in (3, 89)}
        assert index.insert([{"age": 5, "id": "x"}]).tolist() == [90]
        index.delete([4])
        index.checkpoint()
        index.verify()


def test_an_index_that_has_lost_all_rows(tmp_path: Path) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA, k=2) as index:
        index.compact(scrub=True)  # of an index that never had any
        index.delete(index.insert(marked(12, 0)))
        index.compact(scrub=True)
        index.verify()
        assert len(index) == 0 and traces(tmp_path / "i") == []
        index.insert(rows(30))
        assert index.release(k=2).n_rows == 30
        index.verify()


def test_what_was_declared_stays(tmp_path: Path) -> None:
    """Orders, hierarchies, domains, kinds; an order that the first table's type had, for the values that are left."""
    hierarchy = ra.Hierarchy.from_tree({"north": ["Kiel", "Bremen"], "south": ["Ulm", "Passau"]})
    schema = ra.Schema(
        [
            ra.Numeric("age", domain=(0, 120)),
            ra.Categorical("grade", order=["low", "middle", "high"]),
            ra.Categorical("city", hierarchy=hierarchy),
            "size",
            ra.Categorical("code"),
        ],
        weights={"age": 2.0},
    )
    sizes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3] * 10), pa.array(["XL", "S", "M", "XS"]), ordered=True)
    table = pa.table(
        {
            "age": np.arange(40),
            "grade": ["low", "high"] * 20,
            "city": ["Kiel", "Ulm"] * 20,
            "size": sizes,
            "code": np.arange(40) // 10,
        }
    )
    with tiny(), ra.Index.create(tmp_path / "i", schema, k=2) as index:
        index.load(table)
        index.delete([row for row, one in rows_by_id(index).items() if one[3] == "S" or one[4] == 3])
        left = rows_by_id(index) if index.checkpoint() else {}
        index.compact(scrub=True)
        index.verify()
        assert rows_by_id(index) == left
        age, grade, city, size, code = index.schema.quasi
        assert isinstance(age, ra.Numeric) and age.domain == (0, 120)
        assert isinstance(grade, ra.Categorical) and grade.order == ("low", "middle", "high")
        assert isinstance(city, ra.Categorical) and city.hierarchy is not None
        assert isinstance(size, ra.Categorical) and size.order == ("XL", "M", "XS")
        assert isinstance(code, ra.Categorical) and code.values == ("0", "1", "2")
        assert index.schema.weights == {"age": 2.0} and index.schema.key is None
        assert set(index.release(k=2).to_arrow()["city"].to_pylist()) <= {"Kiel", "Ulm", "north", "south", "*"}


def test_readers_keep_their_version_while_the_index_is_scrubbed(tmp_path: Path) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", ra.Schema(["age"]), k=2) as index:
        index.load(pa.table({"age": np.arange(60)}))
        with ra.Index.open(tmp_path / "i") as reader:
            before = rows_by_id(reader)
            index.delete(list(range(30)))
            index.compact(scrub=True)
            assert rows_by_id(reader) == before and len(index) == 30
            reader.verify()
