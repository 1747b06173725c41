"""`rtree-anon stats`: what is in an index, without a look at its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rtree_anon.cli import options


@click.command("stats", short_help="Show figures of an index.")
@click.argument("index", type=click.Path(path_type=Path))
@options.json_option()
def command(index: Path, as_json: bool) -> None:
    """Show the rows, leaves, pages and attributes of INDEX.

    \b
    Example:
      rtree-anon stats people.idx
    """
    from rtree_anon.index import Index

    with Index.open(index) as opened:
        facts = opened.stats()
    if as_json:
        options.print_json(facts)
        return
    attributes = facts.pop("quasi")
    for name, value in facts.items():
        if value not in (None, []):
            click.echo(f"{name.replace('_', ' ')}: {_shown(value)}")
    options.print_table(
        ("quasi-identifier", "kind", "missing values", "weight"),
        [
            (
                each["name"],
                each.get("kind", "not known yet"),
                {True: "some", False: "none", None: ""}[each.get("has_missing")],
                f"{each.get('weight', 1.0):g}",
            )
            for each in attributes
        ],
    )


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    return ", ".join(value) if isinstance(value, list) else str(value)
