"""How often the very same point occurs: what the KL divergence needs to know of the original table.

Equal points are always in one leaf, since every cut is a value cut. Most leaves are small, and their rows are compared
with each other. A leaf can be large, though, where a privacy model or equal values allow no cut; its points are counted
in a hash table, so that the time is linear in the rows.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel

_FEW_ROWS = 64


@kernel
def log_multiplicities(rows, starts):
    """The sum, over all rows, of log(number of rows equal to it). The last column of `rows` is not compared."""
    total = 0.0
    largest = 0
    for run in range(starts.shape[0] - 1):
        largest = max(largest, starts[run + 1] - starts[run])
    point = np.empty(largest, np.int64)
    count = np.empty(largest, np.int64)
    n_slots = 2
    while n_slots < 2 * largest:
        n_slots *= 2
    slots = np.empty(n_slots if largest > _FEW_ROWS else 0, np.int64)  # a number of `point`, or -1
    for run in range(starts.shape[0] - 1):
        n_points = 0
        n_used = 2
        hashed = starts[run + 1] - starts[run] > _FEW_ROWS
        if hashed:
            while n_used < 2 * (starts[run + 1] - starts[run]):
                n_used *= 2
            slots[:n_used] = -1
        for i in range(starts[run], starts[run + 1]):
            slot = 0
            at = 0
            if hashed:
                slot = _hash(rows, i) & (n_used - 1)
                while slots[slot] >= 0 and not _same_point(rows, point[slots[slot]], i):
                    slot = (slot + 1) & (n_used - 1)
                at = slots[slot] if slots[slot] >= 0 else n_points
            else:
                while at < n_points and not _same_point(rows, point[at], i):
                    at += 1
            if at == n_points:
                point[at] = i
                count[at] = 0
                n_points += 1
                if hashed:
                    slots[slot] = at
            count[at] += 1
        for p in range(n_points):
            total += count[p] * np.log(count[p])
    return total


@kernel
def _same_point(rows, i, j):
    a = 0
    while a < rows.shape[1] - 1 and rows[i, a] == rows[j, a]:
        a += 1
    return a == rows.shape[1] - 1


@kernel
def _hash(rows, i):
    state = np.uint64(0)
    for a in range(rows.shape[1] - 1):
        state = (state ^ np.uint64(np.uint32(rows[i, a]))) * np.uint64(0x9E3779B97F4A7C15)
        state ^= state >> np.uint64(32)
    return np.int64(state >> np.uint64(1))
