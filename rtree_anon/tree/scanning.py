"""The optimal leaf scan of a long order from both ends at once, by two threads.

The best division of the leaves before the middle is found forwards and that of the leaves behind it backwards; where
the two meet, every group that may lie across the middle is tried (kernels/leafscan.py). Whether an order is long
depends on its rows and on k alone, so that the groups are the same however many threads there are.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.leafscan import best_divisions, blocks_of, join_divisions, optimal_scan

_LONG_ROWS = 1 << 18  # with fewer the second thread is not worth its while; a segment of an index has its own already
_LONG_GROUPS = 16  # at least so many groups


def optimal_ends(
    order: NDArray[np.int64], sizes: NDArray[np.int64], boxes: Any, gauge: Any, k: int, long_rows: int | None = None
) -> NDArray[np.int64]:
    """Where the groups of the best division end in the order; an order of `long_rows` is scanned from both ends."""
    about = sizes, boxes.lo, boxes.hi, boxes.mask, gauge, k
    long_rows = max(_LONG_ROWS, _LONG_GROUPS * k) if long_rows is None else long_rows
    if int(sizes.sum()) < long_rows or int(sizes.min()) >= k:
        return np.asarray(optimal_scan(order, *about))
    block_end = blocks_of(order, sizes, k)
    middle = len(block_end) // 2
    if middle == 0:
        return np.asarray(optimal_scan(order, *about))
    half = int(block_end[middle - 1])
    backwards = order[half:][::-1].copy()
    end_backwards = (len(order) - block_end[middle - 1 : -1])[::-1].copy()
    with ThreadPoolExecutor(1) as pool:
        behind = pool.submit(best_divisions, backwards, *about, end_backwards)
        ahead = best_divisions(order[:half], *about, block_end[:middle])
        return np.asarray(join_divisions(order, *about, block_end, middle, ahead, behind.result()))
