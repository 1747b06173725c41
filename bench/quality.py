"""How good is the data? Certainty of releases from one tree at base k = 5, against Mondrian built anew for every k.

    python -m bench.quality --adult adult.csv      the UCI Adult table (45,222 complete rows, 8 quasi-identifiers)
    python -m bench.quality                        a seeded table of patients, which needs no file

Numbers are measured by range, categories as sets, (distinct - 1) / (domain - 1). Lower is better.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import rtree_anon as ra
from bench.harness import keep

KS = (5, 10, 25, 50, 100)
ADULT = ["age", "workclass", "education-num", "marital-status", "occupation", "race", "sex", "native-country"]
PATIENTS = ["age", "sex", "zip", "birth_date", "marital_status", "education"]


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, help="the Adult table as CSV with a header")
    options = parser.parse_args()
    source: Any = str(options.adult) if options.adult else ra.generate("patients", 50_000, seed=0)
    quasi = ADULT if options.adult else PATIENTS
    rows: dict[str, dict[str, Any]] = {}
    print(f"{'':22}" + "".join(f"{'k=' + str(k):>9}" for k in KS) + f"{'seconds':>10}")
    for quality in ("fast", "balanced", "best"):
        for method in ("optimal", "greedy", "hierarchical"):
            ra.anonymize(source, k=KS[0], quasi=quasi, quality=quality, method=method)  # compiled before it is timed
            start = time.perf_counter()
            releases = ra.anonymize(source, k=KS, quasi=quasi, quality=quality, method=method)
            seconds = time.perf_counter() - start
            _show(rows, f"{quality}, {method}", {k: release.quality() for k, release in releases.items()}, seconds)
    start = time.perf_counter()
    mondrian = {k: ra.mondrian(source, k=k, quasi=quasi).quality() for k in KS}
    _show(rows, "Mondrian, compacted", mondrian, time.perf_counter() - start)
    path = keep("quality_adult" if options.adult else "quality_patients", {"quasi": quasi, "results": rows})
    print(f"kept in {path}")


def _show(rows: dict[str, dict[str, Any]], name: str, measures: dict[int, dict[str, float]], seconds: float) -> None:
    rows[name] = {"seconds": seconds, "by_k": measures}
    certainty = "".join(f"{measure['certainty']:9.4f}" for measure in measures.values())
    print(f"{name:22}{certainty}{seconds:10.2f}")


if __name__ == "__main__":
    main()
