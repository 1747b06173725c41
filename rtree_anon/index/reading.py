"""Reading an index: bundles in leaf order, in runs of pages, checked against what the upper tree says of them.

Invariant: the codes that leave here lie inside the boxes of the upper tree, which lie inside the space; so whoever
decodes them meets no code that means nothing, whatever a damaged file holds.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.index.bundle import Bundle
from rtree_anon.index.cuts import Cuts, checked, joined
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.kernels.boxes import ends_of_columns
from rtree_anon.kernels.bundles import get_columns
from rtree_anon.kernels.leafrows import read_bundles
from rtree_anon.space import Space, missing_code
from rtree_anon.storage.page import payloads
from rtree_anon.storage.protocol import PageReader, PageStore

_RUN_BYTES = 4 << 20
MISSING = missing_code(np.int64)


@dataclass(frozen=True, eq=False)
class _Run:
    """Pages of some bundles, read with one call: bundle i begins on page first[i] and has n_pages[i] of them."""

    contents: NDArray[np.uint8]
    n_bytes: NDArray[np.uint32]  # of every page
    first: NDArray[np.int64]
    n_pages: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    n_leaves: NDArray[np.int64]
    n_columns: int

    def __len__(self) -> int:
        return len(self.first)

    @property
    def words(self) -> NDArray[np.uint64]:
        """What is on the pages, in words."""
        return self.contents.view(np.uint64)

    @property
    def bytes_on_one_page(self) -> NDArray[np.int64]:
        """Of every bundle; 0 where it has several pages."""
        return np.where(self.n_pages == 1, self.n_bytes[self.first], 0).astype(np.int64)

    def bundle(self, i: int) -> Bundle:
        """One of the bundles."""
        pages = [self.contents[at, : int(self.n_bytes[at])] for at in self.first[i] + np.arange(self.n_pages[i])]
        content = pages[0] if len(pages) == 1 else np.concatenate(pages)
        return Bundle(content, self.n_columns, int(self.n_rows[i]), int(self.n_leaves[i]))


@dataclass(frozen=True, eq=False)
class LeafRows:
    """Rows of neighbouring bundles in leaf order."""

    codes: NDArray[Any]  # (rows, axes)
    carried: NDArray[np.int64]  # (rows, columns of codes)
    starts: NDArray[np.int64]  # leaf i has the rows starts[i]:starts[i+1]
    runs: Sequence[_Run]

    @cached_property
    def bundles(self) -> list[Bundle]:
        """The bundles that the rows are from."""
        return [run.bundle(i) for run in self.runs for i in range(len(run))]

    @property
    def ids(self) -> NDArray[np.int64]:
        """The rows' ids."""
        return np.concatenate([bundle.ids for bundle in self.bundles])


