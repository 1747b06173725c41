"""What do rollup and a-priori pruning buy, how long does Incognito take, and does a large table fit into memory?

    python -m bench.lattice adult [--data ../shared/data] [--size 9]
    python -m bench.lattice landsend [--rows 4591581] [--size 8] [--variant superroots] [-k 2]

`adult`: UCI Adult with hierarchies of the heights of Incognito's Figure 9, by the number of attributes; nodes
checked, scans, rollups and seconds of every algorithm; then the ablation of Section 4.2.1 as ratios within one run:
bottom-up without rollup, with rollup, Incognito. `landsend`: a generated table in the published shape of Lands End's
(that one is not public); peak memory is that of the whole process, the table's coding included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from bench.harness import keep, peak_memory_mb
from rtree_anon import datasets, lattice
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.lattice import Result

ADULT_NAMES = (
    *("age", "sex", "race", "marital-status", "education"),
    *("native-country", "workclass", "occupation", "salary-class"),
)
PAPER = {"3": (14, 14), "4": (47, 35), "5": (206, 103), "6": (680, 246), "7": (2088, 664), "8": (6366, 1778)}
PAPER["9"] = (12818, 4307)

# heights as published: 5, 3, 1, 1, 4, 1, 4, 1
LANDSEND_HIERARCHIES = {
    "zipcode": Hierarchy.intervals(widths=[10, 100, 1_000, 10_000]),
    "order_date": Hierarchy.dates(["month", "quarter"]),
    "gender": Hierarchy.suppress(),
    "style": Hierarchy.suppress(),
    "price": Hierarchy.intervals(widths=[100, 1_000, 10_000]),
    "quantity": Hierarchy.suppress(),
    "cost": Hierarchy.intervals(widths=[100, 1_000, 10_000]),
    "shipment": Hierarchy.suppress(),
}

Run = Callable[[Any, dict[str, Any], int], Result]
RUNS: dict[str, Run] = {
    "incognito-basic": lambda table, trees, k: lattice.incognito(table, trees, k=k),
    "incognito-superroots": lambda table, trees, k: lattice.incognito(table, trees, k=k, variant="superroots"),
    "incognito-cube": lambda table, trees, k: lattice.incognito(table, trees, k=k, variant="cube"),
    "bottom-up": lambda table, trees, k: lattice.bottom_up(table, trees, k=k),
    "bottom-up-without-rollup": lambda table, trees, k: lattice.bottom_up(table, trees, k=k, rollup=False),
    "samarati": lambda table, trees, k: lattice.samarati(table, trees, k=k),
    "samarati-first-only": lambda table, trees, k: lattice.samarati(table, trees, k=k, first_only=True),
    "datafly": lambda table, trees, k: lattice.datafly(table, trees, k=k),
}


def figures(result: Result) -> dict[str, Any]:
    """What one run took."""
    return {
        "nodes": result.n_nodes,
        "nodes_checked": result.nodes_checked,
        "scans": result.scans,
        "rollups": result.rollups,
        "seconds": round(result.seconds, 3),
        "generalizations": len(result.generalizations),
        "minimal": len(result.minimal),
    }


def by_size(table: Any, hierarchies: dict[str, Hierarchy], k: int, smallest: int, largest: int) -> dict[str, Any]:
    """Every algorithm on the first `smallest`, … `largest` attributes; all that are complete must agree."""
    sizes: dict[str, Any] = {}
    for size in range(smallest, largest + 1):
        trees = dict(list(hierarchies.items())[:size])
        results = {name: run(table, trees, k) for name, run in RUNS.items()}
        answers = {tuple(result.minimal) for result in results.values() if result.complete}
        if len(answers) != 1:
            raise AssertionError(f"the algorithms disagree at size {size}")
        sizes[str(size)] = {name: figures(result) for name, result in results.items()}
        print(
            f"k={k}, {size} attributes",
            {name: (result.nodes_checked, round(result.seconds, 2)) for name, result in results.items()},
        )
    return sizes


def ablation(sizes: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Seconds as multiples of Incognito's (superroots), and the nodes checked as a share of bottom-up's."""
    ratios = {}
    for size, runs in sizes.items():
        incognito = runs["incognito-superroots"]
        ratios[size] = {
            "without_rollup": round(runs["bottom-up-without-rollup"]["seconds"] / max(incognito["seconds"], 1e-9), 2),
            "with_rollup": round(runs["bottom-up"]["seconds"] / max(incognito["seconds"], 1e-9), 2),
            "nodes_checked": round(incognito["nodes_checked"] / runs["bottom-up"]["nodes_checked"], 3),
        }
    return ratios


def adult(data: Path, largest: int) -> dict[str, Any]:
    """The Adult experiments at k = 2 for growing quasi-identifiers, and at k = 10 for the largest."""
    table = pa.csv.read_csv(data / "adult.csv")
    hierarchies = {
        name: Hierarchy.from_csv(data / "hierarchies" / f"adult_hierarchy_{name}.csv") for name in ADULT_NAMES
    }
    hierarchies["age"] = Hierarchy.intervals(widths=[5, 10, 20])
    lattice.bottom_up(table, {"sex": hierarchies["sex"]}, k=2)  # compile
    sizes = {
        "k=2": by_size(table, hierarchies, 2, 3, largest),
        "k=10": by_size(table, hierarchies, 10, largest, largest),
    }
    return {
        "rows": table.num_rows,
        "paper_nodes_checked": PAPER,
        "runs": sizes,
        "ratios": {k: ablation(runs) for k, runs in sizes.items()},
    }


def landsend(rows: int, size: int, variant: str, k: int) -> dict[str, Any]:
    """All generalizations of a Lands End-like table that comes as a stream of batches."""
    trees = dict(list(LANDSEND_HIERARCHIES.items())[:size])
    start = time.perf_counter()
    batches = pa.RecordBatchReader.from_batches(datasets.schema("landsend"), datasets.batches("landsend", rows))
    result = lattice.incognito(batches, trees, k=k, variant=variant)
    return {
        "rows": rows,
        "k": k,
        "variant": variant,
        "heights": dict(zip(result.names, result.heights, strict=True)),
        "distinct_rows": len(result.search.base),
        **figures(result),
        "seconds_with_reading": round(time.perf_counter() - start, 1),
        "peak_memory_mb": round(peak_memory_mb()),
    }


def main() -> None:
    """Run one of the experiments and keep its result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=["adult", "landsend"])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--rows", type=int, default=4_591_581)
    parser.add_argument("--size", type=int, default=0, help="number of quasi-identifiers; default: all")
    parser.add_argument("--variant", default="superroots")
    parser.add_argument("-k", type=int, default=2)
    options = parser.parse_args()
    if options.experiment == "adult":
        print(keep("lattice-adult", adult(options.data, options.size or 9)))
        return
    result = landsend(options.rows, options.size or 8, options.variant, options.k)
    print(result)
    print(keep(f"lattice-landsend-{options.variant}-k{options.k}", result))


if __name__ == "__main__":
    main()
