"""`rtree-anon generate`: complete files or none, never over an existing one unasked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from rtree_anon import datasets
from rtree_anon.datasets import files
from rtree_anon.errors import UsageError


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rtree_anon.cli", "generate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_parquet_holds_the_generated_rows_and_a_pipe_stays_silent(tmp_path: Path) -> None:
    target = tmp_path / "data.parquet"
    done = run("patients", "--rows", "3000", "--seed", "4", "-o", target)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert pyarrow.parquet.read_table(target).equals(datasets.generate("patients", 3000, seed=4))
    assert list(tmp_path.iterdir()) == [target]


def test_json_says_what_was_written(tmp_path: Path) -> None:
    target = tmp_path / "data.csv"
    done = run("agrawal", "--rows", "10", "-o", target, "--json")
    facts = json.loads(done.stdout)
    assert facts["rows"] == 10 and facts["path"] == str(target) and facts["bytes"] == target.stat().st_size
    assert pyarrow.csv.read_csv(target).cast(datasets.schema("agrawal")).equals(datasets.generate("agrawal", 10))


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    target = tmp_path / "data.csv"
    target.write_text("precious")
    refused = run("agrawal", "--rows", "10", "-o", target)
    assert refused.returncode == 2 and "exists already" in refused.stderr and target.read_text() == "precious"
    assert run("agrawal", "--rows", "10", "-o", target, "--force").returncode == 0
    assert target.read_text().startswith('"salary"')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("adults", "-o", "x.csv"), "no dataset called 'adults'"),
        (("agrawal", "-o", "x.xlsx"), "must end in .parquet or .csv"),
        (("agrawal", "-o", "nowhere/x.csv"), "not a directory"),
        (("agrawal", "--rows", "-1", "-o", "x.csv"), "--rows"),
    ],
)
def test_wrong_usage_leaves_nothing(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    placed = [str(tmp_path / word) if "x." in word else word for word in arguments]
    failed = run(*placed)
    assert failed.returncode == 2 and message in failed.stderr and list(tmp_path.iterdir()) == []


def test_a_failure_halfway_leaves_nothing(tmp_path: Path) -> None:
    def fail(n_rows: int) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        files.write("agrawal", 100, tmp_path / "data.parquet", on_progress=fail)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "data.csv").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        files.write("agrawal", 1, tmp_path / "data.csv", overwrite=True)


def test_progress_counts_every_row(tmp_path: Path) -> None:
    seen: list[int] = []
    files.write("agrawal", 25, tmp_path / "data.csv", batch_rows=10, on_progress=seen.append)
    assert seen == [10, 10, 5]
    assert pa.csv.read_csv(tmp_path / "data.csv").num_rows == 25
