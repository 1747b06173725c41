"""P5 through the index: a flipped bit anywhere in its files is reported, or changes no answer; never a wrong one.

An index on a simulated disk, with free pages, earlier versions and records that wait in the journal. One bit is flipped
at a time; then the index is opened, brought up to date, read, released, and asked for its changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rtree_anon as ra
from rtree_anon.errors import StorageError
from rtree_anon.index.verifying import verify_index
from rtree_anon.storage import open_store, verify_store
from tests.index.conftest import COUNTS
from tests.index.making import tiny
from tests.index.workloads import PATH, IndexScript
from tests.storage.deep import accumulate
from tests.storage.disk import SimulatedDisk

Tally = Callable[[str, int], None]
FILES = ("data", "journal")


def made(directory: Path, seed: int) -> IndexScript:
    script = IndexScript(SimulatedDisk(seed), directory, seed, keyed=seed % 2 == 1)
    script.create()
    for _ in range(3):
        script.insert(30)
        script.delete(8)
        script.checkpoint()
    script.insert(12)
    script.delete(5)
    script.update(3)
    script.opened.close()
    return script


def answers(script: IndexScript, disk: SimulatedDisk) -> dict[str, Any]:
    """Everything that one can learn from an index; StorageError where something is found to be damaged."""
    with ra.Index._opened(PATH, open_store(PATH, fs=disk), script.resources) as index:
        before = index.version
        index.checkpoint()
        rows = script.found(index)
        known = [rows.get(name) for name in rows]
        released = index.release(k=4).to_arrow().to_pylist()
        changes = index.changes(before, k=4, allow_small=True).facts()
        return {"rows": rows, "known": known, "released": released, "changes": changes, "length": len(index)}


def flips(directory: Path, seed: int, n_flips: int) -> tuple[int, int]:
    """(flips, those that were reported)"""
    with tiny():
        script = made(directory, seed)
        expected = answers(script, script.disk.copy())
        chance, n_reported = random.Random(seed), 0
        for number in range(n_flips):
            file = FILES[number % len(FILES)]
            image = script.disk.copy()
            content = image.content(f"{PATH}/{file}")
            written = len(bytes(content).rstrip(b"\0"))  # a journal keeps room behind its records
            bit = chance.randrange(8 * written)
            content[bit // 8] ^= 1 << bit % 8
            try:
                found = answers(script, image)
                assert found == expected, f"bit {bit} of {file} was flipped: another answer (seed {seed})"
                # Where no answer needed the page, looking at everything finds it, unless nothing is kept there.
                with ra.Index._opened(PATH, open_store(PATH, fs=image), script.resources) as index:
                    verify_index(index._current, verify_store(PATH, fs=image))
            except StorageError:
                n_reported += 1
        return n_flips, n_reported


@pytest.mark.parametrize("seed", [1, 2])
def test_a_flipped_bit_never_gives_a_wrong_answer(tmp_path: Path, seed: int, tally: Tally) -> None:
    n_flips, n_reported = flips(tmp_path, seed, 150)
    assert n_reported > n_flips // 4
    tally("bit flips", n_flips)


@pytest.mark.deep
def test_a_flipped_bit_never_gives_a_wrong_answer_deep(tmp_path: Path, tally: Tally) -> None:
    n_now, total = accumulate("bit flips", 20_000, lambda seed: flips(tmp_path, seed, 500)[0], counts=COUNTS)
    tally("bit flips", n_now)
    tally("bit flips, all deep runs of this code", total)
