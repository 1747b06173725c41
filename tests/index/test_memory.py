"""P10: loads, releases and streams stay inside the memory that they were given."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rtree_anon as ra
from rtree_anon.index.budget_text import memory_bytes

ROOT = Path(__file__).parents[2]
SLACK_BYTES = 64_000_000
ROWS_AT_ONCE = 250_000


def rows(begin: int, end: int, number: int, with_people: bool) -> pa.Table:
    table = ra.generate("agrawal", end - begin, seed=number)
    if with_people:  # nearly as many as rows, by name
        numbers = np.arange(begin, end)
        table = table.append_column("illness", pa.array(numbers * 7919 % 20, pa.int32()))
        table = table.append_column("person", pa.array([f"somebody with the number {i * 9 // 10}" for i in numbers]))
    return table


def write_rows(path: Path, n_rows: int, with_people: bool) -> None:
    with pq.ParquetWriter(path, rows(0, 1, 0, with_people).schema) as writer:
        for number, begin in enumerate(range(0, n_rows, ROWS_AT_ONCE)):
            writer.write_table(rows(begin, min(begin + ROWS_AT_ONCE, n_rows), number, with_people))


def measured(folder: Path, n_rows: int, memory: str, quality: str, with_people: bool) -> dict[str, int]:
    small, large = folder / "small.parquet", folder / "large.parquet"
    write_rows(small, 20_000, with_people)
    write_rows(large, n_rows, with_people)
    command = [sys.executable, "-m", "tests.index.measuring", str(small), str(large), memory, quality]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    assert found["rows"] == n_rows
    return found


def check(folder: Path, n_rows: int, memory: str, quality: str = "fast", *, with_people: bool = False) -> None:
    found = measured(folder, n_rows, memory, quality, with_people)
    allowed = 1.10 * memory_bytes(memory) + SLACK_BYTES
    assert max(found["load"], found["release"], found["stream"]) <= allowed, found


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_a_million_rows_in_64_mb(tmp_path: Path) -> None:
    check(tmp_path, 1_000_000, "64MB")


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_people_by_name_and_a_privacy_model_in_128_mb(tmp_path: Path) -> None:
    check(tmp_path, 500_000, "128MB", with_people=True)


@pytest.mark.deep
@pytest.mark.parametrize("memory", ["64MB", "256MB", "1GB"])
def test_a_hundred_million_rows(memory: str, tmp_path: Path) -> None:
    check(tmp_path, 100_000_000, memory)
