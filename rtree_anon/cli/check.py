"""`rtree-anon check`: measure a table, and say whether it reaches what is asked of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtree_anon.cli.options import json_option, print_json, quasi_option, sensitive_option
from rtree_anon.cli.thresholds import threshold_options

if TYPE_CHECKING:
    from rtree_anon.checking import Report


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@quasi_option("Quasi-identifiers: age,zip,sex. Finds x_lo, x_hi too.")
@sensitive_option()
@click.option("--identity", help="The column that says whose row it is.")
@click.option("--counts", help="The column that says how many rows a row stands for.")
@click.option("-k", "k", type=click.IntRange(min=1), help="Rows per group; people with --identity.")
@threshold_options
@click.option("--individual-alpha", type=click.FloatRange(min=0.0), help="Largest share of one person in a group.")
@click.option("--model", help="A privacy model: 'distinct_l=3 on disease & t=0.2 on income'.")
@json_option()
def command(
    file: Path,
    quasi: list[str],
    sensitive: list[str],
    identity: str | None,
    counts: str | None,
    model: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Say what a table protects: ours, or any other tool's. Exit code 1 if it falls short of what is asked.

    \b
    Example:
      rtree-anon check out/k10.parquet -q age,zip,sex -s disease -k 10 -l 3
    """
    from rtree_anon.checking import check
    from rtree_anon.models import model_from_text

    wanted = None if model is None else model_from_text(model)
    about = () if wanted is None else wanted.columns
    report = check(file, quasi, list(dict.fromkeys([*sensitive, *about])), identity, counts=counts)
    shortfalls = report.shortfalls(**asked)
    if wanted is not None:
        shortfalls += report.unmet(wanted.demands())
    k = asked["k"] or 2
    if as_json:
        print_json({"file": str(file), **report.to_dict(k), "shortfalls": shortfalls})
    elif sys.stdout.isatty():
        _print_in_colour(report, k, shortfalls)
    else:
        from rtree_anon.checking.describe import as_text

        click.echo("\n".join([as_text(report, k), *shortfalls]))
    if shortfalls:
        click.get_current_context().exit(1)


def _print_in_colour(report: Report, k: int, shortfalls: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    from rtree_anon.checking.describe import sections, short_groups

    console = Console(highlight=False)
    for title, lines in sections(report):
        grid = Table(
            title=title, title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 2, 0, 0)
        )
        grid.add_column()
        grid.add_column(justify="right", style="cyan")
        grid.add_column(style="dim")
        for line in lines:
            grid.add_row(*line)
        console.print(grid)
    for text in short_groups(report, k):
        console.print(text, style="yellow", markup=False)
    for text in shortfalls:
        console.print(text, style="bold red", markup=False)
