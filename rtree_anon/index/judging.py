"""What the rows of one version are to a privacy model: the table that groups are compared with, and where segments end.

A release is made segment by segment, so every segment has to satisfy its model by itself. Leaves do so but for numbers
of rows and people, and so do unions of leaves; a release that asks for more (a stricter model, more people) may find a
segment that does not, which then goes together with the next ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.bundle import Bundle
from rtree_anon.index.catalog import Catalog
from rtree_anon.index.distributions import Counts, Distribution, TableCounter, summed
from rtree_anon.index.reading import BundleReader
from rtree_anon.index.stored_model import StoredModel
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.io.stored_values import CarriedCodes
from rtree_anon.models import Model

_ROWS_AT_ONCE = 1 << 14
_FIRST_LOOK_ROWS = 1024  # most often they satisfy a model already


def carried_of(bundles: Sequence[Bundle], n_quasi: int) -> CarriedCodes:
    """The carried columns of neighbouring bundles."""

    def codes(place: int) -> NDArray[np.int64]:
        column = n_quasi + place
        return np.concatenate([bundle.columns(column, column + 1, np.int64)[:, 0] for bundle in bundles])

    return codes


class Judging:
    """The models of one version. What is counted once is remembered."""

    def __init__(self, catalog: Catalog, stored: StoredColumns, reader: BundleReader, limit_bytes: int) -> None:
        """`limit_bytes` are for what groups are compared with."""
        self._catalog, self._stored, self._reader, self._limit_bytes = catalog, stored, reader, limit_bytes
        self._made: dict[Model, StoredModel] = {}
        self._table: dict[str, Distribution] = {}

    def stored(self, model: Model) -> StoredModel:
        """A model for the rows of this version."""
        if model not in self._made:
            made = StoredModel.of(model, self._catalog.schema, self._stored)
            unknown = {name: column for name, column in made.compared.items() if name not in self._table}
            if unknown:
                counter = TableCounter(unknown, 0, self._limit_bytes)
                for bundles in runs_of(self._reader, 0, len(self._reader.tree)):
                    counter.add(_n_rows(bundles), carried_of(bundles, len(self._reader.space)))
                self._table |= {name: counter.distribution(name) for name in unknown}
            self._made[model] = made.compared_with({name: self._table[name] for name in made.compared})
        return self._made[model]

    def table_after(
        self, model: StoredModel, gone: NDArray[np.int64], gone_from: NDArray[np.integer], added: Counts
    ) -> tuple[dict[str, Distribution], bool]:
        """What groups are compared with when rows have gone from the bundles of these names and others have come.

        Also whether that is anything else than before.
        """
        tree, n_quasi = self._reader.tree, len(self._reader.space)
        left = Counts(0, {name: Distribution.none() for name in model.compared})
        for number in np.flatnonzero(np.isin(tree.name, gone_from)).tolist():
            (bundle,) = self._reader.bundles(number, number + 1)
            going = np.isin(bundle.ids, gone)
            carried = carried_of([bundle], n_quasi)
            left += Counts.of(int(going.sum()), model.compared, _of_rows(carried, going))
        before = self.leaves.table
        after = {
            name: summed([before[name], added.columns[name]]).without(left.columns[name]) for name in model.compared
        }
        return after, any(not after[name].equals(before[name]) for name in after)

    @property
    def leaves(self) -> StoredModel:
        """The model of leaves."""
        return self.stored(self._catalog.leaf_model)

    def ends_under(self, model: Model, ends: list[int], source: str) -> list[int]:
        """Ends of segments that satisfy the model, each made of one or more of those with the ends that are given.

        The error of impossible models where not even all rows together do.
        """
        stored = self.stored(model)
        if int(self._reader.tree.n_leaves.sum()) > 1 and not stored.adds_to(self.leaves):
            return ends
        kept: list[int] = []
        begin, total = 0, _no_rows(stored)
        for before, end in zip([0, *ends], ends, strict=False):
            is_valid, total = self._adding(stored, total, before, end)
            if is_valid:
                kept.append(end)
                begin, total = end, _no_rows(stored)
        while begin < ends[-1]:  # what is left over goes with the segments before it
            if not kept:
                stored.require_possible(total, source)
            kept.pop()
            before, begin = begin, kept[-1] if kept else 0
            is_valid, total = self._adding(stored, total, begin, before)
            if is_valid:
                kept.append(ends[-1])
                break
        return kept

    def _adding(self, model: StoredModel, total: Counts, begin: int, end: int) -> tuple[bool, Counts]:
        """The counts with those of further bundles, and whether that is valid; not all of them where it is anyway."""
        for bundles in runs_of(self._reader, begin, end, _FIRST_LOOK_ROWS if model.is_upward else _ROWS_AT_ONCE):
            total += model.counts(_n_rows(bundles), carried_of(bundles, len(self._reader.space)))
            if model.is_upward and model.holds(total):
                return True, total
        return model.holds(total), total


def runs_of(reader: BundleReader, begin: int, end: int, n_rows: int = _ROWS_AT_ONCE) -> Iterator[list[Bundle]]:
    """Bundles begin .. end-1, at least so many rows at a time."""
    waiting: list[Bundle] = []
    for bundle in reader.bundles(begin, end):
        waiting.append(bundle)
        if _n_rows(waiting) >= n_rows:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _n_rows(bundles: Sequence[Bundle]) -> int:
    return sum(bundle.n_rows for bundle in bundles)


def _of_rows(carried: CarriedCodes, which: NDArray[np.bool_]) -> CarriedCodes:
    return lambda place: carried(place)[which]


def _no_rows(model: StoredModel) -> Counts:
    return model.counts(0, lambda place: np.empty(0, np.int64))
