"""Kills loading children with SIGKILL and looks at what they left:  python -m tests.index.killing DIRECTORY LOOPS SEED

The index must be the one before the load or the one after it, sound, and nothing else may lie around. Prints how often
a child was killed, and how often its load was not finished.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

import rtree_anon as ra

ROWS = 20_000


def kill_once(path: Path, source: Path, seconds: float) -> None:
    """A child (forked, while there is one thread) that loads, and a kill after so many seconds."""
    child = os.fork()
    if child == 0:
        try:
            with ra.Index.open(path, mode="w", memory="16MB") as index:
                index.load(source)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def main() -> None:
    folder, n_loops, rng = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    path, source = folder / "killed.idx", folder / "more.parquet"
    table = ra.generate("agrawal", ROWS)
    pq.write_table(table, source)
    with ra.Index.create(path, ra.Schema(table.column_names), k=5, quality="fast", memory="16MB") as index:
        index.load(source)  # compiles
        begin = time.perf_counter()
        index.load(source)
        longest = time.perf_counter() - begin
    n_rows, n_unfinished = 2 * ROWS, 0
    for loop in range(n_loops):
        kill_once(path, source, rng.random() * 2 * longest)
        with ra.Index.open(path, mode="w") as index:
            if len(index) not in (n_rows, n_rows + ROWS):
                sys.exit(f"loop {loop}: {len(index)} rows where {n_rows} or {n_rows + ROWS} are possible")
            n_unfinished += len(index) == n_rows
            n_rows = len(index)
            index.verify()
        left = {name for name in os.listdir(path) if not name.startswith("reader-")}  # noqa: PTH208
        if left != {"data", "journal", "writer.lock"} or set(os.listdir(folder)) != {"killed.idx", "more.parquet"}:  # noqa: PTH208
            sys.exit(f"loop {loop}: {sorted(left)} is left in the index, {os.listdir(folder)} beside it")  # noqa: PTH208
    print(json.dumps({"kills": n_loops, "unfinished": n_unfinished}))


if __name__ == "__main__":
    main()
