"""Sorting many numbers by some of their bits: a few passes of counting, whatever the numbers are."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel

_DIGIT = 11  # bits of a pass: its counts stay in the nearest cache
_FIRST_DIGIT = 8  # of a pass that moves numbers where they are: as many places at once as the processor keeps near


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


@kernel
def sort_in_place(keys, low, high):
    """Sort keys by their bits low .. high-1, in little more memory than they have; equal ones in any order.

    They are divided by their highest bits, each going straight to the place of one that goes on from there (the
    American flag of McIlroy, Bostic and McIlroy), then sorted part by part.
    """
    top = min(_FIRST_DIGIT, high - low)
    shift, mask = np.uint64(high - top), np.uint64((1 << top) - 1)
    n_parts = 1 << top
    begin = np.zeros(n_parts + 1, np.int64)
    for i in range(keys.shape[0]):
        begin[((keys[i] >> shift) & mask) + np.uint64(1)] += 1
    largest = begin.max()
    for part in range(n_parts):
        begin[part + 1] += begin[part]
    at = begin[:n_parts].copy()  # what is before is in its part
    for part in range(n_parts):
        while at[part] < begin[part + 1]:
            key = keys[at[part]]
            own = np.int64((key >> shift) & mask)
            while own != part:
                place = at[own]
                at[own] += 1
                key, keys[place] = keys[place], key
                own = np.int64((key >> shift) & mask)
            keys[at[part]] = key
            at[part] += 1
    scratch = np.empty(largest, keys.dtype)
    for part in range(n_parts):
        here = keys[begin[part] : begin[part + 1]]
        here[:] = sort_by_bits(here, scratch[: here.shape[0]], low, high - top)
