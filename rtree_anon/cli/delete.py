"""`rtree-anon delete`: rows that are named by id or key go from an index."""

from __future__ import annotations

from pathlib import Path

import click

from rtree_anon.cli import options


@click.command("delete", short_help="Delete rows of an index by id or key.")
@click.argument("index", type=click.Path(path_type=Path))
@click.option("--ids", "source", required=True, metavar="FILE", help="A file with a column `id`, the key, or only one.")
@options.memory_option()
@options.threads_option()
@options.json_option()
def command(index: Path, source: str, memory: str, threads: int | None, as_json: bool) -> None:
    """Delete the rows of INDEX that a file names: by the ids that `insert` gave, or by the schema's key.

    A row that does not exist is an error, and then nothing is deleted.

    \b
    Example:
      rtree-anon delete people.idx --ids gone.csv
    """
    from rtree_anon.index import Index

    with Index.open(index, mode="w", memory=memory, threads=threads) as opened:
        ids = opened.read_names(source)
        opened.delete(ids)
        version = opened.checkpoint()
        facts = {"path": str(index), "version": version, "rows_deleted": len(ids), "rows": len(opened)}
    if as_json:
        options.print_json(facts)
    else:
        click.echo(f"{len(ids):,} rows deleted; {index} has {facts['rows']:,} rows (version {version}).")
