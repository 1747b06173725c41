"""Does loading an index cost what an external sort costs, and does it keep to its memory?

    python -m bench.bulkload sort FILE [--memory 1GB] [--grades fast,balanced] [--repeats 3]
    python -m bench.bulkload memory FILE [--budgets 512MB,256MB,128MB,64MB]
    python -m bench.bulkload whole FILE [--memory 1GB]           load, then release at k = 10, one run
    python -m bench.bulkload releases FILE [--memory 1GB]        medians for k = 5 … 1000, and all in one pass
    python -m bench.bulkload orders [--rows 1000000]             quality against the tree in memory, orders of the input

FILE is Parquet with the columns of `rtree-anon generate agrawal`. The yardstick is DuckDB, sorting the same file by one
column to Parquet with the same memory limit and number of threads. Every task is a process of its own, with kernels
compiled before; both outputs are synced. Bytes are those that went through read and write calls.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rtree_anon as ra
from bench.harness import keep, peak_memory_mb
from rtree_anon.release.writing import write_releases

COLUMNS = ["salary", "commission", "age", "elevel", "car", "zipcode", "hvalue", "hyears", "loan"]
KS = [5, 10, 25, 50, 100, 250, 500, 1000]
BASE_K = 5
THREADS = 2


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sort", "memory", "whole", "releases", "orders", "task"])
    parser.add_argument("file", nargs="?", help="a Parquet file of Agrawal's data")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--budgets", default="512MB,256MB,128MB,64MB")
    parser.add_argument("--grades", default="fast,balanced")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.what == "task":
        print(json.dumps(_task(**json.loads(options.file))))
        return
    if options.file is None and options.what != "orders":
        parser.error("name a Parquet file; `rtree-anon generate agrawal --rows 10000000 -o f.parquet` makes one")
    result = {"sort": _sort, "memory": _memory, "whole": _whole, "releases": _releases, "orders": _orders}[
        options.what
    ](options)
    name = f"bulkload_{options.what}"
    if options.what in ("sort", "memory", "whole", "releases"):
        name += f"_{result['rows'] // 1_000_000}m"
    if options.what == "sort":
        name += f"_{options.memory.lower()}"
    print(f"kept in {keep(name, result)}")


def _sort(options: argparse.Namespace) -> dict[str, Any]:
    tasks: dict[str, dict[str, Any]] = {"sort": {"name": "sort"}}
    tasks |= {grade: {"name": "load", "quality": grade} for grade in options.grades.split(",")}
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in tasks}
    for _ in range(options.repeats):
        for name, task in tasks.items():
            runs[name].append(_measured(**task, file=options.file, memory=options.memory))
    yardstick = statistics.median(run["seconds"] for run in runs["sort"])
    print(f"{'':10}{'seconds':>9}{'/ sort':>8}{'peak - base MB':>16}{'read MB':>9}{'written MB':>12}")
    for name, found in runs.items():
        run = sorted(found, key=lambda each: float(each["seconds"]))[len(found) // 2]
        ratio = run["seconds"] / yardstick
        memory = run["peak_mb"] - run["baseline_mb"]
        moved = f"{run['read_mb']:9.0f}{run['written_mb']:12.0f}"
        print(f"{name:10}{run['seconds']:9.2f}{ratio:8.2f}{memory:16.0f}{moved}")
    return {"rows": runs["sort"][0]["rows"], "memory": options.memory, "threads": THREADS, "k": BASE_K, "runs": runs}


def _memory(options: argparse.Namespace) -> dict[str, Any]:
    runs = {}
    print(f"{'budget':>8}{'seconds':>9}{'peak - base MB':>16}{'allowed MB':>12}{'read + written MB':>19}")
    for budget in options.budgets.split(","):
        run = runs[budget] = _measured(name="load", quality="fast", file=options.file, memory=budget)
        megabytes = int(budget.removesuffix("MB").removesuffix("GB")) * (1000 if budget.endswith("GB") else 1)
        allowed, memory = 1.1 * megabytes + 64, run["peak_mb"] - run["baseline_mb"]
        moved = run["read_mb"] + run["written_mb"]
        print(f"{budget:>8}{run['seconds']:9.2f}{memory:16.0f}{allowed:12.0f}{moved:19.0f}")
    return {"rows": run["rows"], "runs": runs}


def _whole(options: argparse.Namespace) -> dict[str, Any]:
    run = _measured(name="whole", quality="balanced", file=options.file, memory=options.memory)
    for phase, seconds in run["phases"].items():
        print(f"{phase:12}{seconds:9.2f} s")
    print(f"{'all':12}{run['seconds']:9.2f} s   {run['rows']:,} rows, {run['groups']:,} groups")
    print(f"peak - baseline {run['peak_mb'] - run['baseline_mb']:.0f} MB, budget {options.memory}")
    print(f"read {run['read_mb']:.0f} MB, written {run['written_mb']:.0f} MB")
    return {"rows": run["rows"], "memory": options.memory, "run": run}


def _releases(options: argparse.Namespace) -> dict[str, Any]:
    run = _measured(
        name="releases", quality="balanced", file=options.file, memory=options.memory, repeats=options.repeats
    )
    for k in map(str, KS):
        print(f"k = {k:>5}{run['by_k'][k]:9.2f} s")
    slowest, fastest = max(run["by_k"].values()), min(run["by_k"].values())
    print(f"slowest / fastest {slowest / fastest:.2f}")
    print(f"all in one pass {run['together']:.2f} s, one after the other {sum(run['by_k'].values()):.2f} s")
    return {"rows": run["rows"], "memory": options.memory, "run": run}


def _orders(options: argparse.Namespace) -> dict[str, Any]:
    table = ra.generate("agrawal", options.rows, seed=0)
    result: dict[str, Any] = {"rows": options.rows}
    print(f"{'':26}{'certainty':>10}{'/ in memory or shuffled':>25}")
    for grade in ("fast", "balanced", "best"):
        in_memory = ra.anonymize(table, k=10, base_k=BASE_K, quasi=COLUMNS, quality=grade).quality()["certainty"]
        result[grade] = {"memory": in_memory, "disk": _certainty(table, grade)}
        print(f"{'disk, ' + grade:26}{result[grade]['disk']:10.4f}{result[grade]['disk'] / in_memory:25.3f}")
    rng = np.random.default_rng(0)
    for name, rows in _inputs(table, rng).items():
        shuffled = _certainty(rows.take(rng.permutation(len(rows))), "fast")
        found = _certainty(rows, "fast")
        result[name] = {"shuffled": shuffled, "as it is": found}
        print(f"{name:26}{found:10.4f}{found / shuffled:25.3f}")
    return result


def _inputs(table: pa.Table, rng: np.random.Generator) -> dict[str, pa.Table]:
    constant = {
        name: column if name != "age" else pa.array(np.full(len(table), 40)) for name, column in _columns(table)
    }
    copies = np.where(rng.random(len(table)) < 0.99, 0, np.arange(len(table)))
    return {
        "sorted": table.sort_by("salary"),
        "reverse-sorted": table.sort_by([("salary", "descending")]),
        "clustered": table.sort_by([("zipcode", "ascending"), ("car", "ascending"), ("age", "ascending")]),
        "a constant column, sorted": pa.table(constant).sort_by("salary"),
        "99 % duplicates, sorted": table.take(np.sort(copies)),
    }


def _columns(table: pa.Table) -> list[tuple[str, Any]]:
    return list(zip(table.column_names, table.columns, strict=True))


def _certainty(table: pa.Table, grade: str) -> float:
    """Of a release at k = 10 from an index that needs its spill file; the index is verified."""
    with tempfile.TemporaryDirectory() as directory:
        batches = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=50_000)))
        schema = ra.Schema(quasi=COLUMNS)
        with ra.Index.create(f"{directory}/index", schema, k=BASE_K, quality=grade, memory="64MB") as index:
            index.load(batches)
            index.verify()
            return float(index.release(k=10).quality()["certainty"])


def _measured(**task: Any) -> dict[str, Any]:
    """Run a task in a process of its own."""
    command = [sys.executable, "-m", "bench.bulkload", "task", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{task}: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _task(name: str, file: str, memory: str, quality: str = "fast", repeats: int = 1) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as directory:
        if name == "sort":
            return _sort_by_duckdb(file, memory, directory)
        return _load(name, file, memory, quality, directory, repeats)


def _sort_by_duckdb(file: str, memory: str, directory: str) -> dict[str, Any]:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET memory_limit='{memory}'; SET threads={THREADS}; SET temp_directory='{directory}/spill'")
    connection.execute("SELECT 1").fetchall()
    (rows,) = connection.execute(f"SELECT count(*) FROM '{file}'").fetchone() or (0,)
    before = _state()
    out = f"{directory}/sorted.parquet"
    connection.execute(f"COPY (SELECT * FROM '{file}' ORDER BY salary) TO '{out}' (FORMAT parquet)")
    with Path(out).open("rb") as written:
        os.fsync(written.fileno())
    return {"rows": rows, **_since(before)}


def _load(name: str, file: str, memory: str, quality: str, directory: str, repeats: int) -> dict[str, Any]:
    schema = ra.Schema(quasi=COLUMNS)

    def create(path: str) -> ra.Index:
        return ra.Index.create(path, schema, k=BASE_K, quality=quality, memory=memory, threads=THREADS)

    with create(f"{directory}/small") as index:  # everything that will be needed is compiled and imported
        index.load(ra.generate("agrawal", 60_000))
        index.release(k=10).write(f"{directory}/small.parquet")
    phases: dict[str, float] = {}
    last = ["opening", time.perf_counter()]

    def on_progress(phase: str, done: int, total: int | None) -> None:
        now = time.perf_counter()
        phases[last[0]] = phases.get(last[0], 0.0) + now - last[1]  # type: ignore[operator, index]
        last[:] = [phase, now]

    before = _state()
    last[1] = time.perf_counter()
    with create(f"{directory}/index") as index:
        index.load(file, on_progress)
        on_progress("end", 0, None)
        result: dict[str, Any] = {"rows": len(index), "phases": phases}
        if name == "whole":
            release = index.release(k=10)
            release.write(f"{directory}/k10.parquet")
            on_progress("releasing", 0, None)
            phases["releasing"] = phases.pop("end")
            result["groups"] = release.n_groups
        if name != "releases":
            return {**result, **_since(before)}
        runs: dict[str, list[float]] = {name: [] for name in [*map(str, KS), "together"]}

        def timed(name: str, ks: list[int], target: str) -> None:
            """As the command does it: a directory of files and a manifest."""
            begin = time.perf_counter()
            write_releases({k: index.release(k=k) for k in ks}, target)
            runs[name].append(time.perf_counter() - begin)
            shutil.rmtree(target)

        for _ in range(repeats):
            for k in KS:
                timed(str(k), [k], f"{directory}/k{k}")
            timed("together", KS, f"{directory}/all")
        medians = {name: statistics.median(seconds) for name, seconds in runs.items()}
        result |= {"runs": runs, "together": medians.pop("together"), "by_k": medians}
        return {**result, **_since(before)}


def _state() -> tuple[float, float, dict[str, int]]:
    return time.perf_counter(), _resident_mb(), _moved()


def _since(before: tuple[float, float, dict[str, int]]) -> dict[str, Any]:
    begin, baseline, moved = before
    now = _moved()
    return {
        "seconds": time.perf_counter() - begin,
        "baseline_mb": baseline,
        "peak_mb": peak_memory_mb(),
        "read_mb": (now["rchar"] - moved["rchar"]) / 1e6,
        "written_mb": (now["wchar"] - moved["wchar"]) / 1e6,
    }


def _resident_mb() -> float:
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def _moved() -> dict[str, int]:
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


if __name__ == "__main__":
    main()
