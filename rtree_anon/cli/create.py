"""`rtree-anon create`: a new, empty index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rtree_anon.cli import options


@click.command("create", short_help="Make a new, empty index.")
@click.argument("index", type=click.Path(path_type=Path))
@click.option(
    "--schema", "schema_path", type=click.Path(path_type=Path), help="A TOML file instead of -q, -s, --keep …"
)
@options.quasi_option("Quasi-identifiers, separated by commas: age,zip,sex.", required=False)
@options.sensitive_option()
@options.keep_option()
@click.option("--identity", help="The column that says whose row it is: k then counts people.")
@click.option("-k", type=click.IntRange(min=1), default=5, show_default=True, help="Rows of the smallest group.")
@options.model_option("What every group satisfies besides k")
@click.option("--quality", type=click.Choice(["fast", "balanced", "best"]), default="balanced", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the samples of loads.")
@options.json_option()
def command(
    index: Path,
    schema_path: Path | None,
    quasi: list[str],
    sensitive: list[str],
    keep: list[str],
    identity: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Make INDEX, a directory for a table of any length. Releases can have any k from its own k on.
    All of them satisfy its privacy model, where one is given.

    Columns that are not named are never stored. Types and domains come from the first table that is loaded.

    \b
    Example:
      rtree-anon create people.idx -q age,zip,sex -s disease -k 5
      rtree-anon create people.idx --schema schema.toml -k 5
      rtree-anon create visits.idx -q age,zip -s diagnosis --identity patient --model "distinct_l=3 on diagnosis"
    """
    from rtree_anon.cli.anonymize import make_schema
    from rtree_anon.index import Index

    schema = make_schema(schema_path, quasi, sensitive, keep, identity=identity)
    with Index.create(index, schema, **settings) as made:
        facts = {"path": str(index), "k": made.k, "model": str(made.model), "version": made.version}
    if as_json:
        options.print_json(facts)
    else:
        click.echo(f"{index} is ready; rtree-anon load {index} FILE... fills it.")
