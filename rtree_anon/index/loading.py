"""A load from beginning to end: prepare the source, bulk load into a fresh file, describe it, commit.

The fresh file takes the old one's place in the commit, all at once (P2). Whatever goes wrong before leaves the index as
it was: an unreadable row, a full disk, an interrupt, a killed process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import StorageError, UsageError
from rtree_anon.index.bucket import Cutter
from rtree_anon.index.bulkload import BulkLoad, LoadReport
from rtree_anon.index.carried import read_columns, write_dictionaries
from rtree_anon.index.catalog import BLOB_KIND, Catalog, Reference
from rtree_anon.index.directory import Directory, Ranges
from rtree_anon.index.existing import ExistingRows
from rtree_anon.index.gathering import SameIdError, ranges_of_rows
from rtree_anon.index.keys import SharedIdError, explained_same_id
from rtree_anon.index.progress import OnProgress
from rtree_anon.index.reading import BundleReader
from rtree_anon.index.rowlayout import RowLayout, layout_of
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.index.view import View
from rtree_anon.io.coded_batch import CodedBatch
from rtree_anon.io.loading import PreparedLoad, prepare_load
from rtree_anon.io.stored_columns import ID_RANGE, StoredColumns
from rtree_anon.schema import Schema
from rtree_anon.space import Space, missing_code
from rtree_anon.storage.blob import write_blob
from rtree_anon.storage.protocol import PageStore

_DICTIONARY_SHARE = 0.25  # of the memory, where columns are carried that may need dictionaries
_SAMPLE_SHARE = 0.06
_BATCH_SHARE = 0.06  # for all batches that are on their way
_BATCH_ROWS = (2048, 1 << 17)
_CODE_BYTES = 8
_MOST_SALTS = 8
_SORT_SHARE = 0.25  # of the memory: when the directory is made, nothing else needs any


@dataclass(frozen=True)
class Resources:
    """What a load may use."""

    memory_bytes: int
    threads: int
    directory: str  # for what does not fit into memory


def load_source(
    store: PageStore,
    view: View,
    source: Any,
    resources: Resources,
    on_progress: OnProgress,
    *,
    accept_invalid: bool = False,
) -> tuple[int, LoadReport]:
    """Load a source into the index of which `view` is the newest version; the number of new rows, and a report.

    A table that cannot satisfy the model of the index is refused, or becomes a single leaf, which is never released.
    """
    known = None
    if view.catalog.n_rows:
        known = read_columns(view.pages, view.catalog, int(resources.memory_bytes * _DICTIONARY_SHARE))
    return _loaded(
        store,
        view,
        source,
        view.catalog.schema,
        known,
        resources,
        on_progress,
        instead=False,
        accept_invalid=accept_invalid,
    )


def load_instead(
    store: PageStore, view: View, source: Any, schema: Schema, resources: Resources, on_progress: OnProgress
) -> None:
    """Load a source that has all rows of the index, which is not looked at any more, with their ids as its key.

    What the schema does not say is learned again; the index keeps its own key, or none. Rows that cannot satisfy the
    model are kept as a single leaf, as they were.
    """
    _loaded(store, view, source, schema, None, resources, on_progress, instead=True, accept_invalid=True)


def _loaded(
    store: PageStore,
    view: View,
    source: Any,
    schema: Schema,
    known: StoredColumns | None,
    resources: Resources,
    on_progress: OnProgress,
    *,
    instead: bool,
    accept_invalid: bool,
) -> tuple[int, LoadReport]:
    on_progress("preparing", 0, None)
    catalog = view.catalog
    dictionary_bytes = int(resources.memory_bytes * _DICTIONARY_SHARE)
    row_bytes = _CODE_BYTES * len(catalog.schema.quasi_names) + 2 * _CODE_BYTES
    prepared = prepare_load(
        source,
        schema,
        known,
        directory=resources.directory,
        dictionary_bytes=dictionary_bytes,
        sample_rows=int(resources.memory_bytes * _SAMPLE_SHARE / row_bytes),
        seed=catalog.seed,
    )
    if instead:
        prepared = prepared.with_hashed_people(view.carried)
    with prepared:
        if prepared.stored.dictionaries:
            resources = replace(resources, memory_bytes=resources.memory_bytes - dictionary_bytes)
        for _ in range(_MOST_SALTS):
            try:
                load = _Load(store, view, prepared, resources, instead=instead, accept_invalid=accept_invalid)
                return load.run(on_progress)
            except SharedIdError:  # once in a thousand loads of a hundred million rows
                prepared = prepared.with_other_ids()
    raise UsageError(f"{prepared.name}: keys were made so that their hashes are equal; rows cannot be named by them.")


class _Load:
    """Old and new rows as one bulk load; or new rows `instead` of the old ones."""

    def __init__(
        self,
        store: PageStore,
        view: View,
        prepared: PreparedLoad,
        resources: Resources,
        *,
        instead: bool,
        accept_invalid: bool,
    ) -> None:
        self._store, self._view, self._prepared, self._resources = store, view, prepared, resources
        self._instead, self._accept_invalid = instead, accept_invalid
        has_old = view.catalog.n_rows and not instead
        self._existing = ExistingRows(view, prepared.coder, prepared.stored) if has_old else None
        self._n_columns = len(prepared.ranges(with_ids=True))

    def run(self, on_progress: OnProgress) -> tuple[int, LoadReport]:
        """Do it; the number of new rows, and a report."""
        store, catalog, prepared = self._store, self._view.catalog, self._prepared
        n_old = 0 if self._existing is None else self._existing.n_rows
        n_expected = prepared.n_rows + n_old
        store.rebuild()
        try:
            bulk = self._bulk_load(on_progress)
            sample = self._sample(bulk.sample_rows_for(n_expected))
            tree = bulk.run(sample, self._batches(), n_expected, catalog.next_id)
            n_rows = bulk.report.n_rows
            n_new = n_rows - n_old
            loaded = replace(
                catalog,
                schema=prepared.schema,
                n_rows=n_rows,
                next_id=ID_RANGE[1] + 1 if prepared.key_is_id else catalog.next_id + n_new,
                carried=prepared.stored.description,
                parts=write_dictionaries(store, prepared.stored),
                directory=self._directory(tree),
                history=(),
            )
            if self._instead:
                loaded = self._as_before(loaded)
            on_progress("committing", n_rows, n_rows)
            store.commit(loaded.write(store, tree))
        except BaseException:
            with suppress(StorageError):  # a store that failed in its commit has ended already
                store.abort()
            raise
        return n_new, bulk.report

    def _as_before(self, loaded: Catalog) -> Catalog:
        """Ids came as a key, which the schema itself may not have, and are as they were."""
        before = self._view.catalog
        schema = replace(loaded.schema, key=before.schema.key)
        carried = [column for column in loaded.carried if column[0] in schema.column_names]
        return replace(loaded, schema=schema, carried=carried, next_id=before.next_id)

    def _directory(self, tree: UpperTree) -> Reference:
        """Where the rows are: nearly free where ids are consecutive in leaf order. Keys that come twice show here."""
        stored = self._prepared.stored
        reader = BundleReader(self._store, tree, self._space, len(stored.ranges))
        if self._existing is None and not self._prepared.key_is_id:
            end = self._view.catalog.next_id + np.cumsum(tree.n_rows)
            parts = iter([Ranges(end - tree.n_rows, end, tree.name)])
        else:
            memory_bytes = int(self._resources.memory_bytes * _SORT_SHARE)
            parts = ranges_of_rows(reader, self._resources.directory, memory_bytes)
        try:
            return write_blob(self._store, Directory.built(self._store, parts).to_bytes(), BLOB_KIND)
        except SameIdError as same:
            raise explained_same_id(reader, stored, same, self._prepared.name) from None

    @property
    def _space(self) -> Space:
        """The space of old and new rows."""
        space = self._prepared.space
        if self._existing is None:
            return space
        pairs = zip(space.axes, self._view.space.axes, strict=True)
        return Space(tuple(replace(new, has_missing=new.has_missing or old.has_missing) for new, old in pairs))

    @property
    def _layout(self) -> RowLayout:
        """Rows have ids before they are cut where they come with them, or where others have theirs already."""
        prepared = self._prepared
        has_older = self._existing is not None
        ranges = prepared.ranges(with_ids=has_older, own_rows_only=not has_older)
        if self._existing is not None and not prepared.key_is_id:
            ranges[-1] = (0, self._view.catalog.next_id + prepared.n_rows)
        return layout_of(ranges)

    def _bulk_load(self, on_progress: OnProgress) -> BulkLoad:
        catalog = self._view.catalog
        cutter = Cutter(
            self._space,
            self._layout,
            self._n_columns,
            catalog.k,
            catalog.quality,
            self._store.page_bytes,
            catalog.seed,
            catalog.stored_model(self._prepared.stored),
        )
        return BulkLoad(
            self._store,
            cutter,
            memory_bytes=self._resources.memory_bytes,
            threads=self._resources.threads,
            directory=self._resources.directory,
            on_progress=on_progress,
            refuse_as=None if self._accept_invalid else self._prepared.name,
        )

    def _sample(self, n_rows: int) -> NDArray[Any]:
        """Rows of both in proportion."""
        if self._existing is None:
            return self._prepared.sample(n_rows)
        n_old = self._existing.n_rows
        share = n_old / (n_old + self._prepared.n_rows)
        old = self._existing.sample(round(n_rows * share), self._view.catalog.seed)
        new = self._prepared.sample(n_rows - round(n_rows * share))
        is_missing = new == missing_code(new.dtype)
        return np.concatenate((old, np.where(is_missing, missing_code(np.int64), new.astype(np.int64))))

    def _batches(self) -> Iterator[CodedBatch]:
        n_rows = self._batch_rows()
        if self._existing is None:
            return self._prepared.batches(n_rows)
        first_id = None if self._prepared.key_is_id else self._view.catalog.next_id
        return itertools.chain(self._existing.batches(n_rows), self._prepared.batches(n_rows, first_id=first_id))

    def _batch_rows(self) -> int:
        """Rows of a batch: each thread has one, and two more wait; as Arrow columns, as codes, and in between."""
        on_the_way = 4 * _CODE_BYTES * self._n_columns * (self._resources.threads + 2)
        return int(np.clip(self._resources.memory_bytes * _BATCH_SHARE / on_the_way, *_BATCH_ROWS))
