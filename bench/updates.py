"""Streaming updates: what a batch costs, what many batches do to quality, and how many rows a second come and go.

    python -m bench.updates growth       Figures 7b and 11 of the R+-tree paper: batches into a growing index
    python -m bench.updates shrinking    a random half is deleted
    python -m bench.updates replacing    rounds in which a tenth of the rows is replaced
    python -m bench.updates throughput   durable inserts and deletes by batch size and index size, beside SQLite

Quality is compared with a fresh load of the same rows, time with that load, in one run. Results are kept as JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rtree_anon as ra
from bench.harness import keep

FIGURES = ("certainty", "discernibility", "kl_divergence")
_SINGLE_TURNS = 3  # of single rows to each turn of batches: they take a fraction of a second, and vary
SPATIAL = ("zipcode", "order_date", "style", "price", "cost")  # the attributes of SQLite's R*Tree


def rows_of(n: int) -> pa.Table:
    return ra.generate("landsend", n)


@contextmanager
def new_index(directory: str, quality: str, name: str = "index", **options: Any) -> Iterator[ra.Index]:
    schema = ra.Schema(list(rows_of(1).schema.names))
    with ra.Index.create(Path(directory) / name, schema, k=5, quality=quality, **options) as index:
        yield index


def figures(index: ra.Index, k: int) -> dict[str, float]:
    quality = index.release(k=k).quality()
    return {name: quality[name] for name in FIGURES}


def fresh(rows: pa.Table, directory: str, quality: str, k: int) -> tuple[float, dict[str, float]]:
    """Seconds of a load of these rows, and its figures."""
    with new_index(directory, quality, f"fresh-{rows.num_rows}-{time.monotonic_ns()}") as index:
        seconds = timed(lambda: index.load(rows))
        return seconds, figures(index, k)


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def compared(index: ra.Index, rows: pa.Table, directory: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of an index, those of a fresh load of the same rows, and their ratios."""
    seconds, expected = fresh(rows, directory, arguments.quality, arguments.k)
    found = figures(index, arguments.k)
    ratios = {name: found[name] / expected[name] for name in FIGURES}
    return {"index": found, "fresh": expected, "ratios": ratios, "load_seconds": seconds}


def warm_up(quality: str) -> None:
    """Compile every kernel that is timed below: a load, inserts, deletes and checkpoints of a small index."""
    rows = rows_of(40_000)
    with tempfile.TemporaryDirectory() as directory, new_index(directory, quality) as index:
        index.load(rows.slice(0, 20_000))
        ids = index.insert(rows.slice(20_000))
        index.checkpoint()
        index.delete(ids[::2])
        index.checkpoint()


def growth(arguments: argparse.Namespace) -> dict[str, Any]:
    """Batches into a growing index; those in `--fresh` are compared with loading everything anew at that size.

    Such a batch goes into copies of the index first, in turns with fresh loads: the machine is not equally fast all the
    time. Ratios are those of the medians.
    """
    warm_up(arguments.quality)
    n = arguments.batch
    rows = rows_of(n * (arguments.batches + 1))
    batches = []
    with tempfile.TemporaryDirectory() as directory, new_index(directory, arguments.quality) as index:
        index.load(rows.slice(0, n))
        for number in range(1, arguments.batches + 1):
            before, new = rows.slice(0, number * n), rows.slice(number * n, n)
            line: dict[str, Any] = {"rows": before.num_rows + n}
            if number in arguments.fresh:
                turns = [against_load(directory, arguments.quality, before, new) for _ in range(arguments.repeats)]
                line |= {name: [turn[name] for turn in turns] for name in turns[0]}
                median = {name: statistics.median(line[name]) for name in turns[0]}
                line["ratio"] = median["seconds"] / median["load_seconds"]
                line["cpu_ratio"] = median["cpu_seconds"] / median["load_cpu_seconds"]
            change(index, None, new)
            batches.append(line)
            print(json.dumps(line), flush=True)
        index.verify()
        return {"batches": batches, "quality": compared(index, rows, directory, arguments)}


