"""`rtree-anon compare`: the R+-tree, Mondrian and full-domain generalization side by side on one file, against k.

Every rival gives the same kind of release, so the same measures apply: certainty, discernibility, KL divergence, the
mean relative error of COUNT queries, and seconds. Queries are drawn from the data: the ranges between two random rows
on some quasi-identifiers, as in the R+-tree paper (Section 5.4). Their true answers come from a release at k=1, which
is exact.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtree_anon.cli import options
from rtree_anon.cli.lattice import hierarchies_for
from rtree_anon.errors import UsageError

if TYPE_CHECKING:
    from rtree_anon.release import Release

MEASURES = ("certainty", "discernibility", "kl_divergence", "query_error", "seconds")
MAX_SEARCHED_NODES = 100_000  # a larger lattice is not searched for all its generalizations but walked by Datafly

Conditions = dict[str, Any]


@click.command("compare", short_help="R+-tree, Mondrian and full-domain generalization side by side.")
@click.argument("file", type=click.Path(path_type=Path))
@options.quasi_option("Quasi-identifiers, separated by commas: age,zip,sex.")
@options.several_k_option(required=True, help="Rows per group; one comparison for each: 5,10,50.")
@click.option(
    "--hierarchies",
    "directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Hierarchy files for full-domain generalization: age.csv … Automatic ones where there are none.",
)
@click.option("--max-suppressed", type=click.IntRange(min=0), default=0, show_default=True, help="Of full-domain.")
@click.option("--queries", "n_queries", type=click.IntRange(min=0), default=200, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the queries.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the measures against k: a .png or .svg file.")
@options.json_option()
def command(
    file: Path,
    quasi: list[str],
    k: list[int],
    directory: Path | None,
    max_suppressed: int,
    n_queries: int,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare what three ways of anonymizing FILE leave of it, and how long they take.

    \b
    Example:
      rtree-anon compare people.csv -q age,zip,sex -k 5,10,50 --plot comparison.png
    """
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise UsageError(f"a plot is written as .png or .svg, not as {plot.name!r}")
    from rtree_anon.anonymizer import anonymize, mondrian

    rivals: dict[str, Callable[[int], Release]] = {
        "R+-tree": lambda each: anonymize(file, k=each, quasi=quasi),
        "Mondrian": lambda each: mondrian(file, k=each, quasi=quasi),
        "full-domain": _full_domain(file, hierarchies_for(file, directory, quasi), max_suppressed),
    }
    with options.step_progress() as say:
        say("compiling or loading kernels")
        _warm_up()
        say("reading")
        exact = anonymize(file, k=1, base_k=1, quasi=quasi)
        queries = _queries(exact, quasi, n_queries, random.Random(seed))
        truth = [exact.count(**query) for query in queries]
        rows = []
        for each in sorted(set(k)):
            for name, make in rivals.items():
                say(f"{name} at k={each}")
                rows.append({"k": each, "method": name, **_measured(make, each, queries, truth)})
    if plot is not None:
        _draw(rows, list(rivals), plot)
    if as_json:
        options.print_json({"file": str(file), "quasi": quasi, "queries": len(queries), "rows": rows})
        return
    headers = ("k", "method", "algorithm", "groups", "suppressed", *(measure.replace("_", " ") for measure in MEASURES))
    options.print_table(headers, [[_shown(row[name]) for name in _COLUMNS] for row in rows])


_COLUMNS = ("k", "method", "algorithm", "groups", "suppressed", *MEASURES)


def _warm_up() -> None:
    """Run every rival once on a toy table, so that none is charged for compiling or loading kernels."""
    from rtree_anon import lattice
    from rtree_anon.anonymizer import anonymize, mondrian

    toy = {"number": list(range(40)), "word": ["a", "b"] * 20}
    anonymize(toy, k=2, quasi=list(toy)).quality()
    mondrian(toy, k=2, quasi=list(toy)).quality()
    lattice.incognito(toy, dict.fromkeys(toy), k=2, variant="superroots").best().quality()


def _full_domain(file: Path, hierarchies: dict[str, Any], max_suppressed: int) -> Callable[[int], Release]:
    """The minimal generalization of the lowest penalty, or Datafly's where the lattice is too large to search."""
    from rtree_anon import lattice

    def make(k: int) -> Release:
        greedy = lattice.datafly(file, hierarchies, k=k, max_suppressed=max_suppressed)
        if greedy.n_nodes > MAX_SEARCHED_NODES:
            return greedy.best()
        found = lattice.incognito(file, hierarchies, k=k, max_suppressed=max_suppressed, variant="superroots")
        return found.best("certainty")

    return make


def _measured(
    make: Callable[[int], Release], k: int, queries: Sequence[Conditions], truth: Sequence[float]
) -> dict[str, Any]:
    start = time.perf_counter()
    release = make(k)
    seconds = time.perf_counter() - start
    quality = {name: value if value == value else None for name, value in release.quality().items()}
    errors = [
        abs(release.count(estimate="uniform", **query) - right) / right
        for query, right in zip(queries, truth, strict=True)
    ]
    return {
        "algorithm": release.algorithm,  # Datafly where the lattice is too large to search
        "groups": release.n_groups,
        "suppressed": getattr(release, "n_suppressed", 0),
        **{name: quality[name] for name in ("certainty", "discernibility", "kl_divergence")},
        "query_error": sum(errors) / len(errors) if errors else None,
        "seconds": seconds,
    }


def _queries(exact: Release, quasi: Sequence[str], n_queries: int, chance: random.Random) -> list[Conditions]:
    """Conditions on one to three attributes that at least one row meets."""
    table = exact.to_arrow()
    queries: list[Conditions] = []
    for _ in range(n_queries):
        here, there = (table.slice(chance.randrange(table.num_rows), 1).to_pylist()[0] for _ in range(2))
        names = chance.sample(list(quasi), k=min(len(quasi), chance.randint(1, 3)))
        conditions = {name: _between(name, here, there) for name in names}
        known = {name: wanted for name, wanted in conditions.items() if wanted is not None}
        if known and exact.count(**known) > 0:
            queries.append(known)
    return queries


def _between(name: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> Any:
    """The range (numbers, dates) or the set (categories) between two rows of the exact release; None if missing."""
    is_range = f"{name}_lo" in here
    ends = [row[f"{name}_lo" if is_range else name] for row in (here, there)]
    if any(end is None for end in ends):
        return None
    return (min(ends), max(ends)) if is_range else sorted(set(ends))


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _draw(rows: Sequence[Mapping[str, Any]], methods: Sequence[str], path: Path) -> None:
    """One panel per measure, one line per method."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("plots need matplotlib: pip install 'rtree-anon[plot]'") from None
    figure = Figure(figsize=(4 * len(MEASURES), 3.6), layout="constrained")
    ks = sorted({row["k"] for row in rows})
    panels = figure.subplots(1, len(MEASURES))
    for panel, measure in zip(panels, MEASURES, strict=True):
        for method, marker in zip(methods, "osv^", strict=False):
            points = [(row["k"], row[measure]) for row in rows if row["method"] == method and row[measure] is not None]
            if points:
                panel.plot(*zip(*points, strict=True), marker=marker, label=method)
        panel.set_xlabel("k")
        panel.set_title(measure.replace("_", " "))
        panel.set_xscale("log")
        panel.set_xticks(ks, [str(k) for k in ks], minor=False)
        panel.set_xticks([], minor=True)
        if measure in ("discernibility", "seconds"):
            panel.set_yscale("log")
        panel.grid(alpha=0.3)
    panels[0].legend()
    figure.savefig(path)
