"""Scrubbing: the index is built anew from the rows that are left, so that nothing else is in its files (P4).

    rows, decoded ─► a load into a fresh file, which learns what is learned from data again ─► in the old one's place

Domains, lists of categories, dictionaries, cuts and boxes come from the rows that are there now. What the user declared
when the index was created (orders, hierarchies, domains, types) stays, and rows keep their ids. Earlier versions, free
pages and the journal go with the old file. Temporary files hold rows that are left and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from rtree_anon.index.loading import Resources, load_instead
from rtree_anon.index.progress import OnProgress
from rtree_anon.index.segments import segment_ends
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.index.view import View
from rtree_anon.io.coding import CategoryCoder
from rtree_anon.io.stored_rows import stored_stream
from rtree_anon.schema import Attribute, Categorical, Schema
from rtree_anon.storage.protocol import PageStore

_BATCH_ROWS = 1 << 14


def scrub_index(store: PageStore, view: View, resources: Resources, on_progress: OnProgress) -> None:
    """Commit a version of the same rows, of which `view` is the newest, that remembers nothing else."""
    catalog = view.catalog
    fresh = _Unlearned(view).schema
    if not catalog.n_rows:
        store.rebuild()
        empty = replace(catalog, schema=fresh, carried=(), parts={}, directory=None, history=())
        store.commit(empty.write(store, UpperTree.empty(len(fresh.quasi), 0)))
        return
    names_rows = fresh.key is None
    id_name = _free_name(fresh) if names_rows else None
    rows = stored_stream(_parts(view), coder=view.coder, columns=view.carried, schema=catalog.schema, id_name=id_name)
    loaded = replace(fresh, key=id_name) if names_rows else fresh
    load_instead(store, view, rows, loaded, resources, on_progress)


def _parts(view: View) -> Iterator[Any]:
    """The rows, some thousands at a time."""
    tree, begin = view.tree, 0
    for end in segment_ends(tree.cuts, tree.n_rows, _BATCH_ROWS):
        rows = view.reader.rows(begin, end, view.coder.dtype)
        yield rows.codes, rows.carried, rows.ids
        begin = end


def _free_name(schema: Schema) -> str:
    """A column name that the table does not have, for ids."""
    name = "id"
    while name in schema.column_names:
        name += "_"
    return name


class _Unlearned:
    """The schema of an index as it was declared, but for the kinds and types of its columns."""

    def __init__(self, view: View) -> None:
        self._view = view

    @property
    def schema(self) -> Schema:
        bound, declared = self._view.catalog.schema, self._view.catalog.declared or self._view.catalog.schema
        said = dict(zip(declared.quasi_names, declared.quasi, strict=True))
        attributes = [
            attribute if isinstance(attribute, str) else self._attribute(place, attribute, said.get(name, name))
            for place, (name, attribute) in enumerate(zip(bound.quasi_names, bound.quasi, strict=True))
        ]
        return replace(bound, quasi=tuple(attributes))

    def _attribute(self, place: int, bound: Attribute, declared: Attribute | str) -> Attribute:
        fresh = type(bound)(bound.name) if isinstance(declared, str) else declared
        if fresh.type is None:
            fresh = replace(fresh, type=bound.type)
        is_ordered = isinstance(bound, Categorical) and bound.order is not None
        if is_ordered and isinstance(fresh, Categorical) and fresh.order is None:
            # The first table's own type had an order: it stays, for the values that are left.
            return replace(fresh, order=self._left_labels(place))
        return fresh

    def _left_labels(self, place: int) -> tuple[str, ...]:
        coder = self._view.coder.coders[place]
        assert isinstance(coder, CategoryCoder)
        return tuple(label for code, label in enumerate(coder.labels) if code in self._used[place])

    @cached_property
    def _used(self) -> list[set[int]]:
        """The codes that occur, by axis."""
        used: list[set[int]] = [set() for _ in self._view.coder.coders]
        if self._view.catalog.n_rows:
            for codes, _, _ in _parts(self._view):
                for place, column in enumerate(codes.T):
                    used[place].update(np.unique(column).tolist())
        return used
