"""From a bucket of packed rows to bundles: cut into leaves, put in order, packed into pages, no Python per row.

A bucket is a subtree of the index that fits into memory (and mostly into the processor's cache). What comes out is
everything that the index stores of it, but for the rows' ids and the pages' places, which are known only when the
buckets before it are done. So buckets can be cut by any number of threads, and the result does not depend on it.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.cuts import Cuts, walked
from rtree_anon.index.distributions import Counts
from rtree_anon.index.rowlayout import RowLayout
from rtree_anon.index.stored_model import StoredModel
from rtree_anon.io.stored_values import CarriedCodes
from rtree_anon.kernels import gauge as g
from rtree_anon.kernels.bundleplan import plan_bundles, stored_boxes, sure_units, unions_of_units
from rtree_anon.kernels.bundles import (
    HEADER_WORDS,
    TREE_VECTORS,
    gather_rows,
    set_masks,
    write_bundles,
)
from rtree_anon.kernels.constraint import Constraint
from rtree_anon.kernels.rowwords import unpack_column, unpack_rows
from rtree_anon.kernels.storedcuts import bits_of_cuts
from rtree_anon.space import Kind, Space, missing_code
from rtree_anon.storage.page import empty_run, payloads
from rtree_anon.tree.build import Boxes, LeafTree, cut_rows
from rtree_anon.tree.grid import Grid, make_grid, needs_ranks

MISSING = missing_code(np.int64)
BYTES_PER_WORD = 8


@dataclass(frozen=True, eq=False)
class Bundles:
    """Neighbouring bundles and the cuts between them; what the upper tree keeps of each bundle, and their pages."""

    n_rows: NDArray[np.int64]
    n_leaves: NDArray[np.int64]
    n_pages: NDArray[np.int64]
    lo: NDArray[np.int64]  # (bundles, axes): codes; MISSING where a value is missing
    hi: NDArray[np.int64]  # MISSING where all are
    mask: NDArray[np.uint64]  # (bundles, axes with at most 63 categories)
    cuts: Cuts
    pages: NDArray[np.uint8]  # as `PageStore.write_run` takes them; ids of consecutive rows are still to be set
    lengths: NDArray[np.uint32]

    def without_pages(self) -> Bundles:
        """What is still needed once the pages are written."""
        return replace(self, pages=self.pages[:0].copy(), lengths=self.lengths[:0].copy())


@dataclass(frozen=True, eq=False)
class Cutter:
    """How the buckets of one load are cut."""

    space: Space
    layout: RowLayout  # quasi-identifiers, carried columns, and the ids where rows have them already
    n_columns: int  # of a stored row, the id included
    k: int
    quality: str
    page_bytes: int
    seed: int = 0
    model: StoredModel | None = None  # that of leaves, where it asks for more than k rows

    @cached_property
    def grid(self) -> Grid | None:
        """The grid that all buckets share; None where each needs ranks of its own."""
        if any(needs_ranks(axis) for axis in self.space.axes):
            return None
        return make_grid(np.empty((0, len(self.space)), np.int32), self.space)[0]

    def cut(self, words: NDArray[np.uint64], number: int, entry: Boxes | None = None) -> Bundles:
        """Cut the rows of a bucket; `entry` is the box (in kernel codes) that comes before it in the order."""
        tree = self._tree(words, number)
        order, cuts = walked(tree, entry)
        starts = np.concatenate(([0], np.cumsum(tree.sizes[order])))
        emitted = np.empty(words.shape[::-1], np.uint64)
        gather_rows(words, tree.rows, tree.starts, order, emitted)
        return self.bundles(emitted, starts, cuts)

    def _tree(self, words: NDArray[np.uint64], number: int) -> LeafTree:
        grid, rows = self.kernel_rows(words)
        seed = (self.seed + number) % 2**63
        return cut_rows(rows, grid, self.k, self.quality, threads=1, seed=seed, constraint=self._constraint(words))

    def _constraint(self, words: NDArray[np.uint64]) -> Constraint | None:
        """What both sides of every cut must satisfy. Rows that do not do so together have no cut: they are one leaf."""
        if self.model is None:
            return None
        return self.model.constraint(len(words), self.carried(words))

    def carried(self, words: NDArray[np.uint64]) -> CarriedCodes:
        """The carried columns of packed rows."""

        def codes(place: int) -> NDArray[np.int64]:
            out = np.empty(len(words), np.int64)
            unpack_column(words, self.layout.words, len(self.space) + place, np.int64(MISSING), out)
            return out

        return codes

    def counts(self, words: NDArray[np.uint64]) -> Counts:
        """What the model wants to know of packed rows; there must be a model."""
        assert self.model is not None
        return self.model.counts(len(words), self.carried(words))

    def kernel_rows(self, words: NDArray[np.uint64]) -> tuple[Grid, NDArray[np.int32]]:
        """Packed rows as the kernels want them (see `make_grid`), numbered in the last column."""
        n, d = len(words), len(self.space)
        if self.grid is None:
            codes = np.empty((n, d), np.int64)
            own = np.full(d, MISSING, np.int64)
            unpack_rows(words, self.layout.words, 0, np.arange(d), own, codes)
            return make_grid(codes, self.space)
        rows = np.empty((n, d + 1), np.int32)
        kinds = self.grid.gauge.kind[list(self.grid.column_of_axis)]
        kernel_missing = np.where(kinds == g.MASK, 63, int(g.MISSING))
        unpack_rows(words, self.layout.words, 0, np.array(self.grid.column_of_axis), kernel_missing, rows)
        rows[:, d] = np.arange(n, dtype=np.int32)
        return self.grid, rows

    @cached_property
    def _sets(self) -> NDArray[np.int64]:
        """The axes that are sets of categories."""
        return np.array([a for a, axis in enumerate(self.space.axes) if axis.kind == Kind.SET], np.int64)

    def bundles(self, words: NDArray[np.uint64], starts: NDArray[np.int64], cuts: Cuts) -> Bundles:
        """Leaves in order, packed into bundles: whole subtrees that fill a page as far as their tree allows.

        Rows are words[word, row].
        """
        layout, d = self.layout, len(self.space)
        capacity = payloads(np.empty((1, self.page_bytes), np.uint8)).shape[1] // BYTES_PER_WORD
        units, ends, lo, hi = self._plan(words, starts, cuts, capacity)
        lowest, highest = np.empty((2, len(ends), layout.n_columns), np.uint64)
        unions_of_units(lo, hi, ends, lowest, highest)
        ends = units[ends]
        begins = np.concatenate(([0], ends[:-1]))
        pages, lengths, n_pages = self._write(words, starts, begins, ends, cuts, capacity)
        masks = np.empty((len(ends), len(self._sets)), np.uint64)
        set_masks(words, layout.words, starts[ends], self._sets, masks)
        below = layout.words.below[:d]
        return Bundles(
            starts[ends] - starts[begins],
            ends - begins,
            n_pages,
            _codes(lowest[:, :d], below),
            _codes(highest[:, :d], below),
            masks,
            cuts[ends[:-1] - 1],
            pages,
            lengths,
        )

    def _plan(
        self, words: NDArray[np.uint64], starts: NDArray[np.int64], cuts: Cuts, capacity: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
        """Units (kernels/bundleplan.py) by their first leaves, the ends of bundles in units, and the units' boxes."""
        fixed = (
            capacity,
            bits_of_cuts(cuts.depth, cuts.looks_at, cuts.threshold, cuts.left_set),
            HEADER_WORDS + 2 * (self.n_columns + TREE_VECTORS),
        )
        ends, largest = np.empty((2, len(starts) - 1), np.int64)
        n = sure_units(cuts.depth, starts, self.layout.words.limit, *fixed, ends, largest)
        units, largest = np.concatenate(([0], ends[:n])), largest[:n]
        of_units = starts[units]
        lo, hi = np.empty((2, n, self.layout.n_columns), np.uint64)
        stored_boxes(words, self.layout.words, of_units, lo, hi)
        links = cuts[units[1:-1] - 1].links
        return units, ends[: plan_bundles(*links, of_units, units, largest, lo, hi, *fixed, ends)], lo, hi

    def _write(
        self,
        words: NDArray[np.uint64],
        starts: NDArray[np.int64],
        begins: NDArray[np.int64],
        ends: NDArray[np.int64],
        cuts: Cuts,
        capacity: int,
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint32], NDArray[np.int64]]:
        """The bundles' pages, the length of each page's payload, and how many pages each bundle takes."""
        looks_at, n_leaves = cuts.looks_at, ends - begins
        n_rows = starts[ends] - starts[begins]
        scratch = np.empty(int(n_rows.max()), np.uint64)
        # Bundles of several leaves fit a page by plan; a single leaf is as long as it is.
        bound = np.where(n_leaves > 1, 0, n_rows * (self.layout.n_words + 1) + 2 * (self.n_columns + TREE_VECTORS) + 2)
        n_most = np.maximum(-(-bound // capacity), 1)
        run = empty_run(int(n_most.sum()), self.page_bytes)
        content = payloads(run).view(np.uint64)
        lengths = np.zeros(len(run), np.uint32)
        n_pages = np.ones(len(ends), np.int64)
        used = np.empty(len(ends), np.int64)

        def write(these: slice, pages: NDArray[np.uint64]) -> None:
            write_bundles(
                words,
                self.layout.words,
                self.n_columns,
                starts,
                begins[these],
                ends[these],
                cuts.depth,
                looks_at,
                cuts.threshold,
                cuts.left_set,
                scratch,
                pages,
                used[these],
            )

        at = number = 0
        for long in [*np.flatnonzero(n_most > 1).tolist(), len(ends)]:
            pages = slice(at, at + long - number)  # of the bundles before it, one each
            write(slice(number, long), content[pages])
            lengths[pages] = used[number:long] * BYTES_PER_WORD
            at, number = pages.stop, long + 1
            if long < len(ends):
                whole = np.zeros((1, int(n_most[long]) * capacity), np.uint64)
                write(slice(long, long + 1), whole)
                here = n_pages[long] = -(-used[long] // capacity)
                content[at : at + here] = whole[0, : here * capacity].reshape(here, capacity)
                lengths[at : at + here] = capacity * BYTES_PER_WORD
                lengths[at + here - 1] = (used[long] - (here - 1) * capacity) * BYTES_PER_WORD
                at += here
        return run[:at], lengths[:at], n_pages


def set_first_ids(bundles: Bundles, first_ids: NDArray[np.int64], n_columns: int) -> None:
    """Number the rows of each bundle consecutively, in place."""
    first_pages = np.cumsum(bundles.n_pages) - bundles.n_pages
    content = payloads(bundles.pages).view(np.uint64)
    content[first_pages, HEADER_WORDS + 2 * (n_columns - 1)] = first_ids.view(np.uint64)


def _codes(stored: NDArray[np.uint64], below: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(stored == 0, MISSING, stored.view(np.int64) + below)
