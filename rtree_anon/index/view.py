"""A view: one committed version of an index, opened for reading, with everything that its pages mean.

It is the same for its whole life, whatever the writer does (P7). Releases hold on to the view that they come from; a
view that nobody holds any more gives its pages back.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError, InputError, SchemaError, UsageError
from rtree_anon.index.carried import read_columns
from rtree_anon.index.catalog import read_catalog
from rtree_anon.index.cuts import checked
from rtree_anon.index.history import KeptVersion
from rtree_anon.index.judging import Judging
from rtree_anon.index.reading import MISSING, BundleReader
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.io.coding import RowCoder
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.space import Kind, Space
from rtree_anon.storage.protocol import PageReader


class View:
    """One version. Its catalog, its tree, and readers of its rows."""

    def __init__(
        self, pages: PageReader, path: str, dictionary_bytes: int, *, earlier: KeptVersion | None = None
    ) -> None:
        """Takes over `pages`: they are closed with the view, or if it cannot be made.

        An `earlier` version that is still kept is read from the pages of a later one, which stay open.
        """
        self.pages, self.path, self._dictionary_bytes, self._earlier = pages, path, dictionary_bytes, earlier
        self._finalizer = weakref.finalize(self, pages.close if earlier is None else _keep_open)
        try:
            self.catalog, self.tree = read_catalog(pages, path, None if earlier is None else earlier.metadata)
            _check_pages(pages, self.tree)
            if self.catalog.n_rows:
                self._check_tree()
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> int:
        return self.pages.commit_id if self._earlier is None else self._earlier.version

    def at(self, version: int) -> View:
        """This version, or an earlier one that is still kept."""
        if version == self.version:
            return self
        for kept in self.catalog.history:
            if kept.version == version:
                return View(self.pages, self.path, self._dictionary_bytes, earlier=kept)
        known = ", ".join(map(str, [*(kept.version for kept in self.catalog.history), self.version]))
        raise UsageError(f"{self.path}: version {version} is not kept (any more); there are {known}.")

    @property
    def space_key(self) -> tuple[object, ...]:
        """Equal where a release looks at rows in the same way: domains, missing values, categories, weights."""
        return tuple(
            (axis.kind, axis.lo, axis.hi, axis.has_missing, axis.n_categories, axis.weight)
            for axis in (self.space.axes if len(self.tree) else ())
        )

    @cached_property
    def coder(self) -> RowCoder:
        """Codes of the quasi-identifiers. The schema is bound as soon as there are rows."""
        try:
            return RowCoder(self.catalog.schema)
        except (SchemaError, InputError) as error:
            raise CorruptionError(f"{self.path}: the schema of the index is damaged: {error}.") from error

    @cached_property
    def _own_space(self) -> Space:
        try:
            return self.coder.space
        except (SchemaError, InputError, ValueError, ArithmeticError) as error:
            raise CorruptionError(f"{self.path}: a domain in the schema of the index is damaged: {error}.") from error

    @cached_property
    def space(self) -> Space:
        """The space of the rows, which knows where values are missing."""
        has_missing = missing_axes(self.tree, self._own_space)
        axes = zip(self._own_space.axes, has_missing.tolist(), strict=True)
        return Space(tuple(replace(axis, has_missing=missing) for axis, missing in axes))

    @cached_property
    def carried(self) -> StoredColumns:
        """How the carried columns are stored, with their dictionaries."""
        return read_columns(self.pages, self.catalog, self._dictionary_bytes)

    @cached_property
    def reader(self) -> BundleReader:
        return BundleReader(self.pages, self.tree, self.space, len(self.carried.ranges))

    @cached_property
    def judging(self) -> Judging:
        """What the rows are to a privacy model."""
        return Judging(self.catalog, self.carried, self.reader, self._dictionary_bytes)

    def close(self) -> None:
        """Let the writer reuse what only this version needed."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check_tree(self) -> None:
        """The tree fits the space: what it says of bundles can be true."""
        tree, space = self.tree, self._own_space
        n_masks = sum(axis.kind == Kind.SET for axis in space.axes)
        if tree.lo.shape[1] != len(space) or tree.mask.shape[1] != n_masks:
            raise CorruptionError(f"{self.path}: the tree and the schema are of different tables; it is damaged.")
        checked(tree.cuts, space)
        for number, axis in enumerate(space.axes):
            lo, hi = tree.lo[:, number], tree.hi[:, number]
            inside = ((lo >= axis.lo) | (lo == MISSING)) & ((hi <= axis.hi) | (hi == MISSING)) & (lo <= hi)
            if not inside.all():
                raise CorruptionError(f"{self.path}: rows lie outside the domain of {axis.name!r}; it is damaged.")


def _keep_open() -> None:
    """The pages belong to another view."""


def missing_axes(tree: UpperTree, space: Space) -> NDArray[np.bool_]:
    """For every axis whether a value is missing anywhere."""
    found = (tree.lo == MISSING).any(axis=0) if len(tree) else np.zeros(len(space), np.bool_)
    return np.asarray(found)


def _check_pages(pages: PageReader, tree: UpperTree) -> None:
    """Every page of the tree exists and belongs to one bundle: no count asks for more than there is."""
    existing = pages.page_ids()
    n_ids = int(existing[-1]) + 1 if len(existing) else 0
    if not len(tree):
        return
    if int(tree.n_pages.max()) > n_ids or int(tree.page.max()) >= n_ids or int(tree.n_pages.sum()) > n_ids:
        raise CorruptionError("The tree of the index names pages that do not exist; it is damaged.")
    order = np.argsort(tree.page, kind="stable")
    ends = (tree.page + tree.n_pages)[order]
    if bool((tree.page[order][1:] < ends[:-1]).any()) or int(ends[-1]) > n_ids:
        raise CorruptionError("The tree of the index has bundles that share pages; it is damaged.")


def tree_pages(tree: UpperTree) -> NDArray[np.uint64]:
    """The pages of all bundles, in leaf order."""
    first = np.cumsum(tree.n_pages) - tree.n_pages
    ids = np.repeat(tree.page - first, tree.n_pages) + np.arange(int(tree.n_pages.sum()))
    return ids.astype(np.uint64)