class BundleReader:
    """The bundles of one version of an index. May be used from many threads."""

    def __init__(self, pages: PageReader | PageStore, tree: UpperTree, space: Space, n_carried: int) -> None:
        self.pages, self.tree, self.space, self.n_carried = pages, tree, space, n_carried
        self.n_columns = len(space) + n_carried + 1

    def bundles(self, begin: int, end: int) -> Iterator[Bundle]:
        """Bundles begin .. end-1. What they hold is a copy of its own."""
        return self.chosen(np.arange(begin, end))

    def chosen(self, numbers: NDArray[np.int64]) -> Iterator[Bundle]:
        """The bundles with these numbers, in this order."""
        return (run.bundle(i) for run in self._runs(numbers) for i in range(len(run)))

    def rows(self, begin: int, end: int, dtype: Any) -> LeafRows:
        """The rows of bundles begin .. end-1; codes of quasi-identifiers as `dtype`."""
        tree = self.tree
        row_ends, leaf_ends = (
            np.concatenate(([0], np.cumsum(counts[begin:end]))) for counts in (tree.n_rows, tree.n_leaves)
        )
        codes = np.empty((int(row_ends[-1]), len(self.space)), dtype)
        carried = np.empty((int(row_ends[-1]), self.n_carried), np.int64)
        starts = np.zeros(int(leaf_ends[-1]) + 1, np.int64)
        runs, n_before, missing = [], 0, np.int64(missing_code(dtype))
        for run in self._runs(np.arange(begin, end)):
            at_row, at_leaf = (ends[n_before : n_before + len(run) + 1] for ends in (row_ends, leaf_ends))
            lo, hi = (side[begin + n_before : begin + n_before + len(run)] for side in (tree.lo, tree.hi))
            pages = run.words, run.first, run.bytes_on_one_page
            i = 0
            while (
                i := read_bundles(
                    *pages, at_row, at_leaf, lo, hi, np.int64(MISSING), missing, i, codes, carried, starts
                )
            ) < len(run):
                # On several pages, or damaged, which is said in words here.
                self._read_one(begin + n_before + i, run.bundle(i), codes[at_row[i] :], carried[at_row[i] :])
                starts[at_leaf[i] : at_leaf[i + 1] + 1] = at_row[i] + run.bundle(i).starts
                i += 1
            runs.append(run)
            n_before += len(run)
        return LeafRows(codes, carried, starts, runs)

    def _read_one(self, number: int, bundle: Bundle, codes: NDArray[Any], carried: NDArray[np.int64]) -> None:
        """The first of these rows are those of a bundle."""
        self.read_codes(number, bundle, codes[: bundle.n_rows])
        if self.n_carried:
            get_columns(bundle.words, len(self.space), self.n_carried, np.int64(MISSING), carried[: bundle.n_rows])

    def read_codes(self, number: int, bundle: Bundle, out: NDArray[Any]) -> None:
        """The codes of a bundle's quasi-identifiers, checked against its box."""
        missing = missing_code(out.dtype)
        get_columns(bundle.words, 0, len(self.space), np.int64(missing), out)
        ends = np.empty((2, len(self.space)), np.int64)
        ends_of_columns(out, ends[0], ends[1])
        ends[ends == missing] = MISSING
        if (ends[0] != self.tree.lo[number]).any() or (ends[1] != self.tree.hi[number]).any():
            raise CorruptionError(
                f"Rows of bundle {number} do not fill the box that the tree has for them; the index is damaged."
                " Restore it from a copy."
            )

    def cuts(self, begin: int, bundles: list[Bundle]) -> Cuts:
        """The cuts between all leaves of neighbouring bundles, of which `begin` is the first."""
        upper = self.tree.cuts[begin : begin + len(bundles) - 1]
        return joined([_from_zero(checked(bundle.cuts, self.space)) for bundle in bundles], upper)

    def _runs(self, numbers: NDArray[np.int64]) -> Iterator[_Run]:
        """Read bundles, many with one call."""
        tree, most = self.tree, max(_RUN_BYTES // self.pages.page_bytes, 1)
        sums, begin = np.cumsum(tree.n_pages[numbers]), 0
        while begin < len(numbers):
            before = int(sums[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(sums, before + most, "right")), begin + 1)
            here = numbers[begin:end]
            n_pages = tree.n_pages[here]
            first = np.cumsum(n_pages) - n_pages
            ids = (np.repeat(tree.page[here] - first, n_pages) + np.arange(int(n_pages.sum()))).astype(np.uint64)
            pages = np.empty((len(ids), self.pages.page_bytes), np.uint8)
            n_bytes = self.pages.read_run(ids, pages)
            yield _Run(payloads(pages), n_bytes, first, n_pages, tree.n_rows[here], tree.n_leaves[here], self.n_columns)
            begin = end


def _from_zero(cuts: Cuts) -> Cuts:
    """Depths in a bundle count from the root of the bucket that it came from; here they count from its own."""
    return cuts.deeper_by(-int(cuts.depth.min())) if len(cuts) else cuts
