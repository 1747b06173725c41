"""What scripts/quickstart does once the environment is there: generate or take rows, anonymize, check, show.

The figures of the last table are those of the independent checker, which reads the written files and shares no code
with the engine.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from rtree_anon.checking import check
from rtree_anon.cli import main, options
from rtree_anon.cli.anonymize import anonymize_files, make_schema, print_releases
from rtree_anon.errors import PrivacyError, UsageError

_OUTPUT = Path(__file__).resolve().parent.parent / "quickstart-output"
_WARM_UP_ROWS = 20_000  # enough for every kernel to run, the ones for samples of large nodes too
_WORTH_MENTIONING_SECONDS = 15.0


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, metavar="[FILE]...")
@options.quasi_option("Quasi-identifiers of your FILE, separated by commas.", required=False)
@options.sensitive_option()
@options.several_k_option(default="5,10,50", show_default=True, help="Rows per group; one release for each.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: a new directory in quickstart-output/.")
@click.option("--rows", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Without a FILE.")
@options.json_option()
def command(
    files: Sequence[str],
    quasi: list[str],
    sensitive: list[str],
    k: list[int],
    output: Path | None,
    rows: int,
    as_json: bool,
) -> None:
    """Anonymize a million generated rows, or your own FILEs, at several k, and check what was written.

    \b
    Example:
      scripts/quickstart
      scripts/quickstart people.csv -q age,zip,sex -s disease -k 5,10,50
    """
    if files and not quasi:
        raise UsageError(f"Name the quasi-identifiers: scripts/quickstart {' '.join(files)} -q age,zip,sex")
    if not files and (quasi or sensitive):
        raise UsageError("-q and -s go with a file: scripts/quickstart people.csv -q age,zip,sex")
    if output is not None:
        options.require_new_directory(output)
    compiling = _compile_kernels()
    with _fresh_place() as place:
        if not files:
            data = place / "agrawal.parquet"
            quasi = _generate(data, rows)
            files = [str(data)]
        releases = output or place / "releases"
        facts = anonymize_files(files, make_schema(None, quasi, sensitive), k, releases)
        _check(facts, releases, quasi)
    if as_json:
        options.print_json(facts)
        return
    print_releases(facts["releases"])
    if compiling > _WORTH_MENTIONING_SECONDS:
        click.echo(f"Compiling the kernels took {compiling:.0f} s, once on this machine, and is not counted above.")
    click.echo(
        f"{facts['rows']:,} rows, read in {facts['seconds_reading']:.1f} s and cut into groups of at least "
        f"{facts['base_k']} in {facts['seconds_cutting']:.1f} s; every release was grouped, written and checked in the "
        f"seconds of its line.\nThe original: {', '.join(files)}\nThe releases: {releases}"
    )


def _compile_kernels() -> float:
    """Compile what is not compiled yet, so that the figures are those of the work itself; how long it took."""
    from rtree_anon.anonymizer import anonymize
    from rtree_anon.datasets import generate

    started = time.perf_counter()
    with options.step_progress() as show:
        show("compiling the kernels for this machine (once, about a minute)")
        table = generate("agrawal", _WARM_UP_ROWS)
        with TemporaryDirectory() as place:
            for k, release in anonymize(table, k=[5, 10], quasi=table.column_names).items():
                release.write(f"{place}/k{k}.parquet")
                release.quality()
    return time.perf_counter() - started


@contextmanager
def _fresh_place() -> Iterator[Path]:
    """A new directory, so that quickstart can be run any number of times; it goes where nothing was made in it."""
    _OUTPUT.mkdir(exist_ok=True)
    taken = [int(path.name[4:]) for path in _OUTPUT.glob("run-*") if path.name[4:].isdigit()]
    place = _OUTPUT / f"run-{max(taken, default=0) + 1}"
    place.mkdir()
    try:
        yield place
    except BaseException:
        shutil.rmtree(place)
        raise
    finally:
        for directory in (place, _OUTPUT):
            with suppress(OSError):  # it is not empty, or gone
                directory.rmdir()


def _generate(path: Path, rows: int) -> list[str]:
    """Write the rows; the names of their columns, all of them quasi-identifiers."""
    from rtree_anon.datasets import schema
    from rtree_anon.datasets.files import write

    with options.row_progress("generating rows", rows) as advance:
        write("agrawal", rows, path, on_progress=advance)
    return list(schema("agrawal").names)


def _check(facts: dict[str, Any], directory: Path, quasi: Sequence[str]) -> None:
    """Let the checker count the groups of every file; its figures replace the engine's own."""
    with options.step_progress() as show:
        for release in facts["releases"]:
            show(f"checking {release['file']}")
            report = check(directory / release["file"], quasi)
            if report.k < release["k"] or report.n_rows != facts["rows"]:
                raise PrivacyError(
                    f"{directory / release['file']} is not {release['k']}-anonymous: please report this bug."
                )
            release["groups"], release["smallest_group"] = report.n_groups, report.k


if __name__ == "__main__":
    main(command, "scripts/quickstart")
