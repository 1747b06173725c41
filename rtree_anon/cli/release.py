"""`rtree-anon release`: from an index to a directory of releases, one for each k, with a manifest.

Releases are written in one pass over the index. The output directory appears complete, checked and durable, or not at
all.
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from rtree_anon.cli import options


@click.command("release", short_help="Write releases of an index: one for each k.")
@click.argument("index", type=click.Path(path_type=Path))
@options.several_k_option(required=True, help="Rows per group; one release for each: 5,10,50.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="A directory that does not exist.")
@click.option("--format", "file_format", type=click.Choice(["parquet", "csv"]), default="parquet", show_default=True)
@click.option("--style", type=click.Choice(["interval", "text"]), help="Default: interval for parquet, text for csv.")
@click.option("--layout", type=click.Choice(["rows", "groups"]), default="rows", show_default=True)
@click.option(
    "--method",
    type=click.Choice(["optimal", "greedy", "hierarchical"]),
    default="optimal",
    show_default=True,
    help="How leaves are grouped for a k above the index's own.",
)
@click.option("--no-compact", is_flag=True, help="Release the region of a group, not only the values that occur.")
@options.model_option("What every group satisfies besides what the index asks for")
@options.memory_option()
@options.threads_option()
@options.json_option()
def command(
    index: Path,
    k: list[int],
    output: Path,
    file_format: str,
    style: str | None,
    layout: str,
    method: str,
    no_compact: bool,
    model: str | None,
    memory: str,
    threads: int | None,
    as_json: bool,
) -> None:
    """Write releases of INDEX into a new directory: k5.parquet, k10.parquet, … and a manifest.

    Every row of k10.parquet has the same generalized values as at least nine others. All of them together are safe at
    the index's own k and privacy model, also where --model asks for more.

    \b
    Example:
      rtree-anon release people.idx -k 5,10,50 -o out/
    """
    from rtree_anon.index import Index

    options.require_new_directory(output)
    begin = time.perf_counter()
    with Index.open(index, memory=memory, threads=threads) as opened, options.step_progress() as show:
        releases = {each: opened.release(each, method, not no_compact, model) for each in sorted(set(k))}
        from rtree_anon.release.writing import write_releases

        def on_step(step: str, at_k: int | None) -> None:
            show("writing and checking the releases" if step == "writing" else "making the files durable")

        manifest = write_releases(releases, output, file_format, style, layout, on_step=on_step)
        version, n_rows = opened.version, len(opened)
    listed = [
        {"file": file, **{name: release[name] for name in ("k", "model", "groups", "smallest_group", "quality")}}
        for file, release in sorted(manifest["releases"].items(), key=lambda item: item[1]["k"])
    ]
    seconds = round(time.perf_counter() - begin, 3)
    facts = {"output": str(output), "version": version, "rows": n_rows, "seconds": seconds, "releases": listed}
    if as_json:
        options.print_json(facts)
        return
    options.print_table(
        ("k", "groups", "smallest group", "certainty penalty"),
        [
            (
                f"{release['k']:,}",
                f"{release['groups']:,}",
                f"{release['smallest_group']:,}",
                f"{release['quality']['certainty']:.4f}",
            )
            for release in listed
        ],
    )
    click.echo(f"{n_rows:,} rows of version {version} in {seconds:.1f} s; the releases are in {output}")
