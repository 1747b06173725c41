"""Releases straight from an index: does the time depend on k, and what does one pass for several k save?

    python -m bench.index_releases [--rows 10000000] [--repeats 3] [--memory 256MB] [--index DIRECTORY]

Figure 7a of the R+-tree paper, on disk: one index of Agrawal's data at k = 5, a release to a checked Parquet file at
each k = 5 ... 1000 in turns, and all of them in one pass to a directory with a manifest. With --index the index is kept
there and used again.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import rtree_anon as ra
from bench.harness import keep, peak_memory_mb, timed_in_turns
from rtree_anon.datasets.files import write
from rtree_anon.release.writing import write_releases

KS = (5, 10, 25, 50, 100, 250, 500, 1000)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default="256MB")
    parser.add_argument("--index", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as directory:
        place = Path(directory)
        path = options.index or place / "agrawal.idx"
        if not path.exists():
            _load(path, place / "agrawal.parquet", options.rows, options.memory)
        with ra.Index.open(path) as index:
            result = {"rows": len(index), **_measure(index, place, options.repeats)}
    print(f"kept in {keep('index_releases', result)}")


def _load(path: Path, source: Path, rows: int, memory: str) -> None:
    write("agrawal", rows, source, seed=0)
    schema = ra.Schema.infer(source, quasi=ra.generate("agrawal", 1).column_names)
    with ra.Index.create(path, schema, k=5, memory=memory) as index:
        index.load(source)


def _measure(index: ra.Index, place: Path, repeats: int) -> dict[str, object]:
    sizes: dict[int, int] = {}
    certainty: dict[int, float] = {}

    def alone(k: int) -> None:
        target = place / "release.parquet"
        release = index.release(k)
        release.write(target, overwrite=True)
        sizes[k], certainty[k] = target.stat().st_size, release.quality()["certainty"]

    def together() -> None:
        write_releases({k: index.release(k) for k in KS}, place / "out")
        shutil.rmtree(place / "out")

    tasks = {f"k={k}": lambda k=k: alone(k) for k in KS}
    seconds = timed_in_turns({**tasks, "together": together}, repeats)
    print(f"{'k':>6} {'seconds':>9} {'MB':>7} {'certainty':>10}")
    for k in KS:
        print(f"{k:6} {seconds[f'k={k}']['median']:9.2f} {sizes[k] / 1e6:7.1f} {certainty[k]:10.4f}")
    medians = [seconds[f"k={k}"]["median"] for k in KS]
    ratio, one_pass = max(medians) / min(medians), seconds["together"]["median"]
    print(f"slowest / fastest = {ratio:.2f}")
    print(f"all in one pass: {one_pass:.2f} s, {one_pass / sum(medians):.2f} of {sum(medians):.2f} s one by one")
    print(f"peak memory of the process: {peak_memory_mb():.0f} MB")
    return {
        "slowest_to_fastest": ratio,
        "one_pass_to_one_by_one": one_pass / sum(medians),
        "file_bytes": sizes,
        "certainty": certainty,
        "peak_mb": peak_memory_mb(),
        "seconds": seconds,
    }


if __name__ == "__main__":
    main()
