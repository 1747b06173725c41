"""`Index`: an anonymizing index on disk, for tables of any length.

    with ra.Index.create("people.idx", ra.Schema(["age", "zip"], sensitive=["disease"]), k=5) as index:
        index.load("people.parquet")
        index.release(k=10).write("people-k10.parquet")

One handle may write; any number of others, in any process, read the version that was newest when they were opened.
"""

from __future__ import annotations

import os
import weakref
from os import PathLike, fspath
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rtree_anon.arguments import check_choice, checked_k, checked_seed, checked_threads
from rtree_anon.errors import StorageError, UsageError
from rtree_anon.index.budget_text import memory_bytes
from rtree_anon.index.catalog import Catalog
from rtree_anon.index.changes import changes_between
from rtree_anon.index.creating import create_index_store
from rtree_anon.index.describing import index_stats
from rtree_anon.index.loading import Resources, load_source
from rtree_anon.index.progress import OnProgress, shown
from rtree_anon.index.scrubbing import scrub_index
from rtree_anon.index.segments import IndexSegments, ends_for
from rtree_anon.index.streaming import NeedsLoadError, Streaming
from rtree_anon.index.verifying import IndexReport, verify_index
from rtree_anon.index.view import View
from rtree_anon.io.line_stream import read_names
from rtree_anon.models import Model
from rtree_anon.models.fitting import check_fits, checked_model, with_k
from rtree_anon.release.changes import Changes
from rtree_anon.release.from_tree import too_few_rows
from rtree_anon.release.streamed import StreamedRelease
from rtree_anon.schema import Schema
from rtree_anon.storage import DiskStore, VerifyReport, open_snapshot, open_store
from rtree_anon.tree.build import METHODS
from rtree_anon.tree.effort import QUALITIES

_RELEASE_BYTES = 1024  # that a row may take while it is released
_MODES = ("r", "w")


