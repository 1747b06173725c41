"""How fast is a whole anonymization, against building a k-d tree over the same rows, and what does each grade buy?

    python -m bench.speed [--rows 1000000] [--repeats 5]

Agrawal's data, 9 quasi-identifiers, k = 10, one thread, kernels warm: the whole `ra.anonymize` call from an Arrow
table (coding, tree, leaf order, leaf scan, verification) for the three grades, `ra.mondrian(compact=True)`, and
`scipy.spatial.cKDTree(rows, leafsize=10)`, timed in turns.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.spatial import cKDTree

import rtree_anon as ra
from bench.harness import keep, peak_memory_mb, timed_in_turns


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    table = ra.generate("agrawal", options.rows, seed=0)
    quasi = table.column_names
    matrix = np.stack([column.to_numpy() for column in table.columns], axis=1)
    releases: dict[str, ra.Release] = {}

    def anonymize(quality: str) -> None:
        releases[quality] = ra.anonymize(table, k=10, quasi=quasi, quality=quality, threads=options.threads)

    def mondrian() -> None:
        releases["mondrian"] = ra.mondrian(table, k=10, quasi=quasi, compact=True)

    seconds = timed_in_turns(
        {
            "cKDTree": lambda: cKDTree(matrix, leafsize=10),
            "fast": lambda: anonymize("fast"),
            "balanced": lambda: anonymize("balanced"),
            "best": lambda: anonymize("best"),
            "mondrian": mondrian,
        },
        options.repeats,
    )
    yardstick, baseline = seconds["cKDTree"]["median"], releases["mondrian"].quality()["certainty"]
    rows = {}
    print(f"{'':10} {'seconds':>8} {'/ cKDTree':>10} {'certainty':>10} {'/ Mondrian':>11}")
    for name, times in seconds.items():
        certainty = releases[name].quality()["certainty"] if name in releases else None
        rows[name] = {
            "seconds": times,
            "ratio_to_ckdtree": times["median"] / yardstick,
            "certainty": certainty,
            "ratio_to_mondrian": certainty / baseline if certainty is not None else None,
        }
        shown = f"{certainty:10.4f} {certainty / baseline:11.3f}" if certainty is not None else ""
        print(f"{name:10} {times['median']:8.2f} {times['median'] / yardstick:10.2f} {shown}")
    path = keep("speed", {"rows": options.rows, "k": 10, "results": rows, "peak_memory_mb": peak_memory_mb()})
    print(f"kept in {path}")


if __name__ == "__main__":
    main()
