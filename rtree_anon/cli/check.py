"""`rtree-anon check`: measure a table, and say whether it reaches what is asked of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtree_anon.cli.options import json_option, print_json, quasi_option, sensitive_option

if TYPE_CHECKING:
    from rtree_anon.checking import Report


def _c_and_l(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, int] | None:
    """c and l of recursive diversity, separated by a comma."""
    if value is None:
        return None
    try:
        c, ell = value.split(",")
        return float(c), int(ell)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a pair such as 3,2 (c = 3, l = 2).", ctx, param) from None


def _thresholds(function: Callable[..., None]) -> Callable[..., None]:
    """The options that ask something of the table."""
    share = click.FloatRange(min=0.0)
    at_least_one = click.IntRange(min=1)
    for option in reversed(
        [
            click.option("-k", "k", type=at_least_one, help="Rows per group; people with --identity."),
            click.option("--l", "distinct_l", type=at_least_one, help="Distinct sensitive values per group."),
            click.option("--entropy-l", type=click.FloatRange(min=1.0), help="Entropy l-diversity."),
            click.option(
                "--recursive", callback=_c_and_l, metavar="C,L", help="Recursive (c,l)-diversity, for example 3,2."
            ),
            click.option("--t", "t", type=share, help="t-closeness, equal distance."),
            click.option("--ordered-t", "t_ordered", type=share, help="t-closeness, ordered distance."),
            click.option("--alpha", type=share, help="Largest share of one sensitive value in a group."),
            click.option("--beta", type=share, help="Basic beta-likeness."),
            click.option("--enhanced-beta", "beta_enhanced", type=share, help="Enhanced beta-likeness."),
            click.option("--delta", type=share, help="Delta-disclosure privacy."),
            click.option("--individual-alpha", type=share, help="Largest share of one person's rows in a group."),
        ]
    ):
        function = option(function)
    return function


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@quasi_option("Quasi-identifiers: age,zip,sex. Finds x_lo, x_hi too.")
@sensitive_option()
@click.option("--identity", help="The column that says whose row it is.")
@click.option("--counts", help="The column that says how many rows a row stands for.")
@_thresholds
@json_option()
def command(
    file: Path,
    quasi: list[str],
    sensitive: list[str],
    identity: str | None,
    counts: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Say what a table protects: ours, or any other tool's. Exit code 1 if it falls short of what is asked.

    \b
    Example:
      rtree-anon check out/k10.parquet -q age,zip,sex -s disease -k 10 --l 3
    """
    from rtree_anon.checking import check

    report = check(file, quasi, sensitive, identity, counts=counts)
    shortfalls = report.shortfalls(**asked)
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
