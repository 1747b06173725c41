"""Writing a release to files: complete, checked and durable, or not there at all.

Rows are streamed to a temporary file beside the target. That file is read back by the independent checker, which
shares no code with the engine; only when it finds at least k rows in every group does the file get its name.
`write_releases` does the same for a directory of releases with a manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from rtree_anon import __version__
from rtree_anon.checking import check
from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.release.texts import quoted
from rtree_anon.storage.publish import Publication, publish_file

if TYPE_CHECKING:
    from rtree_anon.release.release import Release

FORMATS = ("parquet", "csv")
_DEFAULT_STYLE = {"parquet": "interval", "csv": "text"}


def write_release(
    release: Release,
    path: str | PathLike[str],
    style: str | None = None,
    layout: str = "rows",
    *,
    overwrite: bool = False,
    **extra: bool,
) -> None:
    """Write one release to a file; see `Release.write`."""
    target = Path(path)
    suffix = target.suffix.lower().lstrip(".")
    if suffix not in FORMATS:
        raise UsageError(f"{target}: the name of a release must end in .parquet or .csv.")

    def make(partial: str) -> None:
        _write_checked(release, partial, suffix, style, layout, extra)

    publish_file(target, make, replace=overwrite)


def write_releases(
    releases: Mapping[int, Release],
    directory: str | PathLike[str],
    file_format: str = "parquet",
    style: str | None = None,
    layout: str = "rows",
    *,
    on_step: Callable[[str, int | None], None] = lambda step, k: None,
    **extra: bool,
) -> dict[str, Any]:
    """Write releases to a new directory, as k5.parquet, k10.parquet, …, with a manifest; returns the manifest.

    `on_step` is called with "writing" and the k before each file, and with "publishing" at the end.
    """
    if file_format not in FORMATS:
        raise UsageError(f"The format {file_format!r} is not known; choose one of {', '.join(FORMATS)}.")
    with Publication(directory) as publication:
        facts = {}
        for k, release in sorted(releases.items()):
            on_step("writing", k)
            name = f"k{k}.{file_format}"
            _write_checked(release, publication.path(name), file_format, style, layout, extra)
            facts[name] = describe(release)
        on_step("publishing", None)
        return publication.finish({"made_by": f"rtree-anon {__version__}", "releases": facts})


def describe(release: Release) -> dict[str, Any]:
    """The facts of a release that stand in its manifest. The source's name is not among them."""
    return {
        "k": release.k,
        "model": release.model,
        "safe_together_at": None if release.base_k is None else f"KAnonymity({release.base_k})",
        "algorithm": release.algorithm,
        "method": release.method,
        "compact": release.compact,
        "version": release.version,
        "rows": release.n_rows,
        "groups": release.n_groups,
        "smallest_group": int(release.group_sizes.min()),
        "quasi": list(release.quasi),
        "quality": {name: value if value == value else None for name, value in release.quality().items()},
    }


def _write_checked(
    release: Release, path: str, file_format: str, style: str | None, layout: str, extra: Mapping[str, bool]
) -> None:
    batches = release.batches(style or _DEFAULT_STYLE[file_format], layout, **extra)
    writer: Any = None
    try:
        for batch in batches:
            if file_format == "csv":
                batch = _flat(batch)
            if writer is None:
                writer = _open_writer(path, file_format, batch.schema)
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()
    counts = "count" if layout == "groups" else None
    report = check(path, quasi=list(release.quasi), counts=counts)
    if report.k < release.k or report.n_rows != release.n_rows:
        raise PrivacyError(
            f"The file was checked before it was given its name, and it has groups of {report.k} rows where "
            f"k={release.k} was asked for ({report.n_rows} rows of {release.n_rows}). Nothing was released. This is a "
            "bug in rtree-anon: please report it."
        )


def _open_writer(path: str, file_format: str, schema: pa.Schema) -> Any:
    if file_format == "csv":
        return pyarrow.csv.CSVWriter(path, schema)
    return pyarrow.parquet.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True)


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """CSV has no lists: the values of a groups layout become one text, separated by commas."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_list(column.type):
            texts = quoted(column.flatten().cast(pa.string())).fill_null("")  # missing: nothing; empty text: ""
            column = pc.binary_join(pa.ListArray.from_arrays(column.offsets, texts), ",")
        columns[name] = column
    return pa.RecordBatch.from_pydict(columns)
