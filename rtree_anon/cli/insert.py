"""`rtree-anon insert`: rows from files, or from standard input as they arrive, into an index."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rtree_anon.cli import options
from rtree_anon.cli.batches import Batches, stream_options


@click.command("insert", short_help="Insert rows into an index, from files or a stream.")
@click.argument("index", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@stream_options
@click.option("--ids", "show_ids", is_flag=True, help="Print the ids or keys of the new rows, one per line.")
@options.memory_option()
@options.threads_option()
@options.json_option()
def command(
    index: Path,
    files: Sequence[str],
    file_format: str,
    batch_rows: int,
    batch_seconds: float,
    show_ids: bool,
    memory: str,
    threads: int | None,
    as_json: bool,
) -> None:
    """Insert the rows of FILEs into INDEX; `-` reads rows from standard input as they arrive (--format).

    Every batch is durable as soon as it is in; at the end there is a new version with all of them. A batch that cannot
    be inserted ends it: the error names the line, and the batches before it stay.

    \b
    Example:
      rtree-anon insert people.idx new.csv
      tail -f visits.ndjson | rtree-anon insert people.idx - --batch-rows 500 --batch-seconds 2
    """
    from rtree_anon.index import Index

    begin = time.perf_counter()
    with Index.open(index, mode="w", memory=memory, threads=threads) as opened:

        def insert(rows: Any) -> int:
            names = opened.insert(rows).tolist()
            if show_ids and not as_json and names:
                click.echo("\n".join(map(str, names)))
            return len(names)

        n_new = Batches(files, file_format, batch_rows, batch_seconds).work_in(opened, insert, "inserted")
        facts = {
            "path": str(index),
            "version": opened.version,
            "rows_inserted": n_new,
            "rows": len(opened),
            "seconds": round(time.perf_counter() - begin, 3),
        }
    if as_json:
        options.print_json(facts)
    elif not show_ids:
        click.echo(f"{n_new:,} rows inserted; {index} has {facts['rows']:,} rows (version {facts['version']}).")
