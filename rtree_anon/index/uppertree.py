"""The upper tree: the bundles in leaf order with their boxes and counts, and the cuts between them.

It lives in memory while an index is open and is written as one blob with every commit: at 100 million rows a few MB.
Regions of bundles are disjoint and cover the whole space by construction (they are what the cuts leave); boxes are
tight around the rows.

    blob:  bundles, axes, masks (u64 each) ─► the arrays of `_ARRAYS`, one after the other, 8 bytes per entry
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.index.bucket import Bundles
from rtree_anon.index.cuts import Cuts, joined

_HEADER_WORDS = 3
_MOST_AXES = 2**15 - 1
_MOST_NAMES = 2**32


@dataclass(frozen=True, eq=False)
class UpperTree:
    """Arrays by bundle, in leaf order, and the cuts between neighbours."""

    page: NDArray[np.int64]  # the first one; a bundle that is renewed gets new pages
    name: NDArray[np.int64]  # stays when a bundle is renewed: the directory knows bundles by it
    n_pages: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    n_leaves: NDArray[np.int64]
    lo: NDArray[np.int64]  # (bundles, axes)
    hi: NDArray[np.int64]
    mask: NDArray[np.uint64]  # (bundles, axes with at most 63 categories)
    cuts: Cuts

    def __len__(self) -> int:
        return len(self.page)

    @property
    def n_bytes(self) -> int:
        """How much memory it takes."""
        own = [getattr(self, field.name) for field in fields(self) if field.name != "cuts"]
        return sum(array.nbytes for array in (*own, *self.cuts.arrays))

    @classmethod
    def empty(cls, n_axes: int, n_masks: int) -> UpperTree:
        """The tree of an index without rows."""
        none, box = np.empty(0, np.int64), np.empty((0, n_axes), np.int64)
        return cls(none, none, none, none, none, box, box, np.empty((0, n_masks), np.uint64), Cuts.none())

    @classmethod
    def over(cls, parts: Sequence[Bundles], first_pages: Sequence[int], between: Cuts) -> UpperTree:
        """The tree over the bundles of buckets: bucket i was written from page first_pages[i] on."""
        pages = [first + np.cumsum(part.n_pages) - part.n_pages for part, first in zip(parts, first_pages, strict=True)]
        names = ("n_pages", "n_rows", "n_leaves", "lo", "hi", "mask")
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        page = np.concatenate(pages)
        cuts = joined([part.cuts for part in parts], between)
        return cls(page=page, name=np.arange(len(page)), **arrays, cuts=cuts)

    def only(self, bundles: NDArray[np.int64], cuts: Cuts) -> UpperTree:
        """Some of the bundles, with the cuts between them."""
        arrays = {field.name: getattr(self, field.name)[bundles] for field in fields(self)[:-1]}
        return UpperTree(**arrays, cuts=cuts)

    def to_bytes(self) -> bytes:
        """The blob."""
        cuts = (self.cuts.depth, self.cuts.looks_at, self.cuts.threshold, self.cuts.left_set)
        arrays = [getattr(self, field.name) for field in fields(self)[:-1]] + list(cuts)
        header = np.array([len(self), self.lo.shape[1], self.mask.shape[1]], np.uint64)
        return b"".join([header.tobytes()] + [np.ascontiguousarray(a).astype(_wide(a)).tobytes() for a in arrays])

    @classmethod
    def from_bytes(cls, blob: bytes) -> UpperTree:
        """The tree that `to_bytes` wrote; CorruptionError for anything else."""
        words = np.frombuffer(blob, np.int64, len(blob) // 8)
        if len(blob) % 8 or len(words) < _HEADER_WORDS:
            raise _damaged("its length is impossible")
        n, d, m = (int(word) for word in words[:_HEADER_WORDS])
        n_cuts = max(n - 1, 0)
        lengths = [n, n, n, n, n, n * d, n * d, n * m, *[n_cuts] * 4]
        if min(n, d, m) < 0 or max(d, m) > _MOST_AXES or sum(lengths) + _HEADER_WORDS != len(words):
            raise _damaged("its length does not fit its counts")
        ends = np.cumsum(lengths) + _HEADER_WORDS
        parts = [words[end - length : end] for end, length in zip(ends.tolist(), lengths, strict=True)]
        page, name, n_pages, n_rows, n_leaves, lo, hi, mask, depth, looks_at, threshold, left_set = parts
        tree = cls(
            page,
            name,
            n_pages,
            n_rows,
            n_leaves,
            lo.reshape(n, d),
            hi.reshape(n, d),
            mask.view(np.uint64).reshape(n, m),
            Cuts.from_vectors(depth, looks_at, threshold, left_set),
        )
        tree._check(d)
        return tree

    def _check(self, n_axes: int) -> None:
        counts = (self.page, self.n_pages - 1, self.n_leaves - 1, self.n_rows - self.n_leaves)
        if len(self) and min(int(count.min()) for count in counts) < 0:
            raise _damaged("a count is impossible")
        if len(np.unique(self.name)) != len(self) or (len(self) and not 0 <= int(self.name.max()) < _MOST_NAMES):
            raise _damaged("two bundles have one name")
        if len(self.cuts) and not (
            0 <= int(self.cuts.depth.min()) <= int(self.cuts.depth.max()) < 2**20
            and 0 <= int(self.cuts.axis.min()) <= int(self.cuts.axis.max()) < n_axes
        ):
            raise _damaged("a cut is impossible")


def _wide(array: NDArray[np.generic]) -> type[np.uint64] | type[np.int64]:
    return np.uint64 if array.dtype == np.uint64 else np.int64


def _damaged(what: str) -> CorruptionError:
    return CorruptionError(f"The tree of the index is damaged: {what}. A copy of the index repairs it.")
