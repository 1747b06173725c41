"""Sorting many numbers by some of their bits: a few passes of counting, whatever the numbers are."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel

_DIGIT = 11  # bits of a pass: its counts stay in the nearest cache


@kernel
def sort_by_bits(keys, scratch, low, high):
    """Sort keys stably by their bits low .. high-1; the array that has them then, `keys` or `scratch`."""
    n = keys.shape[0]
    n_passes = max((high - low + _DIGIT - 1) // _DIGIT, 1)
    width = (high - low + n_passes - 1) // n_passes
    count = np.empty((1 << width) + 1, np.int64)
    source, target = keys, scratch
    for turn in range(n_passes):
        shift = np.uint64(low + turn * width)
        mask = np.uint64((1 << min(width, high - low - turn * width)) - 1)
        count[:] = 0
        for i in range(n):
            count[((source[i] >> shift) & mask) + np.uint64(1)] += 1
        for digit in range(1 << width):
            count[digit + 1] += count[digit]
        for i in range(n):
            digit = (source[i] >> shift) & mask
            target[count[digit]] = source[i]
            count[digit] += 1
        source, target = target, source
    return source
