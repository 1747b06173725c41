"""SIGKILL in the middle of streaming changes, and a reader that stays while versions come and go (P1-P3, P7)."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import rtree_anon as ra
from tests.index.conftest import COUNTS
from tests.index.making import rows_by_id
from tests.index.update_killing import SCHEMA, found_state, rows_of_step, state_after, steps_of
from tests.storage.deep import accumulate


def kill_loops(path: Path, loops: int, seed: int) -> int:
    """Kill a writer that reports every acknowledged step, and look at what it left; how often."""
    if not path.exists():
        ra.Index.create(path, SCHEMA, k=3).close()
    chance = random.Random(seed)
    for _ in range(loops):
        command = [sys.executable, "-m", "tests.index.update_killing", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            reported = [child.stdout.readline() for _ in range(chance.randrange(1, 25))]
            time.sleep(chance.random() * 0.02)
            child.kill()
            reported += child.stdout.read().splitlines()
        last = max(int(line) for line in reported if line.strip().isdigit())
        with ra.Index.open(path, mode="w") as index:
            assert steps_of(Counter(found_state(index).values())) >= last, f"seed {seed}"
            index.verify()
    return loops


def test_what_a_killed_writer_reported_is_there(tmp_path: Path, tally: Callable[[str, int], None]) -> None:
    tally("kills", kill_loops(tmp_path / "i", 3, 3))


@pytest.mark.deep
def test_what_a_killed_writer_reported_is_there_deep(tmp_path: Path, tally: Callable[[str, int], None]) -> None:
    def step(seed: int) -> int:
        return kill_loops(tmp_path / str(seed), 20, seed)

    n_now, total = accumulate("kills", 500, step, counts=COUNTS)
    tally("kills", n_now)
    tally("kills, all deep runs of this code", total)


@pytest.mark.parametrize("commits", [120, pytest.param(10_000, marks=pytest.mark.deep)])
def test_a_reader_keeps_its_version(tmp_path: Path, commits: int) -> None:
    """It sees the same rows for its whole life; when it has left, the file does not grow any more."""
    path = tmp_path / "i"
    with ra.Index.create(path, SCHEMA, k=3) as index:
        for step in (1, 3, 5):
            index.insert(rows_of_step(step))
        index.checkpoint()
        ids = sorted(rows_by_id(index))
        with ra.Index.open(path) as reader:
            expected, version = rows_by_id(reader), reader.version
            for commit in range(commits):
                index.update(ids[:4], rows_of_step(commit))
                index.checkpoint()
                if commit % (commits // 20) == 0:
                    assert rows_by_id(reader) == expected
            assert reader.version == version < index.version
            assert rows_by_id(reader) == expected
        index.verify()
        for commit in range(20):  # what only the reader needed is used again
            index.update(ids[:4], rows_of_step(commit))
            index.checkpoint()
        size = (path / "data").stat().st_size
        for commit in range(60):
            index.update(ids[:4], rows_of_step(commit))
            index.checkpoint()
        assert (path / "data").stat().st_size <= size
    assert state_after(4) == Counter({3: 4})
