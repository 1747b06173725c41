"""Reading bundles: a page of neighbouring leaves, from words to rows (the byte map is in kernels/bundles.py).

Invariant: nothing of a bundle is believed before it is checked against the length of its content, so a damaged or
hostile page is a CorruptionError and never a crash.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.index.cuts import Cuts
from rtree_anon.kernels.bundles import CONSECUTIVE, HEADER_WORDS, MISSING_IS_ZERO, TREE_VECTORS, get_columns, get_vector
from rtree_anon.space import missing_code

_MISSING = np.int64(missing_code(np.int64))


class Bundle:
    """The content of one bundle."""

    def __init__(self, content: NDArray[np.uint8], n_columns: int, n_rows: int, n_leaves: int) -> None:
        """`content` as it is stored; the counts are what the upper tree says."""
        self.words: NDArray[np.uint64] = np.frombuffer(content, np.uint64, len(content) // 8)
        self.n_columns, self.n_rows, self.n_leaves = n_columns, n_rows, n_leaves
        self._check(len(content))

    def columns(self, first: int, end: int, dtype: Any) -> NDArray[Any]:
        """Columns first .. end-1 of all rows, row by row; missing values have the smallest number of the type."""
        out = np.empty((self.n_rows, end - first), dtype)
        get_columns(self.words, first, end - first, np.int64(missing_code(dtype)), out)
        return out

    @property
    def ids(self) -> NDArray[np.int64]:
        """The rows' ids."""
        out = np.empty(self.n_rows, np.int64)
        get_vector(self.words, self.n_columns - 1, self.n_rows, _MISSING, out)
        return out

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Leaf i has the rows starts[i]:starts[i+1]."""
        starts = np.zeros(self.n_leaves + 1, np.int64)
        get_vector(self.words, self.n_columns, self.n_leaves, _MISSING, starts[1:])
        if self.n_leaves and int(starts[1:].min()) < 1:
            raise CorruptionError("A bundle has a leaf without rows; the index is damaged.")
        np.cumsum(starts, out=starts)
        if int(starts[-1]) != self.n_rows:
            raise CorruptionError("The leaves of a bundle do not have its rows; the index is damaged.")
        return starts

    @property
    def cuts(self) -> Cuts:
        """The cuts between its leaves."""
        vectors = np.empty((TREE_VECTORS - 1, self.n_leaves - 1), np.int64)
        for number, vector in enumerate(vectors):
            get_vector(self.words, self.n_columns + 1 + number, self.n_leaves - 1, _MISSING, vector)
        return Cuts.from_vectors(*vectors)

    def _check(self, n_bytes: int) -> None:
        n_vectors = self.n_columns + TREE_VECTORS
        n_directory = HEADER_WORDS + 2 * n_vectors
        if n_bytes % 8 or len(self.words) < n_directory:
            raise CorruptionError("A bundle is too short; the index is damaged.")
        counts, n_columns = int(self.words[0]), int(self.words[1])
        found = (counts & 0xFFFFFFFF, counts >> 32, n_columns)
        if found != (self.n_rows, self.n_leaves, self.n_columns) or not 1 <= self.n_leaves <= self.n_rows:
            raise CorruptionError(
                f"A bundle has {found[0]} rows in {found[1]} leaves and {found[2]} columns where the tree says "
                f"{self.n_rows}, {self.n_leaves} and {self.n_columns}; the index is damaged."
            )
        about = self.words[HEADER_WORDS + 1 : n_directory : 2]
        bits, flags = (about & np.uint64(0xFF)).astype(np.int64), (about >> np.uint64(8)).astype(np.int64)
        lengths = np.full(n_vectors, self.n_leaves - 1, np.int64)
        lengths[: self.n_columns], lengths[self.n_columns] = self.n_rows, self.n_leaves
        needed = n_directory + int(((lengths * bits + 63) >> 6).sum())
        sane = bits.max() <= 64 and flags.max() <= max(MISSING_IS_ZERO, CONSECUTIVE)  # none, or one of them
        if not sane or needed != len(self.words):
            raise CorruptionError("The vectors of a bundle do not fit its length; the index is damaged.")
