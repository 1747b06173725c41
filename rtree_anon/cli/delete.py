"""`rtree-anon delete`: rows that are named by id or key go from an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rtree_anon.cli import options
from rtree_anon.cli.batches import Batches, stream_options


@click.command("delete", short_help="Delete rows of an index by id or key.")
@click.argument("index", type=click.Path(path_type=Path))
@click.option("--ids", "source", required=True, metavar="FILE", help="A file with a column `id`, the key, or only one.")
@stream_options
@options.memory_option()
@options.threads_option()
@options.json_option()
def command(
    index: Path,
    source: str,
    file_format: str,
    batch_rows: int,
    batch_seconds: float,
    memory: str,
    threads: int | None,
    as_json: bool,
) -> None:
    """Delete the rows of INDEX that a file names: by the ids that `insert` gave, or by the schema's key.

    A row that does not exist is an error, and then nothing of the file is deleted. `-` reads names from standard input
    as they arrive (--format), in batches.

    \b
    Example:
      rtree-anon delete people.idx --ids gone.csv
      printf 'visit\\nv17\\n' | rtree-anon delete people.idx --ids - --format csv
    """
    from rtree_anon.index import Index

    with Index.open(index, mode="w", memory=memory, threads=threads) as opened:

        def delete(names_of: Any) -> int:
            names = opened.read_names(names_of)
            opened.delete(names)
            return len(names)

        n_gone = Batches([source], file_format, batch_rows, batch_seconds).work_in(opened, delete, "deleted")
        facts = {"path": str(index), "version": opened.version, "rows_deleted": n_gone, "rows": len(opened)}
    if as_json:
        options.print_json(facts)
    else:
        click.echo(f"{n_gone:,} rows deleted; {index} has {facts['rows']:,} rows (version {facts['version']}).")
