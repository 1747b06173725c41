"""Rows that are named: what a key costs in a load, on disk and in memory, and how fast rows are deleted by it.

    python -m bench.keys --rows 1000000     one kind of name after the other, each in a process of its own

Names: none (ids are assigned), whole numbers in random order, text of 16 letters in random order. A file of key
names is deleted in batches; the last one in a batch does not exist in one further call, which must be refused.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rtree_anon as ra
from bench.harness import keep

KINDS = ("none", "whole", "text")
AT_ONCE = 500_000
BATCH, BATCHES = 1000, 10


def names_of(kind: str, numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers) if kind == "whole" else pa.array([f"visit-{number:010x}" for number in numbers.tolist()])


def write_rows(path: Path, kind: str, n_rows: int) -> None:
    scattered = np.random.default_rng(0).permutation(n_rows) * 7919
    writer = None
    for begin in range(0, n_rows, AT_ONCE):
        table = ra.generate("agrawal", min(AT_ONCE, n_rows - begin), seed=begin)
        if kind != "none":
            table = table.append_column("visit", names_of(kind, scattered[begin : begin + AT_ONCE]))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def measure(kind: str, n_rows: int, memory: str, directory: Path) -> dict[str, float]:
    from tests.index.measuring import baseline, peak_bytes

    found: dict[str, float] = {}
    for part, n in (("small", 20_000), ("large", n_rows)):
        source, path = directory / f"{part}.parquet", directory / f"{part}.idx"
        write_rows(source, kind, n)
        quasi = list(ra.generate("agrawal", 1).schema.names)
        before = baseline()
        with ra.Index.create(
            path, ra.Schema(quasi, key=None if kind == "none" else "visit"), k=5, quality="fast", memory=memory
        ) as index:
            begin = time.perf_counter()
            index.load(source)
            found = {"load_seconds": time.perf_counter() - begin, "load_bytes": peak_bytes() - before}
            found["bytes_per_row"] = (path / "data").stat().st_size / n
            chosen = np.random.default_rng(1).permutation(n)[: BATCH * BATCHES]
            names = names_of(kind, chosen * 7919).to_pylist() if kind != "none" else chosen.tolist()
            begin = time.perf_counter()
            for batch in range(BATCHES):
                index.delete(names[batch * BATCH : (batch + 1) * BATCH])
            found["deletes_per_second"] = len(names) / (time.perf_counter() - begin)
            begin = time.perf_counter()
            index.checkpoint()
            found["checkpoint_seconds"] = time.perf_counter() - begin
            begin = time.perf_counter()
            try:
                index.delete([names[0]])
                raise AssertionError("a row was deleted twice")
            except ra.InputError:
                found["refusal_seconds"] = time.perf_counter() - begin
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--memory", default="256MB")
    parser.add_argument("--kind", choices=KINDS)
    arguments = parser.parse_args()
    if arguments.kind:
        with tempfile.TemporaryDirectory() as directory:
            print(json.dumps(measure(arguments.kind, arguments.rows, arguments.memory, Path(directory))))
        return
    results = {}
    for kind in KINDS:
        command = [sys.executable, "-m", "bench.keys", "--kind", kind, "--rows", str(arguments.rows)]
        done = subprocess.run([*command, "--memory", arguments.memory], capture_output=True, text=True, check=True)
        results[kind] = json.loads(done.stdout)
        print(kind, json.dumps(results[kind]), flush=True)
    keep(f"keys_{arguments.rows}", {"rows": arguments.rows, "memory": arguments.memory, "names": results})


if __name__ == "__main__":
    main()
