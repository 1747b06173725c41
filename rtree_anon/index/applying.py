"""One commit with everything that is pending: rows into the tree, directory, dictionaries, catalog, history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rtree_anon.index.bucket import Cutter
from rtree_anon.index.catalog import BLOB_KIND, Catalog, Reference, catalog_pages
from rtree_anon.index.directory import Directory
from rtree_anon.index.distributions import Counts, Distribution
from rtree_anon.index.history import grown_history
from rtree_anon.index.pending import Pending
from rtree_anon.index.rowlayout import layout_of, quasi_ranges
from rtree_anon.index.stretch import Renewer
from rtree_anon.index.updating import Outcome, Updating
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.index.view import View, missing_axes
from rtree_anon.io.coding import RowCoder
from rtree_anon.io.stored_columns import ID_RANGE, StoredColumns
from rtree_anon.schema import Schema
from rtree_anon.space import Kind, Space
from rtree_anon.storage.blob import blob_pages, write_blob
from rtree_anon.storage.protocol import PageStore


def apply_pending(
    store: PageStore,
    view: View,
    pending: Pending,
    *,
    schema: Schema,
    stored: StoredColumns | None,
    directory: Directory,
    next_id: int,
    journal_seq: int,
    threads: int,
    memory_bytes: int,
) -> None:
    """Commit a version with what is pending; an error leaves the newest version as it was."""
    try:
        outcome = None
        if pending and stored is not None:
            outcome = _worked_in(store, view, pending, schema, stored, directory, next_id, threads, memory_bytes)
            _tell_directory(store, directory, outcome, pending, view.catalog.next_id, threads)
        metadata = _described(store, view, outcome, schema, stored, directory, next_id)
        store.commit(metadata, journal_seq)
    except BaseException:
        store.abort()
        raise


def _worked_in(
    store: PageStore,
    view: View,
    pending: Pending,
    schema: Schema,
    stored: StoredColumns,
    directory: Directory,
    next_id: int,
    threads: int,
    memory_bytes: int,
) -> Outcome:
    catalog = view.catalog
    space = _space(schema, view.tree, pending)
    ids = ID_RANGE if stored.has_own_ids else (0, max(next_id, 1))
    layout = layout_of([*quasi_ranges(space), *stored.ranges, ids])
    n_columns = len(layout.ranges)
    tree = view.tree
    if not len(tree):
        tree = UpperTree.empty(len(space), sum(axis.kind == Kind.SET for axis in space.axes))
    gone = pending.gone()
    gone_from = directory.find(gone)
    model, recheck = catalog.stored_model(stored), False
    if model is not None and model.compared:
        added = Counts.of(pending.n_rows, model.compared, lambda place: pending.column(len(space) + place))
        table: Mapping[str, Distribution] = added.columns
        if len(view.tree):
            table, recheck = view.judging.table_after(model, gone, gone_from, added)
        model = model.compared_with(table)
    cutter = Cutter(space, layout, n_columns, catalog.k, catalog.quality, store.page_bytes, catalog.seed, model)
    leaf_rows = 0.0 if model is None or not len(tree) else catalog.n_rows / int(tree.n_leaves.sum())
    renewer = Renewer(cutter, leaf_rows)
    updating = Updating(
        store,
        tree,
        renewer,
        pages=view.pages,
        threads=threads,
        recheck=recheck,
        memory_bytes=memory_bytes,
        new_ids=None if stored.has_own_ids else range(catalog.next_id, next_id),
        tell=lambda moved: directory.change(store, moved, threads),
    )
    return updating.run(pending.packed(layout, threads), gone, gone_from)


def _tell_directory(
    store: PageStore, directory: Directory, outcome: Outcome, pending: Pending, first_new: int, threads: int
) -> None:
    left = pending.gone()
    if len(left) and pending.n_rows:  # a row that was updated is deleted and comes again
        left = left[pending.find(left) < 0]
    directory.change(store, outcome.moved, threads)
    directory.remove(store, left, threads)
    directory.extend(store, first_new, outcome.fresh, threads)


def _described(
    store: PageStore,
    view: View,
    outcome: Outcome | None,
    schema: Schema,
    stored: StoredColumns | None,
    directory: Directory,
    next_id: int,
) -> dict[str, Any]:
    """Write the catalog; what the version before had for itself goes with it into history."""
    before = view.catalog
    tree = view.tree if outcome is None else outcome.tree
    n_ids = int(store.page_ids()[-1]) + 1
    if before.directory is not None and stored is not None:
        store.free(blob_pages(before.directory, store.payload_bytes, n_ids))
    own = catalog_pages(store) if outcome is None else np.concatenate((catalog_pages(store), outcome.dropped))
    catalog = replace(
        before,
        schema=schema,
        n_rows=int(tree.n_rows.sum()),
        next_id=next_id,
        carried=before.carried if stored is None else stored.description,
        parts=before.parts if stored is None else _grown_dictionaries(store, before, view, stored),
        directory=before.directory if stored is None else write_blob(store, directory.to_bytes(), BLOB_KIND),
        history=grown_history(store, before.history, own, int(tree.n_pages.sum())),
    )
    return catalog.write(store, tree)


def _grown_dictionaries(
    store: PageStore, before: Catalog, view: View, stored: StoredColumns
) -> dict[str, list[Reference]]:
    """The parts that dictionaries had, and one more for those that have grown."""
    known = view.carried.sizes() if before.carried else {}
    parts = {name: list(references) for name, references in before.parts.items()}
    for name, dictionary in stored.dictionaries.items():
        n_before = known.get(name, 0)
        if len(dictionary) > n_before:
            parts.setdefault(name, []).append(write_blob(store, dictionary.to_bytes(n_before), BLOB_KIND))
    return parts


def _space(schema: Schema, tree: UpperTree, pending: Pending) -> Space:
    """The space of old and new rows."""
    space = RowCoder(schema).space
    missing = missing_axes(tree, space) | pending.missing(len(space))
    axes = zip(space.axes, missing.tolist(), strict=True)
    return Space(tuple(replace(axis, has_missing=is_missing) for axis, is_missing in axes))
