"""Columns that repeat a value for all rows of a group, as Parquet stores them: a dictionary, and runs of its entries.

The time is that of the groups, whatever the number of their rows.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel

_HASH = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: multiplicative hashing (Knuth, volume 3, section 6.4)
MOST_RUN_BYTES = 10 + 4  # of one run: the longest varint, and four bytes of a value


@kernel
def number_values(values, numbers, distinct):
    """The distinct values in the order of their first appearance; numbers[i] is the place of values[i] among them.

    Values are whole numbers (the bits of floats). Returns how many distinct ones there are. Exact: hashes only say
    where to look.
    """
    n = values.shape[0]
    bits = 4
    while (1 << bits) < 2 * n:
        bits += 1
    shift = np.uint64(64 - bits)
    last_slot = np.uint64((1 << bits) - 1)
    slots = np.full(1 << bits, np.int32(-1), np.int32)
    n_distinct = 0
    for i in range(n):
        value = values[i]
        if i > 0 and value == values[i - 1]:
            numbers[i] = numbers[i - 1]
            continue
        slot = (np.uint64(value) * _HASH) >> shift
        while slots[slot] >= 0 and distinct[slots[slot]] != value:
            slot = (slot + np.uint64(1)) & last_slot
        if slots[slot] < 0:
            slots[slot] = n_distinct
            distinct[n_distinct] = value
            n_distinct += 1
        numbers[i] = slots[slot]
    return n_distinct


@kernel
def write_runs(numbers, lengths, n_bytes, out):
    """Runs of Parquet's RLE encoding: lengths[i] times numbers[i], of `n_bytes` bytes each; the number of bytes used.

    Neighbours with the same number become one run. A run is twice its length as a varint, then the number. `out` has
    room for MOST_RUN_BYTES for each.
    """
    n = numbers.shape[0]
    at = 0
    i = 0
    while i < n:
        number = numbers[i]
        length = np.uint64(lengths[i])
        i += 1
        while i < n and numbers[i] == number:
            length += np.uint64(lengths[i])
            i += 1
        head = length << np.uint64(1)
        while head >= np.uint64(128):
            out[at] = np.uint8(head & np.uint64(127)) | np.uint8(128)
            head >>= np.uint64(7)
            at += 1
        out[at] = np.uint8(head)
        at += 1
        for b in range(n_bytes):
            out[at] = np.uint8((number >> (8 * b)) & 255)
            at += 1
    return at
