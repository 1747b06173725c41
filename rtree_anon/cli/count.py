"""`rtree-anon count`: COUNT(*) of a query, answered from a released file alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from rtree_anon.cli import options


@click.command("count", short_help="How many rows of a released file match.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--where",
    multiple=True,
    callback=options.assignments,
    metavar="NAME=VALUES",
    help="age=30, age=25..35, age=65.., sex=F,M; any number of times, all must hold.",
)
@click.option(
    "--estimate",
    type=click.Choice(["intersect", "uniform"]),
    default="intersect",
    show_default=True,
    help="All rows that may match, or the expected number if the values of a group are evenly spread.",
)
@click.option(
    "--hierarchy",
    "hierarchies",
    multiple=True,
    callback=options.assignments,
    metavar="NAME=FILE",
    help="What the labels of a column stand for; needed if it was generalized by a hierarchy.",
)
@click.option("--counts", help="The column that says how many rows a row stands for (one row per group).")
@options.json_option()
def command(
    file: Path,
    where: Mapping[str, str],
    estimate: str,
    hierarchies: Mapping[str, str],
    counts: str | None,
    as_json: bool,
) -> None:
    """Count the rows of a released FILE that match all conditions.

    `intersect` is never below the true number: it counts every row whose published values allow a match. Of a column
    that was generalized by a hierarchy, give the hierarchy: its labels look like values.

    \b
    Example:
      rtree-anon count out/k10.parquet --where age=25..35 --where sex=F
    """
    from rtree_anon.hierarchy import Hierarchy
    from rtree_anon.release.file_count import count_in_file

    known = {name: Hierarchy.from_csv(path) for name, path in hierarchies.items()}
    found = count_in_file(file, where, estimate, hierarchies=known, counts=counts)
    number = int(found.count) if estimate == "intersect" else found.count
    if as_json:
        facts = {"file": str(file), "where": dict(where), "estimate": estimate}
        options.print_json({**facts, "count": number, "rows": found.n_rows})
    else:
        click.echo(f"{number:,}" if estimate == "intersect" else f"{number:,.1f}")
