"""`rtree-anon insert`: rows from files, or from standard input as they arrive, into an index."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from rtree_anon.cli import options


@click.command("insert", short_help="Insert rows into an index, from files or a stream.")
@click.argument("index", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--format", "file_format", type=click.Choice(["ndjson", "csv"]), default="ndjson", show_default=True)
@click.option("--batch-rows", type=click.IntRange(min=1), default=1000, show_default=True, help="Of standard input.")
@click.option(
    "--batch-seconds", type=click.FloatRange(min=0), default=1.0, show_default=True, help="No row waits longer."
)
@click.option("--ids", "show_ids", is_flag=True, help="Print the ids of the new rows, one per line.")
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

    Every batch is durable as soon as it is in; at the end there is a new version with all of them.

    \b
    Example:
      rtree-anon insert people.idx new.csv
      tail -f visits.ndjson | rtree-anon insert people.idx - --batch-rows 500 --batch-seconds 2
    """
    from rtree_anon.index import Index

    begin, n_new = time.perf_counter(), 0

    def show(ids: Sequence[int]) -> None:
        if show_ids and not as_json:
            click.echo("\n".join(map(str, ids)))

    with Index.open(index, mode="w", memory=memory, threads=threads) as opened:
        for file in files:
            if file == "-":
                from rtree_anon.io.line_stream import chunks, rows_of_chunk

                for chunk in chunks(sys.stdin.buffer, file_format, batch_rows, batch_seconds):
                    rows = rows_of_chunk(chunk, file_format)
                    try:
                        ids = opened.insert(rows.source)
                    finally:
                        rows.close()
                    n_new += len(ids)
                    show(ids.tolist())
            else:
                ids = opened.insert(file)
                n_new += len(ids)
                show(ids.tolist())
        version = opened.checkpoint()
        facts = {
            "path": str(index),
            "version": version,
            "rows_inserted": n_new,
            "rows": len(opened),
            "seconds": round(time.perf_counter() - begin, 3),
        }
    if as_json:
        options.print_json(facts)
    elif not show_ids:
        click.echo(f"{n_new:,} rows inserted; {index} has {facts['rows']:,} rows (version {version}).")
