"""Counts of the long runs, kept in a file so that they add up over many runs: seeds are never done twice for the same
code.

`deep_counts.json` names the code (a digest of the store's syntax, without comments) that the counts are for; when the
code has changed, counting begins anew and the old sum is kept under ``earlier``. `STORAGE_DEEP_SECONDS` bounds one run
of each test, `STORAGE_DEEP_COUNTS` names another file. Any number of runs may go on side by side, of one test too: a
seed is taken before it is used, and counted only when it was done.
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
from pathlib import Path
from typing import Any

import rtree_anon.storage

COUNTS = Path(os.environ.get("STORAGE_DEEP_COUNTS", Path(__file__).with_name("deep_counts.json")))


@functools.cache
def code_digest() -> str:
    """Of all modules of the store, without comments and docstrings."""
    digest = hashlib.sha256()
    for path in sorted(Path(rtree_anon.storage.__file__).parent.glob("*.py")):
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


def accumulate(what: str, wanted: int, step: Callable[[int], int]) -> tuple[int, int]:
    """Call `step(seed)` with ever new seeds until `wanted` is reached or the time is up; (count of this run, count so
    far).
    """
    deadline = time.monotonic() + float(os.environ.get("STORAGE_DEEP_SECONDS", "1e9"))
    n_now, total = 0, _entry(_load(), what)["count"]
    while total < wanted and (time.monotonic() < deadline or n_now == 0):
        seed = _change(what, wanted=wanted, next_seed=1)["next_seed"] - 1
        n_step = step(seed)
        n_now += n_step
        total = _change(what, count=n_step)["count"]
    return n_now, total


def _entry(counts: dict[str, dict[str, Any]], what: str) -> dict[str, Any]:
    entry = counts.get(what, {"count": 0, "next_seed": 1000, "earlier": 0, "code": code_digest()})
    if entry["code"] != code_digest():
        entry = {**entry, "earlier": entry["earlier"] + entry["count"], "count": 0, "code": code_digest()}
    return entry


def _load() -> dict[str, dict[str, Any]]:
    return json.loads(COUNTS.read_text()) if COUNTS.exists() else {}


def _change(what: str, *, wanted: int | None = None, next_seed: int = 0, count: int = 0) -> dict[str, Any]:
    """Add to an entry of the file; the entry as it is then."""
    with COUNTS.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        counts = _load()
        entry = _entry(counts, what)
        entry = {**entry, "count": entry["count"] + count, "next_seed": entry["next_seed"] + next_seed}
        if wanted is not None:
            entry["wanted"] = wanted
        fresh = COUNTS.with_suffix(".new")
        fresh.write_text(json.dumps({**counts, what: entry}, indent=1, sort_keys=True) + "\n")
        fresh.rename(COUNTS)
    return entry
