"""Writing a release to files: complete, checked and durable, or not there at all.

Rows are streamed to a temporary file beside the target. That file is read back by the independent checker, which
shares no code with the engine; only when it finds at least k rows in every group does the file get its name.
`write_releases` does the same for a directory of releases with a manifest. Releases that stream from one index are
written in one pass over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from rtree_anon import __version__
from rtree_anon.checking import check_k, unmet_values
from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.io.parquet_runs import RowGroup, RunFile
from rtree_anon.io.run_batches import RunBatch
from rtree_anon.release.in_threads import in_order
from rtree_anon.release.released import COUNT, ReleasedTable
from rtree_anon.release.streamed import StreamedRelease, batches_together, encoded_together, runs_together
from rtree_anon.release.texts import quoted
from rtree_anon.storage.files import OPERATING_SYSTEM, Access, explained
from rtree_anon.storage.publish import Publication, publish_file

FORMATS = ("parquet", "csv")
_DEFAULT_STYLE = {"parquet": "interval", "csv": "text"}
_ROW_GROUP_ROWS = 1 << 18  # with half of that, a release at k = 5 takes 5 % longer, at k = 1000 10 %
_MADE_BY = f"rtree-anon version {__version__}"


def write_release(
    release: ReleasedTable,
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
        _write_checked([release], [partial], suffix, style, layout, extra)

    publish_file(target, make, replace=overwrite)


def write_releases(
    releases: Mapping[int, ReleasedTable],
    directory: str | PathLike[str],
    file_format: str = "parquet",
    style: str | None = None,
    layout: str = "rows",
    *,
    on_step: Callable[[str, int | None], None] = lambda step, k: None,
    **extra: bool,
) -> dict[str, Any]:
    """Write releases to a new directory, as k5.parquet, k10.parquet, …, with a manifest; returns the manifest.

    `on_step` is called with "writing" and the k before each file (the first k, where several are written in one pass),
    and with "publishing" at the end.
    """
    if file_format not in FORMATS:
        raise UsageError(f"The format {file_format!r} is not known; choose one of {', '.join(FORMATS)}.")
    with Publication(directory) as publication:
        names = {k: f"k{k}.{file_format}" for k in sorted(releases)}
        for together in _passes(releases):
            on_step("writing", together[0])
            paths = [publication.path(names[k]) for k in together]
            _write_checked([releases[k] for k in together], paths, file_format, style, layout, extra)
        on_step("publishing", None)
        facts = {name: describe(releases[k]) for k, name in names.items()}
        return publication.finish({"made_by": f"rtree-anon {__version__}", "releases": facts})


def describe(release: ReleasedTable) -> dict[str, Any]:
    """The facts of a release that stand in its manifest. The source's name is not among them."""
    return {
        "k": release.k,
        "model": release.model,
        "safe_together_at": release.safe_together_at,
        "algorithm": release.algorithm,
        "method": release.method,
        "compact": release.compact,
        "version": release.version,
        "rows": release.n_rows,
        "groups": release.n_groups,
        "smallest_group": release.smallest_group,
        "quasi": list(release.quasi),
        "quality": {name: value if value == value else None for name, value in release.quality().items()},
    }


def _passes(releases: Mapping[int, ReleasedTable]) -> list[list[int]]:
    """The ks in order, those together whose releases come from the same segments of an index."""
    passes: dict[object, list[int]] = {}
    for k, release in sorted(releases.items()):
        shared = release.segments if isinstance(release, StreamedRelease) else release
        passes.setdefault(id(shared), []).append(k)
    return list(passes.values())


def _write_checked(
    releases: Sequence[ReleasedTable],
    paths: Sequence[str],
    file_format: str,
    style: str | None,
    layout: str,
    extra: Mapping[str, bool],
) -> None:
    """Write releases that share a pass (or a single one) to files, and have them checked."""
    style = style or _DEFAULT_STYLE[file_format]
    if file_format == "parquet" and layout == "rows":
        _write_runs(releases, paths, style, extra)
    else:
        _write_batches(releases, paths, file_format, style, layout, extra)
    pa.default_memory_pool().release_unused()  # the checker begins with what the writers had
    with ThreadPoolExecutor(1) as pool:
        syncing = [pool.submit(_sync, path) for path in paths]  # the disk works while files are read again
        for release, path in zip(releases, paths, strict=True):
            _check(release, path, layout)
        for each in syncing:
            each.result()


def _sync(path: str) -> None:
    """Publishing syncs again and then has little to do. An error counts: the system reports it only once."""
    with explained("publish the file", path):
        file = OPERATING_SYSTEM.open(path, Access.READ)
        try:
            file.sync()
        finally:
            file.close()


def _check(release: ReleasedTable, path: str, layout: str) -> None:
    """Have the independent checker read a file; `PrivacyError` unless it finds what was asked for."""
    found = check_k(path, release.quasi, release.k, counts=COUNT if layout == "groups" else None)
    if found.k < release.k or found.n_rows != release.n_rows:
        raise _refused(
            f"it has groups of {found.k} rows where k={release.k} was asked for ({found.n_rows} rows of "
            f"{release.n_rows})"
        )
    if layout == "rows":  # with one row per group the values are lists; they were checked in memory
        _check_values(release, path)


