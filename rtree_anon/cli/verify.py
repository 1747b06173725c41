"""`rtree-anon verify`: check every page, commit record, journal record and row of an index; changes nothing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtree_anon.cli.options import json_option, print_json
from rtree_anon.errors import CorruptionError, StorageError

if TYPE_CHECKING:
    from rtree_anon.storage import VerifyReport


@click.command("verify")
@click.argument("index", type=click.Path(path_type=Path))
@json_option()
def command(index: Path, as_json: bool) -> None:
    """Check a whole index: checksums, commit records, page map, journal; regions, boxes, counts and ids of its rows,
    and that every leaf satisfies the privacy model.

    Reads everything and changes nothing. Exit code 0: sound; 3: damaged.

    \b
    Example:
      rtree-anon verify people.idx
    """
    from rtree_anon.storage import verify_store

    report = verify_store(index)
    content = _verified_content(index, report) if report.ok else None
    if as_json:
        print_json({**asdict(report), "ok": report.ok, "content": content})
    else:
        _print(index, report, content)
    if not report.ok:
        click.get_current_context().exit(3)


def _verified_content(index: Path, report: VerifyReport) -> dict[str, Any] | None:
    """What the rows and the tree were found to be; what is wrong with them goes into the report."""
    from rtree_anon.index import Index

    try:
        with Index.open(index) as opened:
            found = opened.verify(report)
    except CorruptionError as error:
        report.problems.append(str(error))
        return None
    except StorageError as error:  # pages of something else
        report.notes.append(f"the rows were not looked at: {error}")
        return None
    return {name: value for name, value in asdict(found).items() if name not in ("path", "storage")}


def _print(index: Path, report: VerifyReport, content: dict[str, Any] | None) -> None:
    if report.commit_id is not None:
        click.echo(
            f"{index}: version {report.commit_id}, {report.n_pages} pages of {report.page_bytes} bytes:"
            f" {report.n_live} in use, {report.n_map} of the page map, {report.n_kept} kept for the version before,"
            f" {report.n_free} free; {report.n_journal_records} journal records."
        )
    if content is not None:
        click.echo(
            f"{content['n_rows']:,} rows in {content['n_leaves']:,} leaves of {content['smallest_leaf']:,} to"
            f" {content['largest_leaf']:,} rows, on {content['n_bundles']:,} bundles; every leaf satisfies"
            f" {content['model']}."
        )
    for note in report.notes:
        click.echo(f"note: {note}")
    for problem in report.problems:
        click.echo(f"damaged: {problem}", err=True)
    click.echo("sound" if report.ok else f"{len(report.problems)} problems found")
