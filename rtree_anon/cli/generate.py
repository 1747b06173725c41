"""`rtree-anon generate`: write one of the seeded datasets to a file."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from rtree_anon.cli.options import json_option, print_json, row_progress


@click.command("generate", short_help="Write a seeded table of invented rows.")
@click.argument("dataset", metavar="agrawal|landsend|patients")
@click.option("--rows", type=click.IntRange(min=0), default=1_000_000, show_default=True, help="How many rows.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed, another table.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="A .parquet or .csv file.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@json_option()
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
    with row_progress(f"generating {dataset}", rows) as advance:
        n_bytes = write(dataset, rows, output, seed, overwrite=force, on_progress=advance)
    seconds = time.perf_counter() - started
    if as_json:
        facts = {"dataset": dataset, "rows": rows, "seed": seed, "path": str(output), "bytes": n_bytes}
        print_json({**facts, "seconds": round(seconds, 3)})
    elif sys.stdout.isatty():
        click.echo(f"{output}: {rows:,} rows, {n_bytes / 1e6:,.1f} MB, {seconds:.1f} s")
