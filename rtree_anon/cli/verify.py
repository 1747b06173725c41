"""`rtree-anon verify`: check every page, commit record and journal record of an index; changes nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from rtree_anon.cli.options import json_option


@click.command("verify")
@click.argument("index", type=click.Path(path_type=Path))
@json_option()
def command(index: Path, as_json: bool) -> None:
    """Check a whole index: checksums, commit records, page map, journal.

    Reads everything and changes nothing. Exit code 0: sound; 3: damaged.

    \b
    Example:
      rtree-anon verify people.idx
    """
    from rtree_anon.storage import verify_store

    report = verify_store(index)
    if as_json:
        click.echo(json.dumps({**asdict(report), "ok": report.ok}))
    else:
        if report.commit_id is not None:
            click.echo(
                f"{index}: version {report.commit_id}, {report.n_pages} pages of {report.page_bytes} bytes:"
                f" {report.n_live} in use, {report.n_map} of the page map, {report.n_kept} kept for the version before,"
                f" {report.n_free} free; {report.n_journal_records} journal records."
            )
        for note in report.notes:
            click.echo(f"note: {note}")
        for problem in report.problems:
            click.echo(f"damaged: {problem}", err=True)
        click.echo("sound" if report.ok else f"{len(report.problems)} problems found")
    if not report.ok:
        click.get_current_context().exit(3)
