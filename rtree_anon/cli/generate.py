"""`rtree-anon generate`: write one of the seeded datasets to a file."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click


@click.command("generate")
@click.argument("dataset", metavar="agrawal|landsend|patients")
@click.option("--rows", type=click.IntRange(min=0), default=1_000_000, show_default=True, help="How many rows.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed, another table.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="A .parquet or .csv file.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(dataset: str, rows: int, seed: int, output: Path, force: bool, as_json: bool) -> None:
    """Write a table of invented rows: the same ones for the same seed, everywhere.

    \b
    agrawal   nine whole numbers about people, their houses and loans (uniform)
    landsend  sales of a mail-order house (skewed, correlated)
    patients  hospital visits, several per patient, with missing values

    \b
    Example:
      rtree-anon generate patients --rows 1000000 -o patients.parquet
    """
    from rtree_anon.datasets.files import write

    started = time.perf_counter()
    with _progress(f"generating {dataset}", rows) as advance:
        n_bytes = write(dataset, rows, output, seed, overwrite=force, on_progress=advance)
    seconds = time.perf_counter() - started
    if as_json:
        facts = {"dataset": dataset, "rows": rows, "seed": seed, "path": str(output), "bytes": n_bytes}
        click.echo(json.dumps({**facts, "seconds": round(seconds, 3)}))
    elif sys.stdout.isatty():
        click.echo(f"{output}: {rows:,} rows, {n_bytes / 1e6:,.1f} MB, {seconds:.1f} s")


@contextmanager
def _progress(title: str, total_rows: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, nothing elsewhere; gives the function to call with newly finished rows."""
    if not sys.stderr.isatty():
        yield lambda n_rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} rows"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total_rows)
        yield lambda n_rows: bar.advance(task, n_rows)
