"""P10: loads and releases stay inside the memory that they were given."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import rtree_anon as ra
from rtree_anon.index.budget_text import memory_bytes

ROOT = Path(__file__).parents[2]
SLACK_BYTES = 64_000_000
ROWS_AT_ONCE = 250_000


def write_rows(path: Path, n_rows: int) -> None:
    first = ra.generate("agrawal", 1)
    with pq.ParquetWriter(path, first.schema) as writer:
        for number, begin in enumerate(range(0, n_rows, ROWS_AT_ONCE)):
            writer.write_table(ra.generate("agrawal", min(ROWS_AT_ONCE, n_rows - begin), seed=number))


def measured(folder: Path, n_rows: int, memory: str, quality: str) -> dict[str, int]:
    small, large = folder / "small.parquet", folder / "large.parquet"
    write_rows(small, 20_000)
    write_rows(large, n_rows)
    command = [sys.executable, "-m", "tests.index.measuring", str(small), str(large), memory, quality]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    assert found["rows"] == n_rows
    return found


def check(folder: Path, n_rows: int, memory: str, quality: str = "fast") -> None:
    found = measured(folder, n_rows, memory, quality)
    allowed = 1.10 * memory_bytes(memory) + SLACK_BYTES
    assert found["load"] <= allowed and found["release"] <= allowed, found


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_a_million_rows_in_64_mb(tmp_path: Path) -> None:
    check(tmp_path, 1_000_000, "64MB")


@pytest.mark.deep
@pytest.mark.parametrize("memory", ["64MB", "256MB", "1GB"])
def test_a_hundred_million_rows(memory: str, tmp_path: Path) -> None:
    check(tmp_path, 100_000_000, memory)
