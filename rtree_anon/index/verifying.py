"""Checking a whole index, rows and all: `verify_index`. Reads everything, changes nothing.

Beyond what storage checks (every byte is what was written, every page is reachable once), the content must be a tree:

    cuts        every leaf lies on its side of every cut above it: regions are disjoint and cover the space
    boxes       those in the upper tree are tight around their rows
    counts      rows, leaves and bundles add up; every leaf has k rows (a single leaf may have fewer)
    model       every leaf satisfies the privacy model (unless it is the only one), as the checker measures it
    order       a row that is routed from the root arrives in the bundle that holds it
    ids         no two rows have the same, and all are below the next one; those of keys are the keys' own
    directory   it has every row, in the bundle that holds it, and no other
    pages       every page belongs to one bundle, to the catalog, to the directory or to an earlier version

Boxes and sides are computed here with plain NumPy from the rows, not with the kernels that built the index.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.index.bundle import Bundle
from rtree_anon.index.catalog import catalog_pages, dictionary_pages, directory_pages, read_directory
from rtree_anon.index.cuts import Cuts, checked
from rtree_anon.index.directory import Directory
from rtree_anon.index.judging import carried_of
from rtree_anon.index.view import View, tree_pages
from rtree_anon.kernels.routing import RouteTable, route_batch
from rtree_anon.release.verifying import first_unmet
from rtree_anon.space import Kind, Space, missing_code
from rtree_anon.storage import VerifyReport, verify_store

_MISSING = np.int64(missing_code(np.int64))
_MEASURED_ROWS = 1 << 16  # at a time


@dataclass(frozen=True)
class IndexReport:
    """What was checked. An index that is not sound raises instead."""

    path: str
    version: int
    n_rows: int
    n_leaves: int
    n_bundles: int
    smallest_leaf: int
    largest_leaf: int
    k: int
    model: str  # that every leaf satisfies
    storage: VerifyReport

    @property
    def ok(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class _Boxes:
    """Tight boxes in codes: (boxes, axes). `mask` has a column for every axis; it is used for sets only."""

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    mask: NDArray[np.uint64]


def verify_index(view: View, storage: VerifyReport | None = None) -> IndexReport:
    """Check one version of an index; CorruptionError for the first thing that is wrong."""
    storage = storage or verify_store(view.path)
    if not storage.ok:
        raise CorruptionError("; ".join(storage.problems))
    tree, catalog = view.tree, view.catalog
    _check_pages(view)
    smallest = largest = 0
    if catalog.n_rows:
        smallest, largest = _check_rows(view)
    n_leaves = int(tree.n_leaves.sum())
    if smallest < catalog.k and n_leaves > 1:
        raise _wrong(view, f"a leaf has {smallest} rows where k is {catalog.k}")
    return IndexReport(
        view.path,
        view.version,
        catalog.n_rows,
        n_leaves,
        len(tree),
        smallest,
        largest,
        catalog.k,
        str(catalog.leaf_model),
        storage,
    )


def _check_pages(view: View) -> None:
    """Every page belongs to a bundle, to the catalog, to the directory or to an earlier version."""
    own = (catalog_pages(view.pages), dictionary_pages(view.pages, view.catalog))
    earlier = [kept.pages(view.pages) for kept in view.catalog.history]
    used = np.concatenate((*own, *earlier, directory_pages(view.pages, view.catalog), tree_pages(view.tree)))
    used.sort()
    if not np.array_equal(used, view.pages.page_ids()):
        raise _wrong(view, "there are pages that nothing uses, or that are used twice")


def _check_rows(view: View) -> tuple[int, int]:
    """Look at every row; the rows of the smallest and of the largest leaf."""
    tree, space = view.tree, view.space
    upper = _Boxes(tree.lo, tree.hi, _masks_by_axis(tree.mask, space))
    _check_sides(view, tree.cuts, upper, "the upper tree")
    table, counts = tree.cuts.route_table, np.zeros(len(tree), np.int64)
    smallest, largest = 2**62, 0
    directory = _checked_directory(view)
    measured = None if view.catalog.is_plain or int(tree.n_leaves.sum()) == 1 else _LeafMeasures(view)
    for number, bundle in enumerate(view.reader.bundles(0, len(tree))):
        codes = np.empty((bundle.n_rows, len(space)), np.int64)
        view.reader.read_codes(number, bundle, codes)
        leaves = _boxes(codes, bundle.starts, space)
        _check_bundle(view, number, bundle, leaves, upper)
        _check_route(view, number, codes, table, counts)
        _check_ids(view, number, bundle, directory)
        if measured is not None:
            measured.add(bundle)
        sizes = np.diff(bundle.starts)
        smallest, largest = min(smallest, int(sizes.min())), max(largest, int(sizes.max()))
    if measured is not None:
        measured.finish()
    return smallest, largest


class _LeafMeasures:
    """Has the checker measure leaves, those of many bundles at a time."""

    def __init__(self, view: View) -> None:
        self._view, self._model = view, view.judging.leaves
        self._table = self._model.table_values()
        self._bundles: list[Bundle] = []
        self._n_rows = 0

    def add(self, bundle: Bundle) -> None:
        self._bundles.append(bundle)
        self._n_rows += bundle.n_rows
        if self._n_rows >= _MEASURED_ROWS:
            self.finish()

    def finish(self) -> None:
        """Measure what has come so far."""
        if not self._bundles:
            return
        sizes = np.concatenate([np.diff(bundle.starts) for bundle in self._bundles])
        carried = carried_of(self._bundles, len(self._view.space))
        columns = {name: column.decoded_column(carried) for name, column in self._model.columns.items()}
        people = None if self._model.people is None else columns.pop(self._model.people)
        group_of_row = np.repeat(np.arange(len(sizes)), sizes)
        unmet = first_unmet(self._model.model, group_of_row, len(sizes), columns, people, self._table)
        if unmet is not None:
            raise _wrong(self._view, f"a leaf breaks the privacy model {self._model.model}: {unmet}")
        self._bundles, self._n_rows = [], 0


def _checked_directory(view: View) -> Directory:
    """Its ranges are disjoint and have as many ids as there are rows."""
    directory = read_directory(view.pages, view.catalog)
    n_rows, before = 0, -1
    for ranges in directory.ranges():
        if not len(ranges) or int(ranges.first[0]) < before:
            raise _wrong(view, "pages of the directory are empty or overlap")
        n_rows, before = n_rows + int((ranges.end - ranges.first).sum()), int(ranges.end[-1])
    if n_rows != view.catalog.n_rows:
        raise _wrong(view, "the directory has another number of rows")
    return directory


def _check_ids(view: View, number: int, bundle: Bundle, directory: Directory) -> None:
    """Every row is found by its id, which is its own and, where rows have keys, that of its key.

    An id leads to one bundle. So ids that are different within each bundle are different everywhere, and as there are
    as many rows as the directory has ids, it has no others.
    """
    ids, next_id = bundle.ids, view.catalog.next_id
    outside = ids[(ids < 0) | (ids >= next_id)]
    if len(outside):
        raise _wrong(view, f"a row has the id {int(outside[0])}, which was never given")
    ordered = np.sort(ids)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise _wrong(view, f"two rows have the id {int(twice[0])}")
    if bool((directory.find(ids) != view.tree.name[number]).any()):
        raise _wrong(view, f"the directory does not find the rows of bundle {number}")
    key = view.carried.key_column
    if key is not None:
        end = view.reader.n_columns - 1
        codes = bundle.columns(end - len(key.ranges), end, np.int64)
        key.decode(codes)  # raises where it is no key
        if not np.array_equal(key.ids(codes.T), ids):
            raise _wrong(view, f"a row of bundle {number} has another id than its key")


def _check_bundle(view: View, number: int, bundle: Bundle, leaves: _Boxes, upper: _Boxes) -> None:
    where = f"bundle {number}"
    for found, said in (
        (leaves.lo.min(axis=0), upper.lo[number]),
        (leaves.hi.max(axis=0), upper.hi[number]),
        (np.bitwise_or.reduce(leaves.mask, axis=0), upper.mask[number]),
    ):
        if not np.array_equal(found, said):
            raise _wrong(view, f"the box of {where} is not tight around its rows")
    _check_sides(view, checked(bundle.cuts, view.space), leaves, where)


def _check_route(
    view: View, number: int, codes: NDArray[np.int64], table: RouteTable, counts: NDArray[np.int64]
) -> None:
    found = np.empty(len(codes), np.uint32)
    route_batch(np.ascontiguousarray(codes.T), _MISSING, table, found, counts)
    if bool((found != number).any()):
        raise _wrong(view, f"a row of bundle {number} is looked for in another bundle")


def _check_sides(view: View, cuts: Cuts, boxes: _Boxes, where: str) -> None:
    """Every thing lies on its side of every cut above it."""
    first, second, root = cuts.links
    todo = [(root, 0, len(cuts) + 1)]
    while todo:
        cut, begin, end = todo.pop()
        if cut < 0:
            continue
        middle = cut + 1
        sides = [slice(begin, middle), slice(middle, end)]
        left, right = reversed(sides) if cuts.flipped[cut] else sides
        axis = int(cuts.axis[cut])
        if cuts.is_set[cut]:
            left_set = cuts.left_set[cut]
            right_way = (
                not (boxes.mask[left, axis] & ~left_set).any() and not (boxes.mask[right, axis] & left_set).any()
            )
        else:
            threshold = cuts.threshold[cut]
            right_way = (boxes.hi[left, axis] < threshold).all() and (boxes.lo[right, axis] >= threshold).all()
        if not right_way:
            raise _wrong(view, f"rows of {where} are on the wrong side of a cut")
        todo += [(int(first[cut]), begin, middle), (int(second[cut]), middle, end)]


def _boxes(codes: NDArray[np.int64], starts: NDArray[np.int64], space: Space) -> _Boxes:
    """The tight box of every leaf."""
    begins = starts[:-1]
    mask = np.zeros((len(begins), len(space)), np.uint64)
    for number, axis in enumerate(space.axes):
        if axis.kind == Kind.SET:
            bit = np.where(codes[:, number] == _MISSING, 63, codes[:, number]).astype(np.uint64)
            mask[:, number] = np.bitwise_or.reduceat(np.uint64(1) << bit, begins)
    return _Boxes(np.minimum.reduceat(codes, begins), np.maximum.reduceat(codes, begins), mask)


def _masks_by_axis(masks: NDArray[np.uint64], space: Space) -> NDArray[np.uint64]:
    """The upper tree has masks for sets only; here every axis has a column."""
    by_axis = np.zeros((len(masks), len(space)), np.uint64)
    by_axis[:, [axis.kind == Kind.SET for axis in space.axes]] = masks
    return by_axis


def _wrong(view: View, what: str) -> CorruptionError:
    return CorruptionError(
        f"{view.path}, version {view.version}: {what}; the index is damaged. Restore it from a copy."
    )
