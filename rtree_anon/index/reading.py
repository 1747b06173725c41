"""Reading an index: bundles in leaf order, in runs of pages, checked against what the upper tree says of them.

Invariant: the codes that leave here lie inside the boxes of the upper tree, which lie inside the space; so whoever
decodes them meets no code that means nothing, whatever a damaged file holds.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.index.bundle import Bundle
from rtree_anon.index.cuts import Cuts, checked, joined
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.kernels.boxes import ends_of_columns
from rtree_anon.kernels.bundles import get_columns
from rtree_anon.space import Space, missing_code
from rtree_anon.storage.page import payloads
from rtree_anon.storage.protocol import PageReader, PageStore

_RUN_BYTES = 4 << 20
MISSING = missing_code(np.int64)


@dataclass(frozen=True, eq=False)
class LeafRows:
    """Rows of neighbouring bundles in leaf order."""

    codes: NDArray[Any]  # (rows, axes)
    carried: NDArray[np.int64]  # (rows, columns of codes)
    starts: NDArray[np.int64]  # leaf i has the rows starts[i]:starts[i+1]
    bundles: list[Bundle]

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
        most = max(_RUN_BYTES // self.pages.page_bytes, 1)
        sums, begin = np.cumsum(self.tree.n_pages[numbers]), 0
        while begin < len(numbers):
            before = int(sums[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(sums, before + most, "right")), begin + 1)
            yield from self._run(numbers[begin:end])
            begin = end

    def rows(self, begin: int, end: int, dtype: Any) -> LeafRows:
        """The rows of bundles begin .. end-1; codes of quasi-identifiers as `dtype`."""
        n_rows, d = int(self.tree.n_rows[begin:end].sum()), len(self.space)
        codes = np.empty((n_rows, d), dtype)
        carried = np.empty((n_rows, self.n_carried), np.int64)
        starts, bundles, at = [np.zeros(1, np.int64)], [], 0
        for number, bundle in enumerate(self.bundles(begin, end), begin):
            here = slice(at, at + bundle.n_rows)
            self.read_codes(number, bundle, codes[here])
            if self.n_carried:
                get_columns(bundle.words, d, self.n_carried, np.int64(MISSING), carried[here])
            starts.append(bundle.starts[1:] + at)
            bundles.append(bundle)
            at += bundle.n_rows
        return LeafRows(codes, carried, np.concatenate(starts), bundles)

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

    def _run(self, numbers: NDArray[np.int64]) -> Iterator[Bundle]:
        """Read bundles with one call."""
        tree = self.tree
        n_pages = tree.n_pages[numbers]
        first = np.cumsum(n_pages) - n_pages
        ids = (np.repeat(tree.page[numbers] - first, n_pages) + np.arange(int(n_pages.sum()))).astype(np.uint64)
        run = np.empty((len(ids), self.pages.page_bytes), np.uint8)
        lengths = self.pages.read_run(ids, run)
        contents = payloads(run)
        for number, at, n in zip(numbers.tolist(), first.tolist(), n_pages.tolist(), strict=True):
            if n == 1:
                content = contents[at, : int(lengths[at])]
            else:
                content = np.concatenate([contents[at + i, : int(lengths[at + i])] for i in range(n)])
            yield Bundle(content, self.n_columns, int(tree.n_rows[number]), int(tree.n_leaves[number]))


def _from_zero(cuts: Cuts) -> Cuts:
    """Depths in a bundle count from the root of the bucket that it came from; here they count from its own."""
    return cuts.deeper_by(-int(cuts.depth.min())) if len(cuts) else cuts
