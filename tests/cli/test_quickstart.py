"""scripts/quickstart: the first thing that a new user runs, with generated rows and with their own."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

import rtree_anon as ra
from rtree_anon.datasets import files
from tests.cli.running import Outcome, listing, run

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "quickstart.py"
RELEASES = ["manifest.json", *(f"k{k}.parquet" for k in (10, 5, 50))]


@pytest.fixture
def quickstart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with a place of its own to write to."""
    spec = importlib.util.spec_from_file_location("quickstart", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_OUTPUT", tmp_path / "quickstart-output")
    monkeypatch.setattr(module, "_WARM_UP_ROWS", 200)
    return module


def started(quickstart: ModuleType, *arguments: str | Path) -> Outcome:
    return run(*arguments, command=quickstart.command)


def test_it_runs_again_and_again(quickstart: ModuleType, tmp_path: Path) -> None:
    for number in (1, 2):
        done = started(quickstart, "--rows", "2000")
        place = tmp_path / "quickstart-output" / f"run-{number}"
        assert (done.code, done.err) == (0, "") and str(place / "releases") in done.out
        assert listing(place) == sorted(["agrawal.parquet", "releases", *(f"releases/{name}" for name in RELEASES)])
        assert [line.split()[0] for line in done.out.splitlines()[:4]] == ["k", "5", "10", "50"]


def test_the_figures_are_those_of_the_checker(quickstart: ModuleType, tmp_path: Path) -> None:
    facts = json.loads(started(quickstart, "--rows", "1000", "--json").out)
    table = ra.generate("agrawal", 1000)
    for release in facts["releases"]:
        report = ra.check(Path(facts["output"]) / release["file"], table.column_names)
        assert (release["groups"], release["smallest_group"]) == (report.n_groups, report.k) and report.n_rows == 1000


def test_a_file_that_fails_the_check_is_not_shown(quickstart: ModuleType, tmp_path: Path) -> None:
    with mock.patch.object(quickstart, "check", return_value=mock.Mock(k=4, n_rows=1000)):
        done = started(quickstart, "--rows", "1000")
    assert done.code == 1 and "not 5-anonymous" in done.sentence and listing(tmp_path) == []


def test_own_data(quickstart: ModuleType, tmp_path: Path) -> None:
    files.write("patients", 300, tmp_path / "people.csv")
    out = tmp_path / "out"
    done = started(quickstart, tmp_path / "people.csv", "-q", "age,sex", "-s", "diagnosis", "-k", "4,20", "-o", out)
    assert (done.code, done.err) == (0, "")
    assert listing(out) == ["k20.parquet", "k4.parquet", "manifest.json"] and not quickstart._OUTPUT.exists()
    assert ra.check(out / "k20.parquet", ["age", "sex"], ["diagnosis"]).k >= 20


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("people.csv",), "-q age,zip,sex"),
        (("-q", "age"), "go with a file"),
        (("people.csv", "-q", "age", "-o", "."), "exists already"),
        (("people.csv", "-q", "age", "-k", "0"), "k=0"),
    ],
)
def test_wrong_usage_leaves_nothing(
    quickstart: ModuleType, tmp_path: Path, arguments: tuple[str, ...], expected: str
) -> None:
    done = started(quickstart, *arguments)
    assert done.code == 2 and expected in done.sentence and listing(tmp_path) == []


def test_help_has_an_example(quickstart: ModuleType) -> None:
    assert "scripts/quickstart people.csv -q age,zip,sex" in started(quickstart, "--help").out
