"""Which physical pages may be written: those that no version that must survive can reach. Computed, never stored.

    free = [0, n_pages) − reachable(newest commit) − reachable(the other slot's) − reachable(every pinned commit)
One pass over at most 16 bytes per page when a transaction begins (about 1 ms for a million pages); there is no
bookkeeping that could drift from the truth. The lowest pages are taken first, so that the file stays as short as it
can.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rtree_anon.storage.page import Ids


class FreeSpace:
    """The free pages of one transaction. Pages behind the end of the file are always free."""

    def __init__(self, n_pages: int, in_use: Iterable[Ids], *, reuse: bool = True) -> None:
        """`in_use`: reachable pages per kept version. Without `reuse` only pages behind the end are given out."""
        kept = [pages for pages in in_use if len(pages)]
        n_pages = max([n_pages, *(int(pages.max()) + 1 for pages in kept)])
        is_free = np.full(n_pages, reuse, np.bool_)
        for pages in kept:
            is_free[pages] = False
        self._free = np.flatnonzero(is_free).astype(np.uint64)
        self._n_taken = 0
        self._returned: list[int] = []
        self.n_pages = n_pages  # grows as pages behind the end are taken

    def take(self, n_pages: int) -> Ids:
        """`n_pages` pages that may be written: pages given back first, then the lowest, then behind the end."""
        if not self._returned and self._n_taken == len(self._free):
            first, self.n_pages = self.n_pages, self.n_pages + n_pages
            return np.arange(first, self.n_pages, dtype=np.uint64)
        n_returned = min(n_pages, len(self._returned))
        back = [self._returned.pop() for _ in range(n_returned)]
        low = self._free[self._n_taken : self._n_taken + n_pages - n_returned]
        self._n_taken += len(low)
        n_behind = n_pages - n_returned - len(low)
        behind = np.arange(self.n_pages, self.n_pages + n_behind, dtype=np.uint64)
        self.n_pages += n_behind
        return np.sort(np.concatenate([np.array(back, np.uint64), low, behind]))

    def give_back(self, pages: Ids) -> None:
        """Pages that this transaction took and no longer needs."""
        self._returned.extend(pages.tolist())
