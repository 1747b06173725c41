"""`rtree-anon update`: rows of an index get other values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rtree_anon.cli import options
from rtree_anon.cli.batches import Batches, stream_options


@click.command("update", short_help="Give rows of an index other values.")
@click.argument("index", type=click.Path(path_type=Path))
@click.argument("file")
@stream_options
@options.memory_option()
@options.threads_option()
@options.json_option()
def command(
    index: Path,
    file: str,
    file_format: str,
    batch_rows: int,
    batch_seconds: float,
    memory: str,
    threads: int | None,
    as_json: bool,
) -> None:
    """Give rows of INDEX the values that FILE has for them; its column `id`, or the schema's key, names them.

    A row that does not exist is an error, and then nothing of the file is changed. `-` reads rows from standard input
    as they arrive (--format), in batches.

    \b
    Example:
      rtree-anon update people.idx corrections.csv
    """
    from rtree_anon.index import Index

    with Index.open(index, mode="w", memory=memory, threads=threads) as opened:

        def update(rows: Any) -> int:
            names = opened.read_names(rows)
            opened.update(names, rows)
            return len(names)

        n_changed = Batches([file], file_format, batch_rows, batch_seconds).work_in(opened, update, "updated")
        facts = {"path": str(index), "version": opened.version, "rows_updated": n_changed, "rows": len(opened)}
    if as_json:
        options.print_json(facts)
    else:
        click.echo(f"{n_changed:,} rows updated; {index} has {facts['rows']:,} rows (version {facts['version']}).")
