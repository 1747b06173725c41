"""`rtree-anon update`: rows of an index get other values."""

from __future__ import annotations

from pathlib import Path

import click

from rtree_anon.cli import options


@click.command("update", short_help="Give rows of an index other values.")
@click.argument("index", type=click.Path(path_type=Path))
@click.argument("file")
@options.memory_option()
@options.threads_option()
@options.json_option()
def command(index: Path, file: str, memory: str, threads: int | None, as_json: bool) -> None:
    """Give rows of INDEX the values that FILE has for them; its column `id`, or the schema's key, names them.

    A row that does not exist is an error, and then nothing is changed.

    \b
    Example:
      rtree-anon update people.idx corrections.csv
    """
    from rtree_anon.index import Index

    with Index.open(index, mode="w", memory=memory, threads=threads) as opened:
        ids = opened.read_names(file)
        opened.update(ids, file)
        version = opened.checkpoint()
        facts = {"path": str(index), "version": version, "rows_updated": len(ids), "rows": len(opened)}
    if as_json:
        options.print_json(facts)
    else:
        click.echo(f"{len(ids):,} rows updated; {index} has {facts['rows']:,} rows (version {version}).")
