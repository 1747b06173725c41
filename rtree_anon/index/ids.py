"""Whether numbers are all different, in bounded memory: one bit for each where they are dense, else several passes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BITMAP_BYTES = 1 << 26
_SORTED_IDS = 1 << 22  # collected at a time, where a bitmap would be too large


class IdSet:
    """Ids from 0 to `limit` - 1. Every pass hands in all of them; how many passes it takes depends.

    With a bitmap one pass is enough. Otherwise each pass looks at those ids whose remainder is the pass's number.
    """

    def __init__(self, n_ids: int, limit: int) -> None:
        self._limit = limit
        self._bitmap = np.zeros(limit // 8 + 1, np.uint8) if limit // 8 < _BITMAP_BYTES else None
        self._n_passes = 1 if self._bitmap is not None else max(-(-n_ids // _SORTED_IDS), 1)
        self._pass = 0
        self._collected: list[NDArray[np.int64]] = []
        self.outside: int | None = None  # an id that is out of range
        self.twice: int | None = None  # an id that came twice

    @property
    def is_first_pass(self) -> bool:
        return self._pass == 0

    @property
    def complete(self) -> bool:
        return self._pass >= self._n_passes

    def add(self, ids: NDArray[np.int64]) -> None:
        """Some of the ids."""
        if not len(ids):
            return
        least, most = int(ids.min()), int(ids.max())
        if least < 0 or most >= self._limit:
            self.outside = least if least < 0 else most
            return
        if self._bitmap is None:
            self._collected.append(ids[ids % self._n_passes == self._pass])
            return
        byte, bit = ids >> 3, np.left_shift(np.uint8(1), (ids & 7).astype(np.uint8), dtype=np.uint8)
        known = (self._bitmap[byte] & bit) != 0
        if known.any():
            self.twice = int(ids[np.argmax(known)])
        np.bitwise_or.at(self._bitmap, byte, bit)
        self._look_for_pairs(ids)

    def end_pass(self) -> None:
        """All ids were handed in once more."""
        self._pass += 1
        if self._bitmap is None:
            self._look_for_pairs(np.concatenate([np.empty(0, np.int64), *self._collected]))
            self._collected = []

    def _look_for_pairs(self, ids: NDArray[np.int64]) -> None:
        ordered = np.sort(ids)
        pairs = ordered[1:] == ordered[:-1]
        if pairs.any():
            self.twice = int(ordered[np.argmax(pairs)])