class Index:
    """An index on disk. Made by `Index.create` and `Index.open`; a context manager.

    `release` gives tables at any k from the index's own k on; all releases of one version are safe together at that k.
    """

    def __init__(self, path: str, store: DiskStore | None, view: View, resources: Resources) -> None:
        """For `create` and `open`."""
        self._path, self._store, self._resources = path, store, resources
        self._view: View | None = view
        self._views: weakref.WeakSet[View] = weakref.WeakSet([view])
        self._given: weakref.WeakValueDictionary[tuple[int, tuple[int, ...], bool, bool], IndexSegments]
        self._given = weakref.WeakValueDictionary()
        self._stream = None if store is None else Streaming(store, view, resources, self._refreshed)

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        schema: Schema,
        k: int = 5,
        model: Model | str | None = None,
        quality: str = "balanced",
        memory: str | int = "256MB",
        threads: int | None = None,
        seed: int = 0,
    ) -> Index:
        """Make a new, empty index and open it for writing. It is there completely, or not at all.

        k: rows of the smallest group; releases can have any k from this one on. People, where the schema has an
            identity: a column that says whose row it is.
        model: what groups have to satisfy besides k, about the sensitive columns: `ra.DistinctLDiversity(3,
            on="disease") & ra.TCloseness(0.3, on="disease")`, or a text (see `ra.model_from_text`). Every leaf
            satisfies it at all times, with its own numbers of rows and people lowered to k, and so do all releases of
            one version together; every single release satisfies all of it.
        quality: "fast", "balanced" or "best": how much effort goes into narrow groups.
        memory: what loads may use ("256MB", "1GB", or bytes); threads: all cores by default. Both hold for this handle.
        """
        if not isinstance(schema, Schema):
            raise UsageError(f"schema must be a Schema, not {schema!r:.80}; Schema.from_toml reads one from a file.")
        check_choice("quality", quality, QUALITIES)
        further = checked_model(model)
        check_fits(further, schema.sensitive, schema.identity)
        resources = _resources(path, memory, threads)
        least = checked_k(k, "k")
        whole = with_k(least, schema.identity, further)
        catalog = Catalog(schema, least, whole, quality, checked_seed(seed))
        store = create_index_store(fspath(path), catalog)
        return cls._opened(fspath(path), store, resources)

    @classmethod
    def open(
        cls, path: str | PathLike[str], mode: str = "r", *, memory: str | int = "256MB", threads: int | None = None
    ) -> Index:
        """Open an index: a snapshot of its newest version ("r"), or as its one writer ("w")."""
        check_choice("mode", mode, _MODES)
        resources = _resources(path, memory, threads)
        name = fspath(path)
        if not os.path.isdir(name):  # noqa: PTH112
            raise StorageError(f"{name}: there is no index here (an index is a directory). Index.create makes one.")
        if mode == "w":
            return cls._opened(name, open_store(name), resources)
        return cls(name, None, View(open_snapshot(name), name, resources.memory_bytes), resources)

    @classmethod
    def _opened(cls, path: str, store: DiskStore, resources: Resources) -> Index:
        try:
            return cls(path, store, View(store.snapshot(), path, resources.memory_bytes), resources)
        except BaseException:
            store.close()
            raise

    @property
    def version(self) -> int:
        """The version that this handle sees: it grows with every load, checkpoint and compaction."""
        return self._current.version

    @property
    def schema(self) -> Schema:
        """The schema; bound to the data as soon as there are rows."""
        return self._current.catalog.schema

    @property
    def k(self) -> int:
        """Rows of the smallest group that a release can have."""
        return self._current.catalog.k

    @property
    def model(self) -> Model:
        """What every release satisfies, with a k of its own; leaves do, with all k in it lowered to the index's."""
        return self._current.catalog.model

    def __len__(self) -> int:
        """The number of rows; the writer counts what it was given since the last version, too."""
        view = self._current
        return view.catalog.n_rows if self._stream is None else self._stream.n_rows

    def __repr__(self) -> str:
        if self._view is None:
            return f"<Index {self._path}: closed>"
        return f"<Index {self._path}: {len(self):,} rows, k={self.k}, version {self.version}>"

    def load(self, source: Any, on_progress: OnProgress | None = None) -> int:
        """Load a table: files (Parquet, CSV, Arrow; several, or a pattern), a frame, a stream. The number of new rows.

        All or nothing: an error, an interrupt or a crash leaves the index as it was. Rows that are there already keep
        their ids and are cut anew together with the new ones. `on_progress` is called with the phase, the rows that are
        done and how many there are; without it a terminal shows a bar. A table that cannot satisfy the model of the
        index in any division is refused, with the best that it can.
        """
        return self._load(source, on_progress)

    def _load(self, source: Any, on_progress: OnProgress | None = None, *, accept_invalid: bool = False) -> int:
        store = self._writer
        self.checkpoint()
        with shown(on_progress) as progress:
            n_new, _ = load_source(
                store, self._current, source, self._resources, progress, accept_invalid=accept_invalid
            )
        self._changes.begin_again(self._refreshed())
        return n_new

    def insert(self, rows: Any, durable: bool = True) -> NDArray[Any]:
        """Insert rows (a frame, an Arrow table, a list of dictionaries, files). What names them: ids, or their keys.

        Where the schema has a key, rows are named by it: whole numbers as they are, other keys as an array of objects;
        a key that names a row already is an error. `durable=True`: the rows survive a power cut when this returns;
        `durable=False`: when the next `flush` or `checkpoint` does. Numbers and dates outside the known domain make it
        grow; new categories are taken where the attribute allows them. An error changes nothing. Readers and releases
        see the rows from the next `checkpoint` on.
        """
        try:
            return self._changes.insert(rows, durable)
        except NeedsLoadError as needs:  # what codes or ids of other rows mean would change: all are coded anew
            self.checkpoint()
            before = self._current.catalog.next_id
            n_new = self._load(needs.rows, accept_invalid=True)
            has_key = self._current.carried.has_own_ids
            return np.asarray(self.read_names(needs.rows)) if has_key else np.arange(before, before + n_new)

    def delete(self, ids: Any, durable: bool = True) -> None:
        """Delete rows by id, or by the schema's key. One that names no row is an error, and then nothing is deleted."""
        self._changes.delete(ids, durable)

    def update(self, ids: Any, rows: Any, durable: bool = True) -> None:
        """Give rows other values: row i of `rows` is what ids[i] has from now on. An error changes nothing.

        Where the schema has a key, `ids` are keys, and row i of `rows` has the same one.
        """
        try:
            self._changes.update(ids, rows, durable)
        except NeedsLoadError:
            raise UsageError(
                "The update has categories that change the order of the others; insert a row with them first."
            ) from None

    def read_names(self, source: Any) -> Any:
        """The rows that a table or file names, for `delete` and `update`: its column of keys, `id`, or its only one."""
        key = self._current.carried.key_type
        return read_names(source, ("id",) if key is None else (key[0], "id"), None if key is None else key[1])

    def flush(self) -> None:
        """Make everything durable that was inserted, deleted or updated so far."""
        self._changes.flush()

    def checkpoint(self) -> int:
        """Make a version with everything that was inserted, deleted or updated so far; its number."""
        return self._changes.checkpoint()

    def release(
        self, k: int = 10, method: str = "optimal", compact: bool = True, model: Model | str | None = None
    ) -> StreamedRelease:
        """The table of this version at k: every row looks like at least k - 1 others (of k - 1 other people, where the
        schema has an identity), and every group satisfies the model of the index.

        Nothing is computed yet: the release reads the index whenever it is used. `method` is "optimal", "greedy" (the
        paper's leaf scan) or "hierarchical"; `compact=False` shows the region of a group and not only what occurs.
        `model` asks for more than the index does. All releases of a version are safe together at what every leaf
        satisfies (`safe_together_at`), however strict each of them is.
        """
        check_choice("method", method, METHODS)
        further = checked_model(model)
        check_fits(further, self.schema.sensitive, self.schema.identity)
        if self._stream is not None:
            self.checkpoint()
        view, catalog = self._current, self._current.catalog
        wanted = checked_k(k, "k")
        if len(self) < wanted:
            raise too_few_rows(self._path, len(self), wanted)
        is_plain = catalog.is_plain and further is None
        whole = None if is_plain else catalog.release_model(wanted, further)
        return StreamedRelease(
            self._segments(
                ends_for(view, wanted, whole), with_regions=not compact, with_depths=method == "hierarchical"
            ),
            catalog.schema,
            k=wanted,
            base_k=catalog.k,
            method=method,
            compact=compact,
            model=whole,
            base_model=catalog.leaf_model,
            source=self._path,
            version=view.version,
            threads=self._resources.threads,
            rows_at_once=self._resources.memory_bytes // _RELEASE_BYTES,
        )

    def changes(
        self, since: int, k: int = 10, method: str = "optimal", compact: bool = True, allow_small: bool = False
    ) -> Changes:
        """The groups that the release of version `since` must drop and add to become the release of now.

        Says how many rows each replacement gains and loses, and refuses those of 1 to k - 1 rows, by which one sees
        whose values came or went, unless `allow_small`. Releases of different versions are not safe together in any
        case. The last few versions are kept; another one raises.
        """
        check_choice("method", method, METHODS)
        if self._stream is not None:
            self.checkpoint()
        view, wanted = self._current, checked_k(k, "k")
        before = view.at(since)
        for each in (before, view):
            if each.catalog.n_rows < wanted:
                raise too_few_rows(f"{self._path}, version {each.version}", each.catalog.n_rows, wanted)
        return changes_between(before, view, k=wanted, method=method, compact=compact, allow_small=allow_small)

    def stats(self) -> dict[str, Any]:
        """Figures of this version that cost no look at the rows."""
        return index_stats(self._current)

    def verify(self, storage: VerifyReport | None = None) -> IndexReport:
        """Check everything: pages, regions, boxes, counts, ids, and that every leaf satisfies the model.

        Reads the whole index and changes nothing. Raises a CorruptionError if anything is wrong. `storage` is what
        `storage.verify_store` just said of the same index, where it was asked already.
        """
        return verify_index(self._current, storage)

    def compact(self, scrub: bool = False) -> None:
        """Give free space back; with `scrub` the files hold nothing of rows that were deleted or changed.

        Scrubbing builds the index anew from the rows that are left, which keep their ids: domains, categories,
        dictionaries and cuts are learned from them alone; what the schema declared when the index was created stays. It
        takes as long as a load, and forgets the earlier versions that `changes` looks at. Readers that are open keep
        the old file until they close. Releases that were made before, copies and the disk itself are not reached.
        """
        self.checkpoint()
        if scrub:
            with shown(None) as progress:
                scrub_index(self._writer, self._current, self._resources, progress)
        else:
            self._writer.compact()
        self._changes.begin_again(self._refreshed())

    def close(self) -> None:
        """Give everything back; releases of this handle cannot be used any more. Closing twice is harmless."""
        is_open, self._view = self._view is not None, None
        try:
            if is_open and self._stream is not None:
                self._stream.close()
        finally:
            for view in list(self._views):
                view.close()
            if self._store is not None:
                self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def _current(self) -> View:
        if self._view is None:
            raise UsageError(f"{self._path}: this index is closed. Open it again.")
        return self._view

    @property
    def _writer(self) -> DiskStore:
        self._current  # noqa: B018 -- raises where the index is closed
        if self._store is None:
            raise UsageError(f'{self._path} is open for reading; Index.open(path, mode="w") opens it for writing.')
        return self._store

    def _segments(self, ends: list[int], *, with_regions: bool, with_depths: bool) -> IndexSegments:
        """Segments of this version; releases that need the same ones get the same object, and so share a pass."""
        key = (self.version, tuple(ends), with_regions, with_depths)
        segments = self._given.get(key)
        if segments is None:
            segments = IndexSegments(self._current, ends, with_regions=with_regions, with_depths=with_depths)
            self._given[key] = segments
        return segments

    @property
    def _changes(self) -> Streaming:
        self._writer  # noqa: B018 -- raises where the index is closed or only read
        assert self._stream is not None
        return self._stream

    def _refreshed(self) -> View:
        """See what was committed. Releases keep the version that they came from."""
        self._view = View(self._writer.snapshot(), self._path, self._resources.memory_bytes)
        self._views.add(self._view)
        return self._view


def _resources(path: str | PathLike[str], memory: str | int, threads: int | None) -> Resources:
    return Resources(memory_bytes(memory), checked_threads(threads) or os.cpu_count() or 1, fspath(path))
