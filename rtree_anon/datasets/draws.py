"""Random draws for the datasets: whole columns at a time, the same on every platform and with every numpy.

numpy promises that the raw words of a bit generator never change, but not what its distributions make of them; so only
raw words are taken from it, and they are turned into numbers here with whole-number arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Draws:
    """A stream of random columns, each of `n_rows` values."""

    def __init__(self, seed: np.random.SeedSequence, n_rows: int) -> None:
        self.n_rows = n_rows
        self._bits = np.random.SFC64(seed)

    def words(self) -> NDArray[np.uint32]:
        """Uniform 32-bit words."""
        raw = np.asarray(self._bits.random_raw((self.n_rows + 1) // 2), dtype="<u8")
        return raw.view(np.uint32)[: self.n_rows]

    def integers(self, lo: ArrayLike, hi: ArrayLike) -> NDArray[np.int32]:
        """Uniform whole numbers from lo to hi, both included; lo and hi are numbers or columns."""
        # word * range / 2**32: the bias is at most range / 2**32, which no table of this size can show
        first = np.asarray(lo, dtype=np.int64)
        n_values = (np.asarray(hi, dtype=np.int64) - first + 1).astype(np.uint64)
        steps = (self.words().astype(np.uint64) * n_values) >> np.uint64(32)
        return (steps.astype(np.int64) + first).astype(np.int32)

    def chance(self, probability: ArrayLike) -> NDArray[np.bool_]:
        """True with the given probability (a number or a column)."""
        limit: NDArray[np.float64] = np.asarray(probability, dtype=np.float64) * 2.0**32
        return self.words() < limit

    def pick(self, table: NDArray[Any], row: NDArray[np.integer[Any]] | None = None) -> NDArray[Any]:
        """Entries of a table made by `share_table`, picked uniformly; of the given row of a table with several rows."""
        bits = int(table.shape[-1]).bit_length() - 1
        cells = self.words() >> np.uint32(32 - bits)
        picked: NDArray[Any] = table[cells] if row is None else table[row, cells]
        return picked

    def order(self) -> NDArray[np.int64]:
        """A random permutation of the row numbers."""
        return np.argsort(self.words(), kind="stable").astype(np.int64)


def share_table(weights: Sequence[float] | NDArray[np.float64], bits: int) -> NDArray[np.int32]:
    """The numbers 0 .. len(weights) - 1, each in as many of 2**bits cells as its weight's share of the whole.

    Picking a cell uniformly draws from the weighted distribution with one memory access.
    """
    cumulative = np.cumsum(np.asarray(weights, dtype=np.float64))
    edges = np.rint(cumulative / cumulative[-1] * (1 << bits)).astype(np.int64)
    return np.repeat(np.arange(edges.size, dtype=np.int32), np.diff(edges, prepend=0))
