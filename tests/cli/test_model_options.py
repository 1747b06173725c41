"""Privacy models and people on the command line: what `anonymize` is asked for, `check` confirms."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import rtree_anon as ra
from tests.cli.running import run


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "patients.parquet"
    table = ra.generate("patients", 3000, seed=1)
    table = table.append_column("person", [[row // 2 for row in range(len(table))]])
    pq.write_table(table, path)
    return path


def test_thresholds_hold_for_every_sensitive_column(patients: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["-q", "age,zip", "-s", "diagnosis,sex", "-k", "5,20", "-l", "2", "--t", "0.6"]
    done = run("anonymize", str(patients), *arguments, "-o", str(out), "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    model = "DistinctLDiversity(2, on=['diagnosis', 'sex']) & TCloseness(0.6, on=['diagnosis', 'sex'])"
    assert facts["safe_together_at"] == f"KAnonymity(5) & {model}"
    assert [release["model"] for release in facts["releases"]] == [f"KAnonymity({k}) & {model}" for k in (5, 20)]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["releases"]["k20.parquet"]["safe_together_at"] == f"KAnonymity(5) & {model}"
    for k in ("5", "20"):
        asked = ["-q", "age,zip", "-s", "diagnosis,sex", "-k", k, "-l", "2", "--t", "0.6"]
        assert run("check", str(out / f"k{k}.parquet"), *asked).code == 0
    too_much = run("check", str(out / "k5.parquet"), "-q", "age,zip", "--model", "distinct_l=9 on diagnosis")
    assert too_much.code == 1 and "9 distinct values were asked for" in too_much.out


def test_people_are_counted_and_may_be_released_as_numbers(patients: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["-q", "age,zip", "-s", "diagnosis", "--identity", "person", "-k", "4", "--pseudonyms"]
    model = ["--model", "alpha=0.7 on diagnosis"]
    done = run("anonymize", str(patients), *arguments, *model, "-o", str(out))
    assert done.code == 0, done.err
    table = pq.read_table(out / "k4.parquet")
    assert table.column_names[-1] == "person"
    report = ra.check(table, ["age", "zip"], ["diagnosis"], "person")
    assert report.individuals is not None and report.individuals >= 4
    assert report.alpha is not None and report.alpha <= 0.7
    assert run("check", str(out / "k4.parquet"), "-q", "age,zip", "--identity", "person", "-k", "4").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-l", "2"], 2, "--l is about sensitive columns; name at least one with -s"),
        (["--ordered-t", "0.2"], 2, "--ordered-t is about sensitive columns"),
        (["-s", "diagnosis", "-l", "500"], 1, "Use an l of at most"),
        (["-s", "diagnosis", "--t", "1.5"], 2, "t must be a number 0 or more and at most 1"),
        (["-s", "diagnosis", "--model", "l=3"], 2, "there is no 'l'"),
        (["-s", "diagnosis", "--model", "people=3"], 2, "name the identity column"),
        (["--pseudonyms"], 2, "--identity"),
    ],
)
def test_what_cannot_be_is_explained(
    patients: Path, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    done = run("anonymize", str(patients), "-q", "age", "-k", "5", *arguments, "-o", str(tmp_path / "out"))
    assert done.code == code and said in done.err
    assert not (tmp_path / "out").exists()
