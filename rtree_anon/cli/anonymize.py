"""`rtree-anon anonymize`: from files to a directory of releases, one for each k, with a manifest.

Invariant: whatever is wrong with the call is said before any data is read, and the output directory appears complete,
checked and durable, or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtree_anon.cli import options
from rtree_anon.cli.thresholds import THRESHOLDS, model_of, threshold_options
from rtree_anon.errors import UsageError

if TYPE_CHECKING:
    from rtree_anon.schema import Attribute, Schema

_WORDS = {
    "reading": "reading",
    "cutting": "cutting the table into leaves",
    "grouping": "grouping leaves for k={k}",
    "writing": "writing and checking the release for k={k}",
    "publishing": "making the files durable",
}


@click.command("anonymize", short_help="Anonymize files: one release for each k.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.quasi_option("Quasi-identifiers, separated by commas: age,zip,sex.", required=False)
@options.sensitive_option()
@options.keep_option()
@click.option("--identity", help="The column that says whose row it is: k then counts people.")
@click.option("--pseudonyms", is_flag=True, help="Release the identity as a random number, drawn anew for every file.")
@options.several_k_option(required=True, help="Rows (or people) per group; one release for each.")
@threshold_options
@click.option("--model", help="A privacy model: 'distinct_l=3 on disease & t=0.2 on income'.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="A directory that does not exist.")
@click.option("--format", "file_format", type=click.Choice(["parquet", "csv"]), default="parquet", show_default=True)
@click.option("--style", type=click.Choice(["interval", "text"]), help="Default: interval for parquet, text for csv.")
@click.option("--layout", type=click.Choice(["rows", "groups"]), default="rows", show_default=True)
@click.option("--quality", type=click.Choice(["fast", "balanced", "best"]), default="balanced", show_default=True)
@click.option(
    "--method",
    type=click.Choice(["optimal", "greedy", "hierarchical"]),
    default="optimal",
    show_default=True,
    help="How leaves are grouped for a k above the base k.",
)
@click.option("--no-compact", is_flag=True, help="Release the region of a group, not only the values that occur.")
@click.option(
    "--weight", "weights", callback=options.assignments, multiple=True, metavar="NAME=NUMBER", help="Importance: zip=2."
)
@click.option(
    "--categorical",
    callback=options.names,
    multiple=True,
    metavar="NAMES",
    help="Quasi-identifiers whose values are names, though they may look like numbers.",
)
@click.option(
    "--hierarchy",
    "hierarchies",
    callback=options.assignments,
    multiple=True,
    metavar="NAME=FILE",
    help="One row per value, one column per level: zip=zip.csv.",
)
@click.option(
    "--schema", "schema_path", type=click.Path(path_type=Path), help="A TOML file instead of -q, -s, --keep …"
)
@click.option("--base-k", type=int, help="The k that the tree is built with. Default: the smallest k, at most 5.")
@click.option("--bias", callback=options.names, multiple=True, metavar="NAMES", help="Attributes to keep narrow first.")
@options.threads_option()
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the samples of large tables."
)
@options.json_option()
def command(
    files: Sequence[str],
    quasi: list[str],
    sensitive: list[str],
    keep: list[str],
    identity: str | None,
    pseudonyms: bool,
    model: str | None,
    k: list[int],
    output: Path,
    file_format: str,
    style: str | None,
    layout: str,
    no_compact: bool,
    weights: dict[str, str],
    categorical: list[str],
    hierarchies: dict[str, str],
    schema_path: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Anonymize FILEs (Parquet, CSV, also .gz and .zst, Arrow) into a new directory: k5.parquet, k10.parquet, …

    Every row of k10.parquet has the same generalized values as at least nine others. All files of one run are safe
    together at the base k and the privacy model. Columns that are not named are dropped. Thresholds such as --l and --t
    hold for every sensitive column; --model can name the columns.

    \b
    Example:
      rtree-anon anonymize people.csv -q age,zip,sex -s disease -k 5,10,50 -o out/
      rtree-anon anonymize visits.csv -q age,zip -s disease --identity patient -k 5 -l 3 --t 0.4 -o out/
    """
    options.require_new_directory(output)
    schema = make_schema(schema_path, quasi, sensitive, keep, weights, categorical, hierarchies, identity)
    if pseudonyms and schema.identity is None:
        raise UsageError("--pseudonyms stand for people: name the column that says whose row it is with --identity.")
    settings["model"] = model_of(model, {name: settings.pop(name) for name in THRESHOLDS}, schema.sensitive)
    shape = {"file_format": file_format, "style": style, "layout": layout, "identity": pseudonyms}
    facts = anonymize_files(files, schema, k, output, shape, compact=not no_compact, **settings)
    if as_json:
        options.print_json(facts)
        return
    print_releases(facts["releases"])
    click.echo(
        f"{facts['rows']:,} rows, read in {facts['seconds_reading']:.1f} s and cut at base k={facts['base_k']} in "
        f"{facts['seconds_cutting']:.1f} s; the releases are in {output}"
    )


