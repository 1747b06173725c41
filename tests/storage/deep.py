"""Counts of the long runs, kept in a file so that they add up over many runs: seeds are never done twice for the same
code.

`deep_counts.json` names the code (a digest of its syntax, without comments) that the counts are for; when the code has
changed, counting begins anew and the old sum is kept under ``earlier``. The tests of the store and those of the index
have a file each. `STORAGE_DEEP_SECONDS` bounds one run of each test, `STORAGE_DEEP_COUNTS` names another file for the
store. Any number of runs may go on side by side, of one test too: a seed is taken before it is used, and counted only
when it was done.
"""

from __future__ import annotations

import ast
import fcntl
import functools
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rtree_anon.storage


@dataclass(frozen=True)
class Counts:
    """A file of counts, and the folders whose modules they are about."""

    file: Path
    folders: tuple[Path, ...]


STORAGE_FOLDER = Path(rtree_anon.storage.__file__).parent
STORAGE = Counts(
    Path(os.environ.get("STORAGE_DEEP_COUNTS", Path(__file__).with_name("deep_counts.json"))), (STORAGE_FOLDER,)
)


@functools.cache
def code_digest(counts: Counts = STORAGE) -> str:
    """Of all modules that the counts are about, without comments and docstrings."""
    digest = hashlib.sha256()
    for path in (path for folder in counts.folders for path in sorted(folder.glob("*.py"))):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if (
                isinstance(body, list)
                and body
                and isinstance(body[0], ast.Expr)
                and isinstance(body[0].value, ast.Constant)
            ):
                body[0].value.value = ""
        digest.update(f"{path.name}\n{ast.dump(tree)}\n".encode())
    return digest.hexdigest()[:16]


def accumulate(what: str, wanted: int, step: Callable[[int], int], *, counts: Counts = STORAGE) -> tuple[int, int]:
    """Call `step(seed)` with ever new seeds until `wanted` is reached or the time is up; (count of this run, count so
    far).
    """
    deadline = time.monotonic() + float(os.environ.get("STORAGE_DEEP_SECONDS", "1e9"))
    n_now, total = 0, _entry(counts, _load(counts), what)["count"]
    while total < wanted and (time.monotonic() < deadline or n_now == 0):
        seed = _change(counts, what, wanted=wanted, next_seed=1)["next_seed"] - 1
        n_step = step(seed)
        n_now += n_step
        total = _change(counts, what, count=n_step)["count"]
    return n_now, total


def _entry(counts: Counts, known: dict[str, dict[str, Any]], what: str) -> dict[str, Any]:
    code = code_digest(counts)
    entry = known.get(what, {"count": 0, "next_seed": 1000, "earlier": 0, "code": code})
    if entry["code"] != code:
        entry = {**entry, "earlier": entry["earlier"] + entry["count"], "count": 0, "code": code}
    return entry


def _load(counts: Counts) -> dict[str, dict[str, Any]]:
    return json.loads(counts.file.read_text()) if counts.file.exists() else {}


def _change(
    counts: Counts, what: str, *, wanted: int | None = None, next_seed: int = 0, count: int = 0
) -> dict[str, Any]:
    """Add to an entry of the file; the entry as it is then."""
    with counts.file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = _load(counts)
        entry = _entry(counts, known, what)
        entry = {**entry, "count": entry["count"] + count, "next_seed": entry["next_seed"] + next_seed}
        if wanted is not None:
            entry["wanted"] = wanted
        fresh = counts.file.with_suffix(".new")
        fresh.write_text(json.dumps({**known, what: entry}, indent=1, sort_keys=True) + "\n")
        fresh.rename(counts.file)
    return entry
