"""Interning: each distinct value (a run of bytes) gets the next whole number when it is first seen, by open addressing.

    slots[hash & mask]   0 where free, else number + 1; linear probing
    hashes[number]       the whole hash, so that most unequal values are told apart without looking at their bytes
    ends[number + 1]     where the value's bytes end in the arena; they begin at ends[number]

Numbers depend only on the values and their order, not on the hash: its key is random, so that nobody can prepare values
that all collide.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@kernel
def hash_bytes(data, begin, end, key):
    """A 64-bit hash of data[begin:end]."""
    state = key ^ (np.uint64(end - begin) * _MULTIPLIER)
    at = begin
    while at + 8 <= end:
        word = np.uint64(0)
        for i in range(8):
            word |= np.uint64(data[at + i]) << np.uint64(8 * i)
        state = _mixed(state ^ word)
        at += 8
    word = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        word |= np.uint64(data[at]) << shift
        shift += np.uint64(8)
        at += 1
    return _mixed(state ^ word ^ key)


@kernel
def _mixed(state):
    state = (state ^ (state >> np.uint64(32))) * _MULTIPLIER
    state = (state ^ (state >> np.uint64(29))) * np.uint64(0xD6E8FEB86659FD93)
    return state ^ (state >> np.uint64(32))


@kernel
def hash_values(offsets, data, key, hashes):
    """The hashes of the values data[offsets[i]:offsets[i+1]]."""
    for row in range(hashes.shape[0]):
        hashes[row] = hash_bytes(data, np.int64(offsets[row]), np.int64(offsets[row + 1]), key)


@kernel
def intern_values(offsets, data, is_missing, first, key, n_known, slots, hashes, ends, arena, missing, numbers):
    """Number the values data[offsets[i]:offsets[i+1]] from row `first` on; `is_missing` is empty where none is.

    Returns (the first row that was not numbered, how many values are known): a row is left where a new value finds no
    room, that is where the slots are half full, or `hashes` or the arena are full.
    """
    mask = np.uint64(slots.shape[0] - 1)
    most = min(slots.shape[0] // 2, hashes.shape[0])
    any_missing = is_missing.shape[0] > 0
    n_rows = numbers.shape[0]
    for row in range(first, n_rows):
        if any_missing and is_missing[row]:
            numbers[row] = missing
            continue
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        code = hash_bytes(data, begin, end, key)
        slot = code & mask
        found = np.int64(-1)
        while slots[slot] != 0:
            number = np.int64(slots[slot]) - 1
            if hashes[number] == code and _equal(data, begin, end, arena, ends[number], ends[number + 1]):
                found = number
                break
            slot = (slot + np.uint64(1)) & mask
        if found < 0:
            used = ends[n_known]
            if n_known >= most or used + (end - begin) > arena.shape[0]:
                return row, n_known
            for i in range(end - begin):
                arena[used + i] = data[begin + i]
            ends[n_known + 1] = used + (end - begin)
            hashes[n_known] = code
            slots[slot] = n_known + 1
            found = n_known
            n_known += 1
        numbers[row] = found
    return n_rows, n_known


@kernel
def _equal(data, begin, end, arena, known_begin, known_end):
    if end - begin != known_end - known_begin:
        return False
    for i in range(end - begin):  # noqa: SIM110 - compiled
        if data[begin + i] != arena[known_begin + i]:
            return False
    return True


@kernel
def fill_slots(hashes, n_known, slots):
    """Enter the first values into slots that are all free."""
    mask = np.uint64(slots.shape[0] - 1)
    for number in range(n_known):
        slot = hashes[number] & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number + 1
