"""Changes that the journal has and the pages have not yet: rows that wait in memory, and ids of rows that are to go.

Rows are kept as codes, in the order in which they came. A row that is deleted while it waits is only marked. To find
rows by id, the ids are sorted from time to time; the few that came since are looked at one by one, in one go.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_UNSORTED_ROWS = 4096
_UNSORTED_SHARE = 8  # of the sorted ones

Ids = NDArray[np.int64]
Codes = NDArray[np.int64]


class Pending:
    """What waits. `codes` are [column, row], the last column being the id."""

    def __init__(self) -> None:
        self._codes = np.empty((1, 0), np.int64)
        self._alive = np.empty(0, np.bool_)
        self._n = self._n_dead = 0
        self._order = np.empty(0, np.int64)  # of the first rows, by id
        self._gone: set[int] = set()  # rows of the tree that are to go

    @property
    def n_rows(self) -> int:
        """Rows that wait."""
        return self._n - self._n_dead

    @property
    def n_gone(self) -> int:
        """Rows of the tree that are to go."""
        return len(self._gone)

    @property
    def n_bytes(self) -> int:
        """About how much memory that takes."""
        return self._n * (self._codes.shape[0] * 8 + 9) + 80 * len(self._gone)

    def __bool__(self) -> bool:
        return bool(self._n or self._gone)

    def add(self, codes: Codes) -> None:
        """More rows; none of their ids may wait already."""
        n_columns, n = codes.shape
        if not self._n:
            self._codes = np.empty((n_columns, len(self._alive)), np.int64)
        if self._n + n > self._codes.shape[1]:
            room = max(self._n + n, 2 * self._codes.shape[1], 1024) - self._codes.shape[1]
            self._codes = np.concatenate((self._codes, np.empty((self._codes.shape[0], room), np.int64)), axis=1)
            self._alive = np.concatenate((self._alive, np.empty(room, np.bool_)))
        self._codes[:, self._n : self._n + n] = codes
        self._alive[self._n : self._n + n] = True
        self._n += n

    def find(self, ids: Ids) -> Ids:
        """Where rows with these ids wait; -1 for ids that do not."""
        self._sort()
        place = np.full(len(ids), -1)
        own = self._codes[-1]
        if len(self._order):
            at = np.minimum(np.searchsorted(own[self._order], ids), len(self._order) - 1)
            candidate = self._order[at]
            place = np.where((own[candidate] == ids) & self._alive[candidate], candidate, -1)
        rest = np.arange(len(self._order), self._n)
        rest = rest[self._alive[rest]]
        if len(rest):
            rest = rest[np.argsort(own[rest], kind="stable")]
            at = np.minimum(np.searchsorted(own[rest], ids), len(rest) - 1)
            place = np.where(own[rest[at]] == ids, rest[at], place)
        return place

    def drop(self, places: Ids) -> None:
        """Rows that wait are not to come after all."""
        self._alive[places] = False
        self._n_dead += len(places)

    def is_gone(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of these rows of the tree are to go."""
        if not self._gone:
            return np.zeros(len(ids), np.bool_)
        gone = self._gone
        return np.fromiter((row in gone for row in ids.tolist()), np.bool_, len(ids))

    def remove(self, ids: Ids) -> None:
        """Rows of the tree are to go."""
        self._gone.update(ids.tolist())

    def rows(self) -> Codes:
        """The rows that wait, in the order in which they came."""
        if not self._n_dead:
            return self._codes[:, : self._n]
        return self._codes[:, : self._n][:, self._alive[: self._n]]

    def gone(self) -> Ids:
        """The rows of the tree that are to go, ascending."""
        return np.array(sorted(self._gone), np.int64)

    def _sort(self) -> None:
        n_new = self._n - len(self._order)
        if n_new > max(_UNSORTED_ROWS, len(self._order) // _UNSORTED_SHARE):
            living = np.flatnonzero(self._alive[: self._n])
            # Rows that are dead are left out: an id can wait again after it was dropped.
            self._order = living[np.argsort(self._codes[-1, living], kind="stable")]
            self._compact()

    def _compact(self) -> None:
        """Let dead rows go, so that sorted rows are the first ones."""
        living = np.flatnonzero(self._alive[: self._n])
        number = np.cumsum(self._alive[: self._n]) - 1
        self._codes[:, : len(living)] = self._codes[:, living]
        self._alive[: len(living)] = True
        self._order = number[self._order]
        self._n, self._n_dead = len(living), 0
