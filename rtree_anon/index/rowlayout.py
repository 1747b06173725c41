"""The columns of a stored row and the bits that each of them takes while rows wait in buffers (kernels/rowwords.py).

A row is a vector of whole numbers: first the codes of the quasi-identifiers, then those of the carried columns, then,
where rows have them already, their ids. A column is described by the range of its codes; a missing value is one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import UsageError
from rtree_anon.kernels.rowwords import WordLayout
from rtree_anon.space import Space

_WORD_BITS = 64


@dataclass(frozen=True, eq=False)
class RowLayout:
    """Ranges of codes by column, and where the columns are in a row's words."""

    ranges: tuple[tuple[int, int], ...]
    words: WordLayout
    n_words: int

    @property
    def n_columns(self) -> int:
        return len(self.ranges)

    def empty(self, n_rows: int) -> NDArray[np.uint64]:
        """Room for packed rows."""
        return np.empty((n_rows, self.n_words), np.uint64)


def layout_of(ranges: Sequence[tuple[int, int]]) -> RowLayout:
    """Columns are put into the first word that has room for them, the widest first."""
    most = [max(hi - lo + 1, 0) for lo, hi in ranges]  # the largest stored number; 0 is a missing value
    bits = [number.bit_length() for number in most]
    if any(width > _WORD_BITS for width in bits):
        raise UsageError("A column's codes span more than 64 bits; it cannot be stored as one number.")
    n = len(ranges)
    word, shift = np.zeros(n, np.int64), np.zeros(n, np.uint64)
    used: list[int] = []
    for column in sorted(range(n), key=lambda c: -bits[c]):
        place = next((w for w, taken in enumerate(used) if taken + bits[column] <= _WORD_BITS), len(used))
        if place == len(used):
            used.append(0)
        word[column], shift[column] = place, min(used[place], _WORD_BITS - 1)
        used[place] += bits[column]
    below = np.array([lo - 1 for lo, _ in ranges], np.int64)
    return RowLayout(
        tuple((int(lo), int(hi)) for lo, hi in ranges),
        WordLayout(word, shift, np.array(most, np.uint64), below),
        max(len(used), 1),
    )


def quasi_ranges(space: Space) -> list[tuple[int, int]]:
    """The ranges of the quasi-identifiers' codes."""
    return [(axis.lo, axis.hi) if axis.lo <= axis.hi else (0, -1) for axis in space.axes]