def anonymize_files(
    files: Sequence[str],
    schema: Schema,
    k: Sequence[int],
    output: Path,
    shape: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Anonymize files into a new directory, with progress on a terminal; what was made, and how long it took.

    `shape` is handed to `write_releases`: format, style, layout, extra columns.
    """
    from rtree_anon.anonymizer import anonymize

    clock = _Clock()
    with options.step_progress() as show:

        def on_step(step: str, k: int | None) -> None:
            clock.start(step, k)
            show(_WORDS[step].format(k=k))

        releases = anonymize(
            files[0] if len(files) == 1 else list(files), k, schema=schema, on_step=on_step, **settings
        )
        from rtree_anon.release.writing import write_releases

        manifest = write_releases(releases, output, on_step=on_step, **(shape or {}))
    clock.stop()
    first = min(releases)
    return {
        "output": str(output),
        "rows": releases[first].n_rows,
        "base_k": releases[first].base_k,
        "safe_together_at": releases[first].safe_together_at,
        "seconds_reading": clock.seconds("reading"),
        "seconds_cutting": clock.seconds("cutting"),
        "releases": [
            {
                "file": file,
                **{name: release[name] for name in ("k", "model", "groups", "smallest_group", "quality")},
                "seconds": clock.seconds("grouping", release["k"]) + clock.seconds("writing", release["k"]),
            }
            for file, release in sorted(manifest["releases"].items(), key=lambda item: item[1]["k"])
        ],
    }


def print_releases(releases: Sequence[Mapping[str, Any]]) -> None:
    """The small table: one line for each k."""
    headers = ("k", "groups", "smallest group", "certainty penalty", "seconds")
    rows = [
        (
            f"{release['k']:,}",
            f"{release['groups']:,}",
            f"{release['smallest_group']:,}",
            f"{release['quality']['certainty']:.4f}",
            f"{release['seconds']:.2f}",
        )
        for release in releases
    ]
    options.print_table(headers, rows)


def make_schema(
    path: Path | None,
    quasi: Sequence[str],
    sensitive: Sequence[str],
    keep: Sequence[str] = (),
    weights: Mapping[str, str] | None = None,
    categorical: Sequence[str] = (),
    hierarchies: Mapping[str, str] | None = None,
    identity: str | None = None,
) -> Schema:
    """The schema that a call describes, in a file or with options."""
    from rtree_anon.hierarchy import Hierarchy
    from rtree_anon.schema import Categorical, Schema

    weights, hierarchies = weights or {}, hierarchies or {}
    if path is not None:
        if quasi or sensitive or keep or weights or categorical or hierarchies or identity:
            raise UsageError(
                "Give either --schema or -q, -s, --keep, --identity, --weight, --categorical and --hierarchy, not both."
            )
        return Schema.from_toml(path)
    if not quasi:
        raise UsageError("Name the quasi-identifiers, as in -q age,zip,sex, or give a --schema.")
    attributes: dict[str, Attribute | str] = {name: name for name in quasi}
    for name in (*categorical, *hierarchies):
        if name not in attributes:
            raise UsageError(f"{name!r} is given as a category, but is not a quasi-identifier ({', '.join(quasi)}).")
        hierarchy = Hierarchy.from_csv(hierarchies[name]) if name in hierarchies else None
        attributes[name] = Categorical(name, hierarchy=hierarchy)
    return Schema(
        [attributes[name] for name in quasi],
        sensitive,
        identity,
        keep=keep,
        weights={name: _number(name, weight) for name, weight in weights.items()},
    )


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--weight {name}={text}: {text!r} is not a number.") from None


class _Clock:
    """How long each step took."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, int | None], float] = {}
        self._running: tuple[str, int | None] | None = None
        self._since = 0.0

    def start(self, step: str, k: int | None) -> None:
        """Begin a step, which ends the one before."""
        self.stop()
        self._running = (step, k)

    def stop(self) -> None:
        now = time.perf_counter()
        if self._running is not None:
            self._seconds[self._running] = now - self._since
        self._running, self._since = None, now

    def seconds(self, step: str, k: int | None = None) -> float:
        return round(self._seconds[step, k], 3)