def _check_values(release: ReleasedTable, path: str) -> None:
    """Have the checker measure what the file's sensitive columns give away; people are not in the file."""
    pa.default_memory_pool().release_unused()
    unmet = unmet_values(path, release.quasi, release.demands)
    if unmet:
        raise _refused(f"it does not satisfy {release.model}: {unmet[0].rstrip('.')}")


def _refused(what: str) -> PrivacyError:
    return PrivacyError(
        f"The file was checked before it was given its name, and {what}. Nothing was released. This is a bug in "
        "rtree-anon: please report it."
    )


def _write_runs(releases: Sequence[ReleasedTable], paths: Sequence[str], style: str, extra: Mapping[str, bool]) -> None:
    """Parquet files with a row per row; a row group costs what its groups cost."""
    with ExitStack() as stack:
        files: dict[int, RunFile] = {}
        opening = Lock()

        def encoded(number: int, batches: list[RunBatch]) -> RowGroup:
            with opening:
                if number not in files:
                    files[number] = stack.enter_context(RunFile(paths[number], batches[0].schema, _MADE_BY))
            return files[number].encoded(batches)

        for number, row_group in _row_groups(releases, encoded, style, extra):
            files[number].append(row_group)


def _row_groups(
    releases: Sequence[ReleasedTable],
    encoded: Callable[[int, list[RunBatch]], RowGroup],
    style: str,
    extra: Mapping[str, bool],
) -> Iterator[tuple[int, RowGroup]]:
    """The row groups of each release in order, encoded in threads: (number of the release, row group)."""
    streamed = [release for release in releases if isinstance(release, StreamedRelease)]
    if len(streamed) == len(releases) and not extra.get("group_id"):
        yield from encoded_together(streamed, encoded, _ROW_GROUP_ROWS, style, **extra)
        return

    def portions() -> Iterator[tuple[int, list[RunBatch]]]:
        waiting: list[list[RunBatch]] = [[] for _ in releases]
        for number, batch in _numbered_runs(releases, style, extra):
            waiting[number].append(batch)
            if sum(each.num_rows for each in waiting[number]) >= _ROW_GROUP_ROWS:
                yield number, waiting[number]
                waiting[number] = []
        yield from ((number, rest) for number, rest in enumerate(waiting) if rest)

    # This thread alone, where segments are made in threads already: more would only wait for each other.
    yield from in_order(portions(), lambda task: (task[0], encoded(*task)), 1 if streamed else None)


def _numbered_runs(
    releases: Sequence[ReleasedTable], style: str, extra: Mapping[str, bool]
) -> Iterator[tuple[int, RunBatch]]:
    streamed = [release for release in releases if isinstance(release, StreamedRelease)]
    if len(streamed) == len(releases):
        yield from runs_together(streamed, style, **extra)
    else:
        for number, release in enumerate(releases):
            yield from ((number, batch) for batch in release.runs(style, **extra))


def _write_batches(
    releases: Sequence[ReleasedTable],
    paths: Sequence[str],
    file_format: str,
    style: str,
    layout: str,
    extra: Mapping[str, bool],
) -> None:
    with ExitStack() as stack:
        writers = [
            stack.enter_context(_FileWriter(path, file_format, release.quasi))
            for release, path in zip(releases, paths, strict=True)
        ]
        for number, batch in _numbered_batches(releases, style, layout, extra):
            writers[number].write(batch)


def _numbered_batches(
    releases: Sequence[ReleasedTable], style: str, layout: str, extra: Mapping[str, bool]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    streamed = [release for release in releases if isinstance(release, StreamedRelease)]
    if len(streamed) == len(releases):
        yield from batches_together(streamed, style, layout, **extra)
    else:
        for number, release in enumerate(releases):
            yield from ((number, batch) for batch in release.batches(style, layout, **extra))


class _FileWriter:
    """A file that batches are written to; small ones are put together, so that a row group is never tiny."""

    def __init__(self, path: str, file_format: str, quasi: Sequence[str]) -> None:
        self._path, self._format, self._quasi = path, file_format, quasi
        self._file: Any = None
        self._waiting: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(_flat(batch) if self._format == "csv" else batch)
        if sum(waiting.num_rows for waiting in self._waiting) >= _ROW_GROUP_ROWS:
            self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        try:
            if kind is None:
                self._flush()
        finally:
            if self._file is not None:
                self._file.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        self._waiting.clear()
        if self._file is None:
            self._file = _open_file(self._path, self._format, table.schema, self._quasi)
        if self._format == "csv":
            self._file.write_table(table)
        else:
            self._file.write_table(table, row_group_size=len(table))


def _open_file(path: str, file_format: str, schema: pa.Schema, quasi: Sequence[str]) -> Any:
    if file_format == "csv":
        return pyarrow.csv.CSVWriter(path, schema)
    plain = _plain(quasi)
    repeating = [name for name in schema.names if name not in plain]
    return pyarrow.parquet.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=repeating, write_page_checksum=True
    )


def _plain(quasi: Sequence[str]) -> set[str]:
    """Columns that are written without a dictionary where a row is a group: the ends of intervals, which vary."""
    return {f"{name}_{end}" for name in quasi for end in ("lo", "hi")}


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """CSV has no lists: the values of a groups layout become one text, separated by commas."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_list(column.type):
            texts = quoted(column.flatten().cast(pa.string())).fill_null("")  # missing: nothing; empty text: ""
            column = pc.binary_join(pa.ListArray.from_arrays(column.offsets, texts), ",")
        columns[name] = column
    return pa.RecordBatch.from_pydict(columns)
