"""`rtree-anon changes`: what a published table must drop and add since an earlier version."""

from __future__ import annotations

from pathlib import Path

import click

from rtree_anon.cli import options


@click.command("changes", short_help="What a published table must drop and add since a version.")
@click.argument("index", type=click.Path(path_type=Path))
@click.option("--since", type=click.IntRange(min=1), required=True, help="The version that was published.")
@click.option("-k", "k", type=click.IntRange(min=1), default=10, show_default=True, help="Rows per group.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A new directory for dropped and added groups.")
@click.option("--method", type=click.Choice(["optimal", "greedy", "hierarchical"]), default="optimal")
@click.option("--no-compact", is_flag=True, help="As for the release.")
@click.option("--allow-small", is_flag=True, help="Accept replacements that reveal whose values came or went.")
@options.json_option()
def command(
    index: Path,
    since: int,
    k: int,
    output: Path | None,
    method: str,
    no_compact: bool,
    allow_small: bool,
    as_json: bool,
) -> None:
    """Compare the newest version of INDEX with an earlier one that is still kept.

    Releases of different versions are not safe together: whoever has both sees which rows came and went. Replacements
    of 1 to k - 1 rows are refused unless --allow-small is given.

    \b
    Example:
      rtree-anon changes people.idx --since 12 -k 10 -o changes/
    """
    from rtree_anon.index import Index

    if output is not None:
        options.require_new_directory(output)
    with Index.open(index) as opened:
        changes = opened.changes(since, k, method, not no_compact, allow_small)
        if output is not None:
            changes.write(output)
    facts = changes.facts()
    if as_json:
        options.print_json(facts)
        return
    click.echo(
        f"Version {since} to {facts['version']} at k={k}: {facts['groups_dropped']:,} groups to drop, "
        f"{facts['groups_added']:,} to add; {facts['gained']:,} rows came, {facts['lost']:,} went."
    )
