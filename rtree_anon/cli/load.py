"""`rtree-anon load`: files of any length into an index, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from rtree_anon.cli import options


@click.command("load", short_help="Load files into an index.")
@click.argument("index", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.memory_option()
@options.threads_option()
@options.json_option()
def command(index: Path, files: Sequence[str], memory: str, threads: int | None, as_json: bool) -> None:
    """Load FILEs (Parquet, CSV, also .gz and .zst, Arrow) into INDEX.

    Rows that it has already keep their ids. An error, an interrupt or a crash leaves the index as it was.

    \b
    Example:
      rtree-anon load people.idx people.parquet --memory 1GB
    """
    from rtree_anon.index import Index

    begin = time.perf_counter()
    with Index.open(index, mode="w", memory=memory, threads=threads) as opened:
        n_new = opened.load(files[0] if len(files) == 1 else list(files))
        facts = {
            "path": str(index),
            "version": opened.version,
            "rows_loaded": n_new,
            "rows": len(opened),
            "seconds": round(time.perf_counter() - begin, 3),
        }
    if as_json:
        options.print_json(facts)
    else:
        click.echo(
            f"{n_new:,} rows loaded in {facts['seconds']:.1f} s; {index} has {facts['rows']:,} rows "
            f"(version {facts['version']})."
        )
