"""`rtree-anon lattice`: full-domain generalization with hierarchies: figures, a picture of the lattice, the release."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtree_anon.cli.options import (
    assignments,
    json_option,
    keep_option,
    print_json,
    quasi_option,
    sensitive_option,
    step_progress,
)
from rtree_anon.cli.thresholds import THRESHOLDS, model_of, threshold_options
from rtree_anon.errors import UsageError

if TYPE_CHECKING:
    from rtree_anon.lattice import Result
    from rtree_anon.release.from_nodes import LatticeRelease

ALGORITHMS = ("incognito", "samarati", "bottom-up", "exhaustive", "datafly", "local")
MAX_SHOWN = 20


def _limits(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, int | tuple[int, int]]:
    """NAME=LEVEL or NAME=LOW..HIGH."""
    limits: dict[str, int | tuple[int, int]] = {}
    for name, levels in assignments(ctx, param, values).items():
        low, dots, high = levels.partition("..")
        try:
            limits[name] = (int(low), int(high)) if dots else int(low)
        except ValueError:
            raise click.BadParameter(f"'{name}={levels}' is not of the form sex=0 or age=1..3.", ctx, param) from None
    return limits


def _weights(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """NAME=NUMBER."""
    try:
        return {name: float(weight) for name, weight in assignments(ctx, param, values).items()}
    except ValueError:
        raise click.BadParameter(f"{' '.join(values)!r} is not of the form age=2.", ctx, param) from None


@click.command("lattice")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--hierarchies",
    "directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory of hierarchy files in ARX's layout: age.csv or any_name_age.csv for the column age.",
)
@quasi_option(
    "Quasi-identifiers; those without a file get an automatic hierarchy. Default: all columns with a file.",
    required=False,
)
@click.option("-k", "k", type=click.IntRange(min=1), required=True, help="Rows per group; people with --identity.")
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default="incognito", show_default=True)
@click.option(
    "--variant",
    type=click.Choice(["basic", "superroots", "cube"]),
    default="superroots",
    show_default=True,
    help="Of incognito.",
)
@click.option("--matrix", is_flag=True, help="Let samarati decide by distance vectors (small tables).")
@click.option("--max-suppressed", type=click.IntRange(min=0), default=0, show_default=True, help="Rows left out.")
@sensitive_option()
@keep_option()
@click.option("--identity", help="The column that says whose row it is.")
@threshold_options
@click.option("--model", help="A privacy model: 'distinct_l=3 on disease & t=0.2 on income'.")
@click.option(
    "--limit", "limits", multiple=True, callback=_limits, metavar="NAME=LEVEL", help="Highest level (or LOW..HIGH)."
)
@click.option(
    "--policy",
    type=click.Choice(["absolute", "relative", "distribution", "suppression", "certainty"]),
    default="absolute",
    show_default=True,
    help="Which minimal generalization to prefer.",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    callback=_weights,
    metavar="NAME=NUMBER",
    help="Importance of a quasi-identifier in the certainty penalty; default 1.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the release: a .csv or .parquet file.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--picture", type=click.Path(path_type=Path), help="Draw the lattice: a .svg or .png file.")
@json_option()
def command(file: Path, **options: Any) -> None:
    """Generalize whole columns by hierarchies, and show which generalizations are anonymous.

    A generalization gives every quasi-identifier a level of its hierarchy: 0 leaves values as they are, the highest
    replaces all of them by one. It is minimal if no level can be lowered. One of the minimal ones is released.
    Thresholds such as --l and --t hold for every sensitive column; --model can name the columns.

    \b
    Example:
      rtree-anon lattice people.csv --hierarchies dir/ -k 10 --algorithm incognito -o people-k10.csv
      rtree-anon lattice people.csv -q age,zip,sex -k 5 --limit sex=0 --picture lattice.svg
    """
    _require_targets(options["output"], options["picture"], force=options["force"])
    hierarchies = hierarchies_for(file, options["directory"], options["quasi"])
    shared: dict[str, Any] = {
        "k": options["k"],
        "model": model_of(options["model"], {name: options[name] for name in THRESHOLDS}, options["sensitive"]),
        "sensitive": options["sensitive"],
        "keep": options["keep"],
        "identity": options["identity"],
        "limits": options["limits"],
        "weights": options["weights"],
    }
    if options["algorithm"] == "local":
        _release_locally(file, hierarchies, shared, options)
        return
    with step_progress() as say:
        say("searching the lattice")
        result = _search(file, hierarchies, shared, options)
    chosen = result.choose(options["policy"]) if result.minimal else None
    if options["picture"] is not None:
        from rtree_anon.lattice.picture import draw, write_picture

        write_picture(draw(result, chosen), options["picture"])
    release = result.release(chosen) if chosen is not None else None
    facts = _facts(result, chosen, release, options["policy"])
    _write(release, options)
    _print(facts, as_json=options["as_json"])
    if chosen is None:
        sys.exit(1)


def _search(file: Path, hierarchies: dict[str, Any], shared: dict[str, Any], options: dict[str, Any]) -> Result:
    from rtree_anon import lattice

    allowed = options["max_suppressed"]
    if options["algorithm"] == "incognito":
        return lattice.incognito(file, hierarchies, max_suppressed=allowed, variant=options["variant"], **shared)
    if options["algorithm"] == "samarati":
        return lattice.samarati(file, hierarchies, max_suppressed=allowed, matrix=options["matrix"], **shared)
    if options["algorithm"] == "bottom-up":
        return lattice.bottom_up(file, hierarchies, max_suppressed=allowed, **shared)
    plain = lattice.exhaustive if options["algorithm"] == "exhaustive" else lattice.datafly
    return plain(file, hierarchies, max_suppressed=allowed, **shared)


def _release_locally(file: Path, hierarchies: dict[str, Any], shared: dict[str, Any], options: dict[str, Any]) -> None:
    from rtree_anon import lattice

    if options["picture"] is not None or options["max_suppressed"]:
        raise UsageError("local recoding has no lattice to draw and suppresses no row")
    release = lattice.local_recoding(file, hierarchies, **shared)
    facts = {"algorithm": "local-recoding", "model": release.facts.model, "release": _release_facts(release)}
    _write(release, options)
    _print(facts, as_json=options["as_json"])


def hierarchies_for(file: Path, directory: Path | None, quasi: list[str]) -> dict[str, Any]:
    """For each quasi-identifier its hierarchy, or None for an automatic one."""
    from rtree_anon.hierarchy import Hierarchy
    from rtree_anon.io.sources import open_source

    files = sorted(directory.glob("*.csv")) if directory is not None else []
    if not quasi:
        if directory is None:
            raise UsageError("name the quasi-identifiers with -q, or give their hierarchies with --hierarchies")
        names = open_source(file).names
        quasi = [name for name in names if any(_belongs(path, name) for path in files)]
        if not quasi:
            raise UsageError(f"no file in {directory} belongs to a column of {file} ({', '.join(names)})")
    found: dict[str, Any] = {}
    for name in quasi:
        own = [path for path in files if _belongs(path, name)]
        exact = [path for path in own if path.stem == name]
        if len(own) > 1 and not exact:
            raise UsageError(f"several files could be the hierarchy of {name!r}: {', '.join(p.name for p in own)}")
        found[name] = Hierarchy.from_csv((exact or own)[0]) if own else None
    return found


def _belongs(path: Path, name: str) -> bool:
    return path.stem == name or path.stem.endswith(f"_{name}")


def _facts(result: Result, chosen: Any, release: LatticeRelease | None, policy: str) -> dict[str, Any]:
    shown = [result.statistics(levels) for levels in result.minimal[:MAX_SHOWN]]
    return {
        "algorithm": result.algorithm,
        "model": result.search.condition.name,
        "quasi": dict(zip(result.names, result.heights, strict=True)),
        "nodes": result.n_nodes,
        "nodes_checked": result.nodes_checked,
        "scans": result.scans,
        "rollups": result.rollups,
        "seconds": round(result.seconds, 3),
        "generalizations": len(result.generalizations),
        "minimal": len(result.minimal),
        "first_minimal": [
            {"levels": list(one.generalization), "suppressed": one.n_suppressed, "groups": one.n_groups}
            for one in shown
        ],
        "policy": policy,
        "chosen": list(chosen) if chosen is not None else None,
        "chosen_examples": _examples(result, chosen) if chosen is not None else None,
        "release": _release_facts(release) if release is not None else None,
    }


def _examples(result: Result, levels: Sequence[int]) -> dict[str, str]:
    """For each quasi-identifier a value as it looks at its level: the one that stands for the most values."""
    bounds = zip(result.names, result.search.hierarchies, levels, strict=True)
    return {name: bound.labels[level][int(bound.leaves_below[level].argmax())] for name, bound, level in bounds}


def _release_facts(release: LatticeRelease) -> dict[str, Any]:
    figures = {name: value if value == value else None for name, value in release.quality().items()}
    return {
        "rows": release.n_rows,
        "suppressed": release.n_suppressed,
        "groups": release.n_groups,
        "smallest_group": int(release.group_sizes.min()),
        "distortion_ratio": release.distortion_ratio,
        **figures,
    }


def _require_targets(output: Path | None, picture: Path | None, *, force: bool) -> None:
    """Refuse files that cannot be written before any work is done for them."""
    if output is not None and output.suffix not in (".csv", ".parquet"):
        raise UsageError(f"{output}: the name of a release must end in .parquet or .csv")
    if output is not None and output.exists() and not force:
        raise UsageError(f"{output} exists already; choose another path, or replace it with --force")
    if picture is not None and picture.suffix not in (".svg", ".png"):
        raise UsageError(f"a picture is written as .svg or .png, not as {picture.name!r}")


def _write(release: LatticeRelease | None, options: dict[str, Any]) -> None:
    if release is not None and options["output"] is not None:
        release.write(options["output"], overwrite=options["force"])


def _print(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
    else:
        click.echo(_as_text(facts))


def _minimal_table(facts: dict[str, Any]) -> list[str]:
    """The levels of the first minimal generalizations, a line each under the names of the quasi-identifiers."""
    headers = [*facts["quasi"], "suppressed", "groups"]
    rows = [[*one["levels"], one["suppressed"], one["groups"]] for one in facts["first_minimal"]]
    widths = [max(len(header), *(len(f"{row[i]:,}") for row in rows)) for i, header in enumerate(headers)]
    lines = ["    " + "  ".join(header.rjust(width) for header, width in zip(headers, widths, strict=True))]
    for row in rows:
        mark = "*" if row[:-2] == facts["chosen"] else " "
        lines.append(f"  {mark} " + "  ".join(f"{cell:>{width},}" for cell, width in zip(row, widths, strict=True)))
    if facts["minimal"] > MAX_SHOWN:
        lines.append(f"    … and {facts['minimal'] - MAX_SHOWN:,} more")
    return lines


def _as_text(facts: dict[str, Any]) -> str:
    lines = [f"{facts['algorithm']}: {facts['model']}"]
    if "nodes" in facts:
        heights = ", ".join(f"{name} 0..{height}" for name, height in facts["quasi"].items())
        lines += [
            f"quasi-identifiers   {heights}",
            f"lattice             {facts['nodes']:,} generalizations; {facts['nodes_checked']:,} nodes checked, "
            f"{facts['scans']:,} scans, {facts['rollups']:,} rollups, {facts['seconds']} s",
            f"satisfying          {facts['generalizations']:,}, of which minimal {facts['minimal']:,}",
        ]
        if facts["chosen"] is None:
            lines.append("No generalization satisfies this; allow more suppressed rows, a smaller k or a weaker model.")
        else:
            lines += _minimal_table(facts)
            lines.append(f"chosen (*)          by the policy {facts['policy']}; values then look like this:")
            for name, example in facts["chosen_examples"].items():
                lines.append(f"  {name + ' ':18}{example}")
    release = facts.get("release")
    if release is not None:
        lines += [
            f"released            {release['rows']:,} rows in {release['groups']:,} groups of at least "
            f"{release['smallest_group']:,}, {release['suppressed']:,} suppressed",
            f"certainty           {release['certainty']:.4f}   distortion ratio {release['distortion_ratio']:.4f}",
        ]
    return "\n".join(lines)
