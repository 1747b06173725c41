"""P1, P8: a writer that is killed loses nothing that it reported, and leaves no lock behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.storage.deep import accumulate

ROOT = Path(__file__).parents[2]


def kill_loops(directory: Path, n_loops: int, seed: int) -> int:
    command = [sys.executable, "-m", "tests.storage.killing", str(directory), str(n_loops), str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path, tally):
    tally("kills", kill_loops(tmp_path, 100, 1))


@pytest.mark.deep
def test_a_killed_writer_loses_nothing_it_acknowledged_deep(tmp_path, tally):
    n_now, total = accumulate("kills", 5_000, lambda seed: kill_loops(tmp_path, 250, seed))
    tally("kills", n_now)
    tally("kills, all deep runs of this code", total)
