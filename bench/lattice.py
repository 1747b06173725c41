"""What do rollup and a-priori pruning buy, how long does Incognito take, and does a large table fit into memory?

    python -m bench.lattice adult [--data ../shared/data] [--size 9] [--plot lattice.svg]
    python -m bench.lattice landsend [--rows 4591581] [--size 8] [--variant superroots] [-k 2]

`adult`: UCI Adult with hierarchies of the heights of Incognito's Figure 9, by the number of attributes; nodes
checked, scans, rollups and seconds of every algorithm; then the ablation of Section 4.2.1 as ratios within one run:
bottom-up without rollup, with rollup, Incognito. `landsend`: a generated table in the published shape of Lands End's
(that one is not public); peak memory is that of the whole process, the table's coding included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
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
    """What one run took. The seconds of phases are added up over threads."""
    return {
        "nodes": result.n_nodes,
        "nodes_checked": result.nodes_checked,
        "nodes_counted": result.effort.nodes_counted,
        "scans": result.scans,
        "rollups": result.rollups,
        "seconds": round(result.seconds, 3),
        "seconds_of_phases": {
            "table": round(result.effort.table_seconds, 3),
            "samples": round(result.effort.sampling_seconds, 3),
            "frequency_sets": round(result.effort.counting_seconds, 3),
        },
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
        show(f"k = {k}, {size} attributes, {len(answers.pop())} minimal generalizations", sizes[str(size)])
    return sizes


def show(title: str, runs: Mapping[str, Mapping[str, Any]]) -> None:
    """One line per run."""
    columns = ("nodes_checked", "nodes_counted", "scans", "rollups", "seconds")
    print(f"\n{title}\n{'':26}" + "".join(f"{name.replace('_', ' '):>15}" for name in columns))
    for name, run in runs.items():
        print(f"{name:26}" + "".join(f"{run[column]:>15,}" for column in columns))


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


def show_ablation(k: str, ratios: Mapping[str, Mapping[str, float]]) -> None:
    """One line per number of attributes."""
    print(f"\n{k}: bottom-up in multiples of Incognito's seconds; nodes that Incognito checks, of those of bottom-up")
    print(f"{'attributes':>10}{'without rollup':>16}{'with rollup':>13}{'nodes checked':>15}{'(in the paper)':>16}")
    for size, row in ratios.items():
        bottom_up, incognito = PAPER[size]
        line = f"{size:>10}{row['without_rollup']:>16.1f}{row['with_rollup']:>13.1f}{row['nodes_checked']:>15.2f}"
        print(line + (f"{incognito / bottom_up:>16.2f}" if k == "k=2" else ""))


def adult(data: Path, largest: int, ks: Sequence[int]) -> dict[str, Any]:
    """The Adult experiments: for growing quasi-identifiers at k = 2, for the largest at others."""
    table = pa.csv.read_csv(data / "adult.csv")
    hierarchies = {
        name: Hierarchy.from_csv(data / "hierarchies" / f"adult_hierarchy_{name}.csv") for name in ADULT_NAMES
    }
    hierarchies["age"] = Hierarchy.intervals(widths=[5, 10, 20])
    few = {name: hierarchies[name] for name in ADULT_NAMES[:3]}
    for run in RUNS.values():
        run(table, few, 2)  # compile
    sizes = {f"k={k}": by_size(table, hierarchies, k, 3 if k == 2 else largest, largest) for k in ks}
    ratios = {k: ablation(runs) for k, runs in sizes.items()}
    for k, rows in ratios.items():
        show_ablation(k, rows)
    return {"rows": table.num_rows, "paper_nodes_checked": PAPER, "runs": sizes, "ratios": ratios}


def landsend(rows: int, size: int, variant: str, k: int) -> dict[str, Any]:
    """All generalizations of a Lands End-like table that comes as a stream of batches."""
    trees = dict(list(LANDSEND_HIERARCHIES.items())[:size])
    lattice.incognito(datasets.generate("landsend", min(rows, 200_000)), trees, k=k, variant=variant)  # compile
    start = time.perf_counter()
    batches = pa.RecordBatchReader.from_batches(datasets.schema("landsend"), datasets.batches("landsend", rows))
    result = lattice.incognito(batches, trees, k=k, variant=variant)
    found = {
        "rows": rows,
        "k": k,
        "variant": variant,
        "heights": dict(zip(result.names, result.heights, strict=True)),
        "distinct_rows": len(result.search.base),
        **figures(result),
        "seconds_with_reading": round(time.perf_counter() - start, 1),
        "peak_memory_mb": round(peak_memory_mb()),
    }
    show(f"{rows:,} rows, k = {k}, {found['minimal']} minimal generalizations", {result.algorithm: found})
    print(
        f"{found['seconds_with_reading']} s with making and reading the table; by phase, over all threads "
        f"{found['seconds_of_phases']}; at most {found['peak_memory_mb']:,} MB"
    )
    return found


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Seconds and nodes checked against the number of attributes, as in the paper's Figures 10 and Section 4.2.1."""
    from matplotlib.figure import Figure

    runs = result["runs"]["k=2"]
    figure = Figure(figsize=(11, 4), layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, measure in zip(panels, ("seconds", "nodes_checked"), strict=True):
        for name in RUNS:
            panel.plot(
                [int(size) for size in runs], [row[name][measure] for row in runs.values()], marker="o", label=name
            )
        panel.set_yscale("log")
        panel.set_xlabel("attributes")
        panel.set_title(f"{measure.replace('_', ' ')}, Adult, k = 2")
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize="small")
    figure.savefig(path)


def main() -> None:
    """Run one of the experiments and keep its result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=["adult", "landsend"])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--rows", type=int, default=4_591_581)
    parser.add_argument("--size", type=int, default=0, help="number of quasi-identifiers; default: all")
    parser.add_argument("--variant", default="superroots")
    parser.add_argument("-k", type=int, default=2)
    parser.add_argument("--plot", type=Path, help="adult: draw seconds and nodes checked, a .svg or .png file")
    options = parser.parse_args()
    if options.experiment == "adult":
        result = adult(options.data, options.size or len(ADULT_NAMES), (2, 10))
        if options.plot is not None:
            draw(result, options.plot)
        path = keep("lattice-adult", result)
    else:
        result = landsend(options.rows, options.size or len(LANDSEND_HIERARCHIES), options.variant, options.k)
        path = keep(f"lattice-landsend-{options.variant}-k{options.k}", result)
    print(f"\nkept in {path}")


if __name__ == "__main__":
    main()
