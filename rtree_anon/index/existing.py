"""The rows of an index as a source of a further load: coded batches that keep their ids.

A load into an index with rows cuts old and new rows together, so that the result is as good as if all of them had come
at once. Codes are those of the grown schema: a category may have moved where a rule orders the values.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.reading import MISSING
from rtree_anon.index.segments import segment_ends
from rtree_anon.index.view import View
from rtree_anon.io.coded_batch import CodedBatch
from rtree_anon.io.coding import CategoryCoder, RowCoder
from rtree_anon.io.stored_columns import StoredColumns

Codes = NDArray[np.int64]


class ExistingRows:
    """The rows of a view, in the codes of `coder`, with the columns and ids that `stored` has for them."""

    def __init__(self, view: View, coder: RowCoder, stored: StoredColumns) -> None:
        self._view, self._stored = view, stored
        self._new_codes = moved_codes(view.coder, coder)

    @property
    def n_rows(self) -> int:
        return self._view.catalog.n_rows

    def batches(self, batch_rows: int) -> Iterator[CodedBatch]:
        """All rows: quasi-identifiers, carried columns, ids."""
        tree = self._view.tree
        begin = 0
        for end in segment_ends(tree.cuts, tree.n_rows, batch_rows):
            n_rows = int(tree.n_rows[begin:end].sum())
            yield CodedBatch(n_rows, partial(self._codes, begin, end), f"the rows of {self._view.path}")
            begin = end

    def sample(self, n_rows: int, seed: int) -> Codes:
        """About so many rows, evenly from all bundles: codes[row, axis]. Reads all pages once."""
        generator = np.random.default_rng(seed)
        share = min(n_rows / max(self.n_rows, 1), 1.0)
        parts = [np.empty((0, len(self._view.space)), np.int64)]
        reader, tree = self._view.reader, self._view.tree
        for number, bundle in enumerate(reader.bundles(0, len(tree))):
            chosen = np.flatnonzero(generator.random(bundle.n_rows) < share)
            if len(chosen):
                codes = np.empty((bundle.n_rows, len(self._view.space)), np.int64)
                reader.read_codes(number, bundle, codes)
                parts.append(codes[chosen])
        sample = np.ascontiguousarray(np.concatenate(parts).T)
        self._recode(sample)
        return np.ascontiguousarray(sample.T)

    def _codes(self, begin: int, end: int) -> Codes:
        rows = self._view.reader.rows(begin, end, np.int64)
        carried, ids = rows.carried.T, rows.ids
        if self._stored.key_column is not None:  # there may be more room for keys now, and other ids for them
            more = np.zeros((len(self._stored.ranges) - len(carried), carried.shape[1]), np.int64)
            carried = np.concatenate((carried, more))
            ids = self._stored.key_column.ids(self._stored.key_codes(carried))
        codes = np.concatenate((rows.codes.T, carried, ids[None, :]))
        self._recode(codes)
        return codes

    def _recode(self, codes: Codes) -> None:
        for axis, new in self._new_codes:
            present = codes[axis] != MISSING
            codes[axis, present] = new[codes[axis, present]]


def moved_codes(old: RowCoder, new: RowCoder) -> list[tuple[int, NDArray[np.int64]]]:
    """For the axes whose codes have changed: the new code of every old one."""
    changed = []
    for axis, (before, after) in enumerate(zip(old.coders, new.coders, strict=True)):
        if not isinstance(before, CategoryCoder) or not isinstance(after, CategoryCoder):
            continue  # a number's coding is fixed when it is bound
        if after.labels[: len(before.labels)] != before.labels:
            place = {label: code for code, label in enumerate(after.labels)}
            changed.append((axis, np.array([place[label] for label in before.labels], np.int64)))
    return changed
