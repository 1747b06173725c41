"""Counting groups of packed keys: the frequency sets of the lattice.

A key is one or more uint64 words that hold one bit field per attribute. Keys are given word by word, as a tuple of one
array per word: how many words there are is then part of the type, and the loops over them vanish when kernels are
compiled. `generalize` moves keys to other levels: fields are replaced by a table (the id of a node on one level to the
id of its ancestor on a higher one), kept or cleared. The kernels that count do so on the way, a cache full of keys at a
time, so that moved keys are never written out as a whole.

Two ways to count. Where few combinations are possible, each of them has a counter (`sum_dense`). Where many are, a hash
table that does not fit the processor's cache would make every key cost a trip to memory: so keys are first scattered by
hash into partitions of a few thousand, each of which is counted by itself (`sum_partitioned`). The
result depends on nothing but the input.

The caller guarantees that every field value is a valid index into its table, and that outputs are large enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.jit import kernel

Words = NDArray[np.uint64]
Keys = tuple[Words, ...]  # one array per word
Indices = NDArray[np.int64]
Slots = NDArray[np.int32]

CHUNK = 4096  # keys that are moved at a time: they stay in the nearest cache


class Fields(NamedTuple):
    """Fields of keys, by parallel arrays."""

    words: Indices
    shifts: Words
    masks: Words  # before shifting
    starts: Indices  # where the field's table starts


class Move(NamedTuple):
    """How to generalize keys: what to keep of each word, and the tables (shifted to their place) of other fields."""

    keep: Words
    fields: Fields
    tables: Words


@kernel
def generalize(keys: Keys, first: int, last: int, move: Move, moved: Keys) -> None:
    """Write the moved keys of the rows from `first` to `last` to the front of `moved`."""
    for word in range(len(keys)):
        source, target, keep = keys[word], moved[word], move.keep[word]
        for row in range(first, last):
            target[row - first] = source[row] & keep
    for field in range(move.fields.words.shape[0]):
        word = move.fields.words[field]
        shift, mask, start = move.fields.shifts[field], move.fields.masks[field], move.fields.starts[field]
        source, target = keys[word], moved[word]
        for row in range(first, last):
            target[row - first] |= move.tables[start + np.int64((source[row] >> shift) & mask)]


@kernel
def sum_dense(keys: Keys, counts: Indices, fields: Fields, places: Indices, totals: Indices) -> None:
    """Add the counts to `totals`, at the sum of what the tables `places` say of each field."""
    n_keys = counts.shape[0]
    index = np.empty(CHUNK, dtype=np.int64)
    for first in range(0, n_keys, CHUNK):
        size = min(n_keys - first, CHUNK)
        index[:size] = 0
        for field in range(fields.words.shape[0]):
            shift, mask, start = fields.shifts[field], fields.masks[field], fields.starts[field]
            source = keys[fields.words[field]]
            for row in range(size):
                index[row] += places[start + np.int64((source[first + row] >> shift) & mask)]
        for row in range(size):
            totals[index[row]] += counts[first + row]


@kernel
def sum_partitioned(
    keys: Keys, counts: Indices, move: Move, n_partition_bits: int, chunk: Keys, groups: Keys, sums: Indices
) -> int:
    """Group equal moved keys and sum their counts; returns the number of groups, which are written to the front.

    `groups` and `sums` have room for all keys, and are where they are scattered to; `chunk` has room for one chunk.
    """
    n_keys = counts.shape[0]
    ends = np.zeros((1 << n_partition_bits) + 1, dtype=np.int64)
    for first in range(0, n_keys, CHUNK):
        last = min(first + CHUNK, n_keys)
        generalize(keys, first, last, move, chunk)
        for row in range(last - first):
            ends[_partition(_hash(chunk, row), n_partition_bits) + 1] += 1
    for partition in range(1 << n_partition_bits):
        ends[partition + 1] += ends[partition]
    fill = ends[:-1].copy()
    for first in range(0, n_keys, CHUNK):
        last = min(first + CHUNK, n_keys)
        generalize(keys, first, last, move, chunk)
        for row in range(last - first):
            home = _partition(_hash(chunk, row), n_partition_bits)
            place = fill[home]
            fill[home] = place + 1
            for word in range(len(keys)):
                groups[word][place] = chunk[word][row]
            sums[place] = counts[first + row]
    n_groups = 0  # groups are written over the front of the scattered keys, which has always been read already
    slots = np.empty(0, dtype=np.int32)
    for partition in range(1 << n_partition_bits):
        first, last = ends[partition], ends[partition + 1]
        capacity = _capacity(last - first)
        if slots.shape[0] < capacity:
            slots = np.empty(capacity, dtype=np.int32)
        slots[:capacity] = -1
        start = n_groups
        for row in range(first, last):
            slot = _find(slots, capacity, groups, start, groups, row)
            if slots[slot] >= 0:
                sums[start + slots[slot]] += sums[row]
                continue
            slots[slot] = n_groups - start
            for word in range(len(keys)):
                groups[word][n_groups] = groups[word][row]
            sums[n_groups] = sums[row]
            n_groups += 1
    return n_groups


@kernel
def assign_groups(keys: Keys, groups: Keys, group_of_key: Indices) -> int:
    """Number the groups of equal keys by first appearance; returns how many there are, their keys in front."""
    capacity = _capacity(group_of_key.shape[0])
    slots = np.full(capacity, -1, dtype=np.int32)
    n_groups = 0
    for row in range(group_of_key.shape[0]):
        slot = _find(slots, capacity, groups, np.int64(0), keys, row)
        if slots[slot] < 0:
            slots[slot] = n_groups
            for word in range(len(keys)):
                groups[word][n_groups] = keys[word][row]
            n_groups += 1
        group_of_key[row] = slots[slot]
    return n_groups


@kernel
def _find(slots: Slots, capacity: int, groups: Keys, start: int | np.int64, keys: Keys, row: int) -> np.int64:
    """The slot of the group of a key, or the free slot where it belongs. Groups are numbered from `start`."""
    slot = np.int64(_hash(keys, row) & np.uint64(capacity - 1))
    while slots[slot] >= 0:
        group = start + slots[slot]
        same = True
        for word in range(len(keys)):
            same &= groups[word][group] == keys[word][row]
        if same:
            break
        slot = (slot + 1) & (capacity - 1)
    return slot


@kernel
def _capacity(n_keys: int) -> int:
    """The size of a hash table that is at most half full: a power of two."""
    capacity = 2
    while capacity < 2 * n_keys:
        capacity *= 2
    return capacity


@kernel
def _partition(mixed: np.uint64, n_bits: int) -> np.int64:
    return np.int64(mixed >> np.uint64(63 - n_bits) >> np.uint64(1))  # a shift by 64 at once is not defined


@kernel
def _hash(keys: Keys, row: int) -> np.uint64:
    mixed = np.uint64(0)
    for word in range(len(keys)):
        mixed = _mix(mixed, keys[word][row])
    return mixed


@kernel
def _mix(mixed: np.uint64, word: np.uint64) -> np.uint64:
    """Every bit of the word moves every bit of the result: keys often differ in their highest bits only."""
    product = (mixed ^ word) * np.uint64(0x9E3779B97F4A7C15)
    product = (product ^ (product >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return product ^ (product >> np.uint64(32))
