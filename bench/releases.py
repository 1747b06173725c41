"""Does the time of a release depend on k? One tree at base k = 5, releases at k = 5 ... 1000 (Figure 7a of the
R+-tree paper).

    python -m bench.releases [--rows 1000000] [--repeats 5]

Timed in turns, on Agrawal's data in memory: `groups` makes the groups, their boxes and the verification, which is a
`Release` that can be handed out; `file` is that and a Parquet file that the independent checker has read. What the
machine does by itself is seen from the same release made again and again: `noise` is how much longer its slowest turn
took than its fastest, on average over k.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import rtree_anon as ra
from bench.harness import keep, timed_in_turns
from rtree_anon.io.table import read_table
from rtree_anon.release.from_tree import release_tree
from rtree_anon.tree import build_tree

KS = (5, 10, 25, 50, 100, 250, 500, 1000)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    source = ra.generate("agrawal", options.rows, seed=0)
    table = read_table(source, ra.Schema(source.column_names))
    tree = build_tree(table.codes, table.space, 5)
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "release.parquet"
        tasks = {f"groups k={k}": lambda k=k: release_tree(table, tree, k) for k in KS}
        tasks |= {f"file k={k}": lambda k=k: release_tree(table, tree, k).write(target, overwrite=True) for k in KS}
        seconds = timed_in_turns(tasks, options.repeats)
    print(f"{'k':>6} {'groups':>9} {'file':>9}  seconds")
    for k in KS:
        print(f"{k:6} {seconds[f'groups k={k}']['median']:9.3f} {seconds[f'file k={k}']['median']:9.3f}")
    ratios, noise = {}, {}
    for what in ("groups", "file"):
        of_k = [seconds[f"{what} k={k}"] for k in KS]
        medians = [each["median"] for each in of_k]
        ratios[what] = max(medians) / min(medians)
        noise[what] = statistics.mean(max(each["all"]) / each["fastest"] for each in of_k)
        print(f"{what}: slowest k / fastest k = {ratios[what]:.2f}; noise {noise[what]:.2f}")
    path = keep("releases", {"rows": options.rows, "slowest_to_fastest": ratios, "noise": noise, "seconds": seconds})
    print(f"kept in {path}")


if __name__ == "__main__":
    main()
