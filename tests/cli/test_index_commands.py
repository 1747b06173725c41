"""`rtree-anon create`, `load`, `release`, `stats` and `verify`: an index from the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import rtree_anon as ra
from tests.cli.running import Outcome, listing, run

SOURCE = ra.generate("patients", 500, seed=6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(SOURCE, tmp_path / "people.parquet")
    pq.write_table(SOURCE.slice(0, 200), tmp_path / "more.parquet")
    return tmp_path


@pytest.fixture
def index(folder: Path) -> Path:
    path = folder / "people.idx"
    assert run("create", path, "-q", "age,sex,zip", "-s", "diagnosis", "-k", "4").code == 0
    assert run("load", path, folder / "people.parquet").code == 0
    return path


def as_json(done: Outcome) -> dict:
    assert done.code == 0 and done.err == ""
    return json.loads(done.out)


def test_from_files_to_releases(folder: Path) -> None:
    path = folder / "people.idx"
    made = as_json(run("create", path, "-q", "age,sex,zip", "-s", "diagnosis", "-k", "4", "--json"))
    assert made["k"] == 4
    loaded = as_json(run("load", path, folder / "people.parquet", folder / "more.parquet", "--json"))
    assert (loaded["rows_loaded"], loaded["rows"]) == (700, 700) and loaded["version"] > made["version"]
    again = as_json(run("load", path, folder / "more.parquet", "--memory", "20MB", "--threads", "1", "--json"))
    assert (again["rows_loaded"], again["rows"]) == (200, 900)
    released = as_json(run("release", path, "-k", "4,10,50", "-o", folder / "out", "--json"))
    assert released["version"] == again["version"] and [each["k"] for each in released["releases"]] == [4, 10, 50]
    assert listing(folder / "out") == ["k10.parquet", "k4.parquet", "k50.parquet", "manifest.json"]
    for k in (4, 10, 50):
        report = ra.check(folder / "out" / f"k{k}.parquet", quasi=["age", "sex", "zip"], sensitive=["diagnosis"])
        assert report.k >= k and report.n_rows == 900
    facts = as_json(run("stats", path, "--json"))
    assert (facts["rows"], facts["k"]) == (900, 4)
    verified = as_json(run("verify", path, "--json"))
    assert verified["ok"] and verified["content"]["n_rows"] == 900 and verified["content"]["smallest_leaf"] >= 4


def test_privacy_models(folder: Path) -> None:
    path, model = folder / "visits.idx", "distinct_l=3 on diagnosis & t=0.6 on diagnosis"
    roles = ("-q", "age,sex,zip", "-s", "diagnosis", "--identity", "patient_id")
    made = as_json(run("create", path, *roles, "-k", "4", "--model", model, "--json"))
    whole = "IdentityKAnonymity(4) & DistinctLDiversity(3, on='diagnosis') & TCloseness(0.6, on='diagnosis')"
    assert made["model"] == whole
    assert run("load", path, folder / "people.parquet").code == 0
    assert run("insert", path, folder / "more.parquet").code == 0
    assert as_json(run("stats", path, "--json"))["model"] == whole
    assert f"every leaf satisfies {whole}" in run("verify", path).out
    asked = ("--model", "entropy_l=5 on diagnosis")
    (released,) = as_json(run("release", path, "-k", "6", *asked, "-o", folder / "out", "--json"))["releases"]
    assert released["model"].endswith("EntropyLDiversity(5.0, on='diagnosis')")
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    assert manifest["releases"]["k6.parquet"]["safe_together_at"] == whole
    report = ra.check(folder / "out" / "k6.parquet", ["age", "sex", "zip"], ["diagnosis"])
    assert report.k >= 6 and report.entropy_l >= 5 and report.t <= 0.6 and report.n_rows == 700
    too_much = run("release", path, "-k", "6", "--model", "distinct_l=99 on diagnosis", "-o", folder / "no")
    assert too_much.code == 1 and "Use an l of at most" in too_much.sentence and not (folder / "no").exists()
    unclear = run("create", folder / "new.idx", *roles, "--model", "distinct_l=3 on ward")
    assert unclear.code == 2 and "not a sensitive column" in unclear.sentence


def test_people_are_told_in_words(index: Path, folder: Path) -> None:
    assert "200 rows loaded" in run("load", index, folder / "more.parquet").out
    shown = run("stats", index).out
    assert "rows: 700" in shown and "age" in shown and "linear" in shown
    assert run("verify", index).out.endswith("sound\n") and "700 rows" in run("verify", index).out
    done = run("release", index, "-k", "5", "-o", folder / "csv", "--format", "csv", "--no-compact")
    assert done.code == 0 and "certainty penalty" in done.out
    assert listing(folder / "csv") == ["k5.csv", "manifest.json"]
    text = run("create", folder / "new.idx", "-q", "age").out
    assert "is ready" in text


def test_a_schema_from_a_file(folder: Path) -> None:
    ra.Schema(["age", "sex"], keep=["zip"]).to_toml(folder / "schema.toml")
    assert run("create", folder / "i", "--schema", folder / "schema.toml").code == 0
    assert run("load", folder / "i", folder / "people.parquet").code == 0
    with ra.Index.open(folder / "i") as index:
        assert index.schema.keep == ("zip",) and index.k == 5
    done = run("create", folder / "j", "--schema", folder / "schema.toml", "-q", "age")
    assert done.code == 2 and "not both" in done.sentence


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("create", "people.idx", "-q", "age"), 2, "exists already"),
        (("create", "new.idx"), 2, "Name the quasi-identifiers"),
        (("load", "nothing.idx", "people.parquet"), 3, "there is no index here"),
        (("load", "people.idx", "nothing.parquet"), 1, "there is no such file"),
        (("load", "people.idx", "people.parquet", "--memory", "much"), 2, "is not an amount of memory"),
        (("release", "people.idx", "-k", "3", "-o", "out"), 2, "below the index's own k=4"),
        (("release", "people.idx", "-k", "5000", "-o", "out"), 1, "500 rows cannot be released at k=5000"),
        (("release", "people.idx", "-k", "5", "-o", "people.idx"), 2, "exists already"),
        (("stats", "people.parquet"), 3, "there is no index here"),
    ],
)
def test_what_goes_wrong_is_one_sentence(
    index: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.chdir(index.parent)
    before = [name for name in listing(index.parent) if "reader-" not in name]
    done = run(*arguments)
    assert done.code == code and message in done.sentence and done.out == ""
    assert [name for name in listing(index.parent) if "reader-" not in name] == before


def test_a_locked_index(index: Path, folder: Path) -> None:
    with ra.Index.open(index, mode="w"):
        done = run("load", index, folder / "more.parquet")
        assert done.code == 1 and "writing" in done.sentence
        assert run("release", index, "-k", "5", "-o", folder / "out").code == 0


def test_damage_is_exit_code_3(index: Path) -> None:
    content = bytearray((index / "data").read_bytes())
    content[len(content) // 2] ^= 1
    (index / "data").write_bytes(content)
    for command in (("verify", index), ("verify", index, "--json")):
        done = run(*command)
        assert done.code == 3 and "Traceback" not in done.err


def test_a_bar_on_a_terminal(index: Path, folder: Path) -> None:
    done = run("load", index, folder / "more.parquet", terminal=True)
    assert done.code == 0 and "200 rows loaded" in done.out
