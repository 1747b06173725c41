"""What `ra.Index` says to its callers: arguments, modes, locks, versions, figures, progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rtree_anon as ra
from rtree_anon.index.budget_text import memory_bytes
from tests.index.making import rows_by_id, tiny

SOURCE = ra.generate("patients", 600, seed=3)
SCHEMA = ra.Schema(["age", "sex"], sensitive=["diagnosis"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with ra.Index.create(tmp_path / "people.idx", SCHEMA, k=3) as index:
        index.load(SOURCE)
    return tmp_path / "people.idx"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k=0 is not possible"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"quality": "superb"}, "quality='superb' is not known"),
        ({"memory": "lots"}, "is not an amount of memory"),
        ({"memory": "1MB"}, "is not enough"),
        ({"threads": 0}, "threads=0 is not possible"),
        ({"seed": -1}, "seed=-1 is not possible"),
        ({"schema": {"quasi": ["age"]}}, "schema must be a Schema"),
    ],
)
def test_wrong_arguments_make_nothing(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ra.UsageError, match=message):
        ra.Index.create(tmp_path / "new.idx", **{"schema": SCHEMA, **options})
    assert list(tmp_path.iterdir()) == []


def test_an_index_is_not_made_over_something(path: Path) -> None:
    with pytest.raises(ra.UsageError, match="exists already"):
        ra.Index.create(path, SCHEMA)
    with ra.Index.open(path) as index:
        assert len(index) == 600


def test_there_must_be_an_index(tmp_path: Path) -> None:
    with pytest.raises(ra.StorageError, match="there is no index here"):
        ra.Index.open(tmp_path / "nothing")
    with pytest.raises(ra.UsageError, match="mode='a' is not known"):
        ra.Index.open(tmp_path, mode="a")


def test_one_writer_many_readers(path: Path) -> None:
    with ra.Index.open(path, mode="w"):
        with pytest.raises(ra.LockedError):
            ra.Index.open(path, mode="w")
        with ra.Index.open(path) as one, ra.Index.open(path) as other:
            assert one.version == other.version
            with pytest.raises(ra.UsageError, match="open for reading"):
                one.load(SOURCE)
            with pytest.raises(ra.UsageError, match="open for reading"):
                one.compact()
    ra.Index.open(path, mode="w").close()


def test_a_closed_index_says_so(path: Path) -> None:
    index = ra.Index.open(path)
    release = index.release(3)
    index.close()
    index.close()
    assert "closed" in repr(index)
    with pytest.raises(ra.UsageError, match="this index is closed"):
        len(index)
    with pytest.raises(ra.UsageError, match="closed"):
        release.to_arrow()


def test_a_release_needs_a_possible_k(path: Path) -> None:
    with ra.Index.open(path) as index:
        with pytest.raises(ra.UsageError, match="below the index's own k=3"):
            index.release(2)
        with pytest.raises(ra.PrivacyError, match="600 rows cannot be released at k=601"):
            index.release(601)
        with pytest.raises(ra.UsageError, match="method='best' is not known"):
            index.release(5, method="best")
        assert index.release(600).n_groups == 1


def test_figures(path: Path) -> None:
    with ra.Index.open(path) as index:
        facts = index.stats()
        report = index.verify()
        assert (facts["rows"], facts["k"], facts["version"]) == (600, 3, index.version)
        assert (facts["leaves"], facts["bundles"]) == (report.n_leaves, report.n_bundles)
        assert [each["name"] for each in facts["quasi"]] == ["age", "sex"] and facts["sensitive"] == ["diagnosis"]
        assert index.k == 3 and str(index.model) == "KAnonymity(3)" and index.schema.bound
        assert "600 rows" in repr(index)
    with ra.Index.create(path.parent / "empty.idx", SCHEMA) as empty:
        assert empty.stats()["rows"] == len(empty) == 0
        assert empty.verify().n_leaves == 0


def test_progress_counts_rows_and_does_not_go_back(path: Path) -> None:
    seen: dict[str, list[tuple[int, int | None]]] = {}
    with tiny(), ra.Index.open(path, mode="w") as index:
        index.load(SOURCE, lambda phase, done, total: seen.setdefault(phase, []).append((done, total)))
    assert next(iter(seen)) == "preparing" and list(seen)[-1] == "committing"
    for phase in ("reading", "cutting"):
        done = [rows for rows, _ in seen[phase]]
        assert done == sorted(done) and done[-1] == 1200 and {total for _, total in seen[phase]} == {1200}


def test_a_bar_on_a_terminal_only(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    with ra.Index.open(path, mode="w") as index:
        index.load(SOURCE)
        assert capsys.readouterr() == ("", "")
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        index.load(SOURCE)
        assert capsys.readouterr().out == ""


def test_compaction_keeps_every_row(path: Path) -> None:
    with ra.Index.open(path, mode="w") as index:
        before, version = rows_by_id(index), index.version
        release = index.release(5)
        for scrub in (False, True):
            index.compact(scrub=scrub)
            assert rows_by_id(index) == before and index.version > version
            index.verify()
        assert release.n_rows == 600  # of a version that is no longer the newest


def test_columns_that_are_not_named_are_not_stored(path: Path) -> None:
    secrets = pa.array([f"secret number {row}" for row in range(600)])
    with ra.Index.open(path, mode="w") as index:
        index.load(SOURCE.append_column("secret", secrets))
    content = b"".join((path / name).read_bytes() for name in ("data", "journal"))
    assert b"secret" not in content and b"diagnosis" in content


@pytest.mark.parametrize(
    ("amount", "n_bytes"),
    [
        ("256MB", 256_000_000),
        ("1GB", 10**9),
        ("1 GiB", 2**30),
        ("64mib", 64 << 20),
        ("0.5GB", 5 * 10**8),
        ("20000K", 2 * 10**7),
        ("1T", 10**12),
        (16_000_000, 16_000_000),
    ],
)
def test_amounts_of_memory(amount: str | int, n_bytes: int) -> None:
    assert memory_bytes(amount) == n_bytes


@pytest.mark.parametrize("amount", ["", "MB", "-1GB", "1XB", "1 2 MB", None, True, 3.5, b"1GB", "nan GB"])
def test_what_is_no_amount_of_memory(amount: Any) -> None:
    with pytest.raises(ra.UsageError, match="is not an amount of memory"):
        memory_bytes(amount)


def test_a_schema_that_grows(tmp_path: Path) -> None:
    """Wider domains, more categories than a mask holds, a hierarchy whose new values move others."""

    def rows(n: int, first: int) -> pa.Table:
        names = [f"c{i % 40 + first % 97:03}" for i in range(n)]
        return pa.table(
            {"n": range(first, first + n), "c": names, "w": [f"{(7 * i + first) % 90:02}" for i in range(n)]}
        )

    grown = ra.Categorical("w", allow_new=True, hierarchy=ra.Hierarchy.digits(2))
    schema = ra.Schema(["n", ra.Categorical("c", allow_new=True), grown])
    with tiny(), ra.Index.create(tmp_path / "g.idx", schema, k=3) as index:
        tables = [rows(120, 0), rows(90, 50), rows(150, -1000), rows(60, 10**8)]
        for number, table in enumerate(tables):
            index.load(table)
            index.verify()
            expected = sorted(
                (row["n"], row["c"], row["w"]) for each in tables[: number + 1] for row in each.to_pylist()
            )
            assert sorted(rows_by_id(index).values()) == expected
            index.release(5, compact=False).to_arrow()
        kinds = [each["kind"] for each in index.stats()["quasi"]]
        assert kinds == ["linear", "span", "tree"]
