"""`rtree-anon anonymize`: from files to a directory of checked releases."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import rtree_anon as ra
from rtree_anon.storage.publish import read_publication
from tests.cli.running import listing, run

QUASI = ["age", "zip", "sex"]


@pytest.fixture(scope="module")
def people() -> pa.Table:
    return ra.generate("patients", 600, seed=3)


@pytest.fixture
def path(tmp_path: Path, people: pa.Table) -> Path:
    pyarrow.parquet.write_table(people, tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def anonymize(path: Path, output: Path, *arguments: str) -> dict[str, Any]:
    """Run with --json, expecting success."""
    done = run("anonymize", path, "-q", ",".join(QUASI), "-o", output, "--json", *arguments)
    assert (done.code, done.err) == (0, "")
    facts: dict[str, Any] = json.loads(done.out)
    return facts


def test_a_directory_with_a_release_for_each_k(path: Path, tmp_path: Path, people: pa.Table) -> None:
    out = tmp_path / "out"
    done = run("anonymize", path, "-q", "age,zip,sex", "-s", "diagnosis", "-k", "5,10,50", "-o", f"{out}/")
    assert (done.code, done.err) == (0, "") and "\x1b" not in done.out
    assert listing(out) == ["k10.parquet", "k5.parquet", "k50.parquet", "manifest.json"]
    read_publication(out)  # raises where the manifest or a file is not what was published
    shown = done.out.splitlines()
    assert shown[0].split("  ") and [line.split()[0] for line in shown[1:4]] == ["5", "10", "50"]
    for k, line in zip((5, 10, 50), shown[1:4], strict=True):
        table = pyarrow.parquet.read_table(out / f"k{k}.parquet")
        report = ra.check(out / f"k{k}.parquet", QUASI)
        assert report.k >= k and report.n_rows == 600
        assert line.split()[1:3] == [f"{report.n_groups:,}", str(report.k)]
        assert sorted(table.column("diagnosis").to_pylist(), key=str) == sorted(
            people.column("diagnosis").to_pylist(), key=str
        )
        assert "visit_id" not in table.column_names


def test_json_agrees_with_the_python_interface(path: Path, tmp_path: Path, people: pa.Table) -> None:
    facts = anonymize(path, tmp_path / "out", "-k", "10,4")
    releases = ra.anonymize(people, k=[4, 10], quasi=QUASI)
    assert (facts["rows"], facts["base_k"], facts["output"]) == (600, 4, str(tmp_path / "out"))
    assert [release["file"] for release in facts["releases"]] == ["k4.parquet", "k10.parquet"]
    for release in facts["releases"]:
        same = releases[release["k"]]
        assert release["groups"] == same.n_groups and release["smallest_group"] == same.group_sizes.min()
        assert release["quality"]["certainty"] == pytest.approx(same.quality()["certainty"])
        assert release["seconds"] >= 0


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("--quality", "best"), {"quality": "best"}),
        (("--quality", "fast", "--seed", "7", "--threads", "1"), {"quality": "fast", "seed": 7, "threads": 1}),
        (("--method", "greedy", "--base-k", "3"), {"method": "greedy", "base_k": 3}),
        (("--method", "hierarchical"), {"method": "hierarchical"}),
        (("--no-compact",), {"compact": False}),
        (("--weight", "zip=5", "--weight", "age=0.5"), {"weights": {"zip": 5.0, "age": 0.5}}),
        (("--bias", "age"), {"bias": ["age"]}),
        (("--keep", "education", "-s", "diagnosis"), {"keep": ["education"], "sensitive": ["diagnosis"]}),
        (("--categorical", "age"), {"quasi": [ra.Categorical("age"), "zip", "sex"]}),
    ],
)
def test_options_mean_what_they_mean_in_python(
    path: Path, tmp_path: Path, people: pa.Table, arguments: tuple[str, ...], options: dict[str, Any]
) -> None:
    anonymize(path, tmp_path / "out", "-k", "12", *arguments)
    written = pyarrow.parquet.read_table(tmp_path / "out" / "k12.parquet")
    expected = ra.anonymize(people, k=12, **{"quasi": QUASI, **options}).to_arrow()
    assert written.equals(expected.cast(written.schema))


def test_hierarchy_from_a_file(path: Path, tmp_path: Path) -> None:
    (tmp_path / "sex.csv").write_text("F;anybody\nM;anybody\nX;anybody\n")
    with mock.patch("rtree_anon.cli.anonymize.anonymize_files", side_effect=SystemExit(77)) as called:
        done = run(
            "anonymize", path, "-q", "age,sex", "--hierarchy", f"sex={tmp_path / 'sex.csv'}", "-k", "5", "-o", "x"
        )
    assert done.code == 77
    schema = called.call_args.args[1]
    assert schema.quasi[1] == ra.Categorical("sex", hierarchy=ra.Hierarchy.from_csv(tmp_path / "sex.csv"))


def test_schema_from_a_file(path: Path, tmp_path: Path, people: pa.Table) -> None:
    schema = ra.Schema.infer(people, quasi=QUASI, sensitive=["diagnosis"], weights={"zip": 3.0})
    schema.to_toml(tmp_path / "schema.toml")
    done = run("anonymize", path, "--schema", tmp_path / "schema.toml", "-k", "5", "-o", tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    written = pyarrow.parquet.read_table(tmp_path / "out" / "k5.parquet")
    assert written.equals(ra.anonymize(people, k=5, schema=schema).to_arrow().cast(written.schema))


@pytest.mark.parametrize("layout", ["rows", "groups"])
def test_csv_in_both_layouts(path: Path, tmp_path: Path, layout: str) -> None:
    anonymize(path, tmp_path / "out", "-k", "5", "--format", "csv", "--layout", layout, "-s", "diagnosis")
    table = pyarrow.csv.read_csv(tmp_path / "out" / "k5.csv")
    assert "age" in table.column_names and "age_lo" not in table.column_names  # text style
    counts = "count" if layout == "groups" else None
    assert ra.check(tmp_path / "out" / "k5.csv", QUASI, counts=counts).k >= 5


def test_csv_with_intervals(path: Path, tmp_path: Path) -> None:
    anonymize(path, tmp_path / "out", "-k", "5", "--format", "csv", "--style", "interval")
    assert "age_lo" in pyarrow.csv.read_csv(tmp_path / "out" / "k5.csv").column_names


def test_several_files_are_one_table(tmp_path: Path, people: pa.Table) -> None:
    for number in range(3):
        pyarrow.parquet.write_table(people.slice(200 * number, 200), tmp_path / f"part{number}.parquet")
    done = run("anonymize", *sorted(tmp_path.glob("part*")), "-q", "age", "-k", "5", "-o", tmp_path / "out", "--json")
    assert done.code == 0 and json.loads(done.out)["rows"] == 600


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), OSError(28, "No space left on device")])
def test_whatever_stops_the_writing_leaves_nothing(path: Path, tmp_path: Path, error: BaseException) -> None:
    before = listing(tmp_path)
    with mock.patch("rtree_anon.release.writing.check_k", side_effect=error):
        done = run("anonymize", path, "-q", "age", "-k", "5", "-o", tmp_path / "out")
    assert done.code in (130, 1, 3) and done.sentence and done.out == "" and listing(tmp_path) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_leave_nothing(path: Path, tmp_path: Path, number: signal.Signals, code: int) -> None:
    before = listing(tmp_path)
    script = (
        "import os, time\n"
        "from rtree_anon import cli\n"
        "from rtree_anon.release import writing\n"
        f"writing.check_k = lambda *_, **__: (os.kill(os.getpid(), {int(number)}), time.sleep(60))\n"
        "cli.main()\n"
    )
    command = [
        sys.executable,
        "-c",
        script,
        "anonymize",
        str(path),
        "-q",
        "age",
        "-k",
        "5",
        "-o",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == code and "Traceback" not in done.stderr and listing(tmp_path) == before
