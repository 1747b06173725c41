"""How often the very same point occurs: what the KL divergence needs to know of the original table.

Equal points are always in one leaf, since every cut is a value cut. A leaf is small (or its rows are nearly all the
same), so its rows are compared with each other: quadratic in the number of *different* points of a leaf, not of its
rows.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel


@kernel
def log_multiplicities(rows, starts):
    """The sum, over all rows, of log(number of rows equal to it). The last column of `rows` is not compared."""
    d = rows.shape[1] - 1
    total = 0.0
    largest = 0
    for run in range(starts.shape[0] - 1):
        largest = max(largest, starts[run + 1] - starts[run])
    point = np.empty(largest, np.int64)
    count = np.empty(largest, np.int64)
    for run in range(starts.shape[0] - 1):
        n_points = 0
        for i in range(starts[run], starts[run + 1]):
            at = -1
            for p in range(n_points):
                same = True
                for a in range(d):
                    if rows[point[p], a] != rows[i, a]:
                        same = False
                        break
                if same:
                    at = p
                    break
            if at < 0:
                point[n_points] = i
                count[n_points] = 1
                n_points += 1
            else:
                count[at] += 1
        for p in range(n_points):
            total += count[p] * np.log(count[p])
    return total