def against_load(directory: str, quality: str, before: pa.Table, new: pa.Table) -> dict[str, float]:
    """Seconds of a batch into a copy of the index, and of a load of all rows."""
    copy = Path(directory) / "copy"
    shutil.copytree(Path(directory) / "index", copy)
    with ra.Index.open(copy, mode="w") as index:
        own = both_times(lambda: change(index, None, new))
        if len(index) != before.num_rows + new.num_rows:
            raise RuntimeError("the batch did not arrive")
    shutil.rmtree(copy)
    with new_index(directory, quality, "again") as other:
        load = both_times(lambda: other.load(pa.concat_tables((before, new))))
    shutil.rmtree(Path(directory) / "again")
    return {"seconds": own[0], "cpu_seconds": own[1], "load_seconds": load[0], "load_cpu_seconds": load[1]}


def both_times(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds that passed, and those that processors worked."""
    cpu = time.process_time()
    seconds = timed(work)
    return seconds, time.process_time() - cpu


def shrinking(arguments: argparse.Namespace) -> dict[str, Any]:
    """A random half goes, in batches."""
    rows = rows_of(arguments.rows)
    with tempfile.TemporaryDirectory() as directory, new_index(directory, arguments.quality) as index:
        ids, order = loaded(index, rows)
        gone = np.random.default_rng(1).permutation(len(ids))[: len(ids) // 2]
        seconds = [timed(lambda part=part: change(index, ids[part], None)) for part in np.array_split(gone, 5)]
        kept = np.delete(np.arange(len(ids)), gone)
        index.verify()
        return {"seconds": seconds, "quality": compared(index, rows.take(order[kept]), directory, arguments)}


def replacing(arguments: argparse.Namespace) -> dict[str, Any]:
    """Rounds in which a tenth of the rows goes and as many come."""
    n, rounds = arguments.rows, arguments.rounds
    share = n // 10
    rows = rows_of(n + rounds * share)
    with tempfile.TemporaryDirectory() as directory, new_index(directory, arguments.quality) as index:
        ids, order = loaded(index, rows.slice(0, n))
        generator = np.random.default_rng(2)
        seconds = []
        for number in range(rounds):
            leave = np.sort(generator.permutation(len(ids))[:share])
            first = n + number * share
            begin = time.perf_counter()
            new = change(index, ids[leave], rows.slice(first, share))
            seconds.append(time.perf_counter() - begin)
            ids = np.concatenate((np.delete(ids, leave), new))
            order = np.concatenate((np.delete(order, leave), np.arange(first, first + share)))
        index.verify()
        return {"seconds": seconds, "quality": compared(index, rows.take(order), directory, arguments)}


def loaded(index: ra.Index, rows: pa.Table) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Load rows by inserting them, so that it is known which id is which row: ids, and rows in that order."""
    ids = index.insert(rows)
    index.checkpoint()
    return ids, np.arange(rows.num_rows)


def change(index: ra.Index, gone: Any, rows: pa.Table | None) -> Any:
    if gone is not None:
        index.delete(gone)
    new = index.insert(rows) if rows is not None else None
    index.checkpoint()
    return new


def throughput(arguments: argparse.Namespace) -> dict[str, Any]:
    """Durable batches into indexes of several sizes, a checkpoint included, and the same rows into SQLite.

    Rows come and go again, so that every turn finds an index of the same size; medians of the turns.
    """
    warm_up(arguments.quality)
    options = {"memory": arguments.memory} if arguments.memory else {}
    batches = ((1000, arguments.inserted), (100_000, arguments.inserted), (1, arguments.single))
    results = []
    for n in arguments.sizes:
        rows = rows_of(n + max(arguments.inserted, 1))
        with tempfile.TemporaryDirectory() as directory, new_index(directory, arguments.quality, **options) as index:
            index.load(rows.slice(0, n))
            turns: list[list[dict[str, float]]] = [[] for _ in batches]
            for _ in range(arguments.repeats):
                for (batch, n_rows), own in zip(batches, turns, strict=True):
                    for _ in range(_SINGLE_TURNS if batch == 1 else 1):
                        own.append(come_and_go(index, rows.slice(n, n_rows), batch))
        for (batch, n_rows), seconds in zip(batches, turns, strict=True):
            line: dict[str, Any] = {"index_rows": n, "batch": batch, "rows": n_rows}
            for name in ("insert", "delete"):
                times = [each[name] for each in seconds]
                line |= {f"{name}_seconds": times, f"{name}_rows_per_second": round(n_rows / statistics.median(times))}
            results.append(line)
            print(json.dumps(line), flush=True)
    growth = {
        f"{name} by {of_first['batch']}": of_first[f"{name}_rows_per_second"] / of_last[f"{name}_rows_per_second"]
        for of_first, of_last in zip(results[: len(batches)], results[-len(batches) :], strict=True)
        for name in ("insert", "delete")
    }
    print(json.dumps(growth), flush=True)
    lite = sqlite(arguments.sizes[0], arguments.lite)
    print(json.dumps(lite), flush=True)
    return {"ours": results, "cost_per_row_from_first_to_last_size": growth, "sqlite": lite}


def come_and_go(index: ra.Index, new: pa.Table, batch: int) -> dict[str, float]:
    """Seconds in which rows come in batches, and in which they go in random order, each with a checkpoint."""
    ids: list[Any] = []

    def insert() -> None:
        for begin in range(0, new.num_rows, batch):
            ids.append(index.insert(new.slice(begin, batch), durable=batch > 1))
            if batch == 1 and begin % 100 == 99:
                index.flush()  # single rows in groups of a hundred
        index.flush()
        index.checkpoint()

    def delete() -> None:
        named = np.random.default_rng(3).permutation(np.concatenate(ids))
        for begin in range(0, len(named), batch):
            index.delete(named[begin : begin + batch], durable=batch > 1)
        index.flush()
        index.checkpoint()

    return {"insert": timed(insert), "delete": timed(delete)}


def sqlite(n: int, n_rows: int, batch: int = 1000) -> dict[str, Any]:
    """The same rows in a table with an R*Tree on five attributes, one transaction for each batch."""
    rows = rows_of(n + n_rows).cast(
        pa.schema([(f.name, pa.string() if f.type == pa.string() else pa.int32()) for f in rows_of(1).schema])
    )
    names = rows.schema.names
    records = list(zip(range(n + n_rows), *(rows[name].to_pylist() for name in names), strict=True))
    spatial = [names.index(name) + 1 for name in SPATIAL]
    boxes = [(record[0], *(record[place] for place in spatial for _ in "ab")) for record in records]
    with tempfile.TemporaryDirectory() as directory:
        base = sqlite3.connect(Path(directory) / "rows.db", isolation_level=None)
        base.execute("pragma journal_mode=wal")
        base.execute("pragma synchronous=full")
        base.execute(f"create table rows (id integer primary key, {', '.join(names)})")
        base.execute(f"create virtual table boxes using rtree(id, {', '.join(f'{s}0, {s}1' for s in SPATIAL)})")
        into_rows = f"insert into rows values ({', '.join('?' * (len(names) + 1))})"
        into_boxes = f"insert into boxes values ({', '.join('?' * 11)})"

        def insert(begin: int, end: int) -> None:
            base.execute("begin")
            base.executemany(into_rows, records[begin:end])
            base.executemany(into_boxes, boxes[begin:end])
            base.execute("commit")

        def delete(begin: int, end: int) -> None:
            base.execute("begin")
            base.executemany("delete from rows where id = ?", [(row,) for row in range(begin, end)])
            base.executemany("delete from boxes where id = ?", [(row,) for row in range(begin, end)])
            base.execute("commit")

        insert(0, n)
        seconds = {
            work.__name__: timed(lambda work=work: [work(a, a + batch) for a in range(n, n + n_rows, batch)])
            for work in (insert, delete)
        }
        base.close()
    speeds = {f"{name}_rows_per_second": round(n_rows / taken) for name, taken in seconds.items()}
    return {"table_rows": n, "batch": batch, "rows": n_rows, **speeds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["growth", "shrinking", "replacing", "throughput"])
    parser.add_argument("--quality", default="balanced")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--batch", type=int, default=500_000, help="rows of a batch (growth)")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--fresh", type=int, nargs="*", default=[2, 4, 6, 8], help="batches compared with a load")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the index (shrinking, replacing)")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000], help="rows (throughput)")
    parser.add_argument("--inserted", type=int, default=500_000)
    parser.add_argument("--memory", help="memory of the index, such as 512MB (throughput); default: that of an index")
    parser.add_argument("--single", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=3, help="turns (throughput, growth)")
    parser.add_argument("--lite", type=int, default=100_000, help="rows for SQLite")
    arguments = parser.parse_args()
    result = globals()[arguments.what](arguments)
    print(json.dumps(result, indent=2))
    named = [] if arguments.quality == "balanced" else [arguments.quality]
    named += [arguments.memory.lower()] if arguments.memory else []
    path = keep("-".join(["updates", arguments.what, *named]), {"arguments": vars(arguments), **result})
    print(f"kept in {path}")


if __name__ == "__main__":
    main()
