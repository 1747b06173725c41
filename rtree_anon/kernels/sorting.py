"""Sorting a few numbers without branches, and more of them by merging: no allocation, so that lean kernels can call it.

The place of a key is the number of smaller ones. That takes n comparisons per key, but no guess of the processor can
be wrong, and the compiler makes vectors of the loop: up to about a hundred keys nothing is faster (measured against
insertion sort and numba's quicksort). Keys must be different.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import lean_kernel

_COUNTED = 64


@lean_kernel
def sort_distinct(keys, m, out):
    """out[:m] becomes keys[:m] in ascending order; all keys are different. `keys` is used as scratch space."""
    if m <= _COUNTED:
        _sort_by_counting(keys, m, out)
        return
    # Runs of _COUNTED keys, merged two by two between the two arrays; the number of rounds says where to begin.
    n_rounds = 0
    run = _COUNTED
    while run < m:
        run *= 2
        n_rounds += 1
    for begin in range(0, m, _COUNTED):
        _sort_by_counting(keys[begin:], min(np.int64(_COUNTED), m - begin), out[begin:])
    if n_rounds % 2 == 1:
        for i in range(m):
            keys[i] = out[i]
    run = _COUNTED
    for r in range(n_rounds):
        if (n_rounds - r) % 2 == 1:
            _merge_runs(keys, m, run, out)
        else:
            _merge_runs(out, m, run, keys)
        run *= 2


@lean_kernel
def _sort_by_counting(keys, n, out):
    # Loops from 0, so that numba knows no index to be negative: otherwise there is no vector in it.
    for i in range(n):
        key = keys[i]
        place = np.uint64(0)
        for j in range(n):
            place += np.uint64(keys[j] < key)
        out[place] = key


@lean_kernel
def _merge_runs(source, m, run, target):
    """Merge neighbouring sorted runs of `source` to runs of twice the length in `target`."""
    for begin in range(0, m, 2 * run):
        i = begin
        j = min(begin + run, m)
        end_i = j
        end_j = min(begin + 2 * run, m)
        for at in range(begin, end_j):
            first = j >= end_j or (i < end_i and source[i] < source[j])
            if first:
                target[at] = source[i]
                i += 1
            else:
                target[at] = source[j]
                j += 1
