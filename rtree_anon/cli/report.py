"""`rtree-anon report`: a page about a directory of releases, for those who decide whether it may be published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtree_anon.cli import options

if TYPE_CHECKING:
    from rtree_anon.cli.report_page import CheckedRelease


@click.command("report", short_help="Write a page about a directory of releases.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The page, such as report.html.")
@options.sensitive_option()
@click.option("--counts", help="The column that says how many rows a row stands for (one row per group).")
@options.json_option()
def command(directory: Path, output: Path, sensitive: list[str], counts: str | None, as_json: bool) -> None:
    """Read the releases in DIRECTORY again, check them, and write one HTML page with figures and pictures.

    Exit code 1 if a file does not keep what its manifest promises; the page says which and how.

    \b
    Example:
      rtree-anon report out/ -o report.html -s disease
    """
    from rtree_anon.cli.report_page import page_of
    from rtree_anon.errors import InputError, UsageError
    from rtree_anon.storage.publish import publish_file, read_publication

    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory of releases; rtree-anon anonymize -o makes one.")
    manifest = read_publication(directory)
    if not isinstance(manifest.get("releases"), dict) or not manifest["releases"]:
        raise InputError("has a manifest without releases", source=str(directory))
    with options.step_progress() as show:
        releases = []
        for file, facts in sorted(manifest["releases"].items(), key=lambda item: item[1]["k"]):
            show(f"checking {file}")
            releases.append(_checked(directory, file, facts, manifest["files"][file], sensitive, counts))
    page = page_of(directory.name or str(directory), str(manifest.get("made_by", "rtree-anon")), releases)

    def write(partial: str) -> None:
        Path(partial).write_text(page, encoding="utf-8")

    publish_file(output, write)
    problems = [problem for release in releases for problem in release.problems]
    if as_json:
        options.print_json({"page": str(output), "files": [release.file for release in releases], "problems": problems})
    else:
        click.echo("\n".join([f"{len(releases)} releases were checked; the page is {output}.", *problems]))
    if problems:
        click.get_current_context().exit(1)


def _checked(
    directory: Path, file: str, facts: dict[str, Any], digest: dict[str, Any], sensitive: list[str], counts: str | None
) -> CheckedRelease:
    from rtree_anon.checking import check
    from rtree_anon.cli.report_page import CheckedRelease
    from rtree_anon.models import model_from_text

    demands = model_from_text(facts["model"]).demands() if facts.get("model") else ()
    in_file = [demand for demand in demands if demand.column is not None]
    about = dict.fromkeys([*sensitive, *(str(demand.column) for demand in in_file)])
    report = check(directory / file, facts["quasi"], list(about), counts=counts)
    problems = [f"{file}: {problem}" for problem in [*report.shortfalls(k=facts["k"]), *report.unmet(in_file)]]
    if report.n_rows != facts["rows"]:
        problems.append(f"{file}: it has {report.n_rows:,} rows, and its manifest says {facts['rows']:,}.")
    return CheckedRelease(file, facts, digest, report, problems)
