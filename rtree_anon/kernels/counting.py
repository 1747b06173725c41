"""Counting groups of packed keys: the frequency sets of the lattice.

A key is a row of `n_words` uint64 numbers that hold one bit field per attribute. `generalize` moves keys to other
levels: fields are replaced by a table (the id of a node on one level to the id of its ancestor on a higher one), kept
or cleared. The other kernels group equal keys with an open-addressing hash table that grows with the number of
groups, not with the number of keys. Groups are numbered by first appearance (where keys are partitioned: by
partition, and then so), so the result depends on nothing but the input.

A hash table that does not fit the processor's cache makes every key cost a trip to memory. So many keys with many
groups are first scattered by hash into partitions (`sum_partitioned`, 3 to 7 times as fast for 4.6 million keys), and
a question that one partition can answer is put to that one alone (`choose_partition`).

The caller guarantees that every field value is a valid index into its table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.jit import kernel

Keys = NDArray[np.uint64]  # (n, n_words)
Words = NDArray[np.uint64]
Indices = NDArray[np.int64]
Slots = NDArray[np.int32]

_FIRST_CAPACITY = 1024


@kernel
def generalize(
    keys: Keys, keep: Words, words: Indices, shifts: Words, masks: Words, starts: Indices, tables: Words
) -> Keys:
    """Keys with the bits of `keep` as they are and some fields replaced by tables; all other bits are cleared.

    The fields are given by parallel arrays: their word, shift and mask (before shifting), and where their table starts.
    """
    n_keys, n_words = keys.shape
    result = np.empty((n_keys, n_words), dtype=np.uint64)
    for row in range(n_keys):
        for word in range(n_words):
            result[row, word] = keys[row, word] & keep[word]
    for field in range(words.shape[0]):
        word, shift, mask, start = words[field], shifts[field], masks[field], starts[field]
        for row in range(n_keys):
            node = (keys[row, word] >> shift) & mask
            result[row, word] |= tables[start + np.int64(node)] << shift
    return result


@kernel
def sum_groups(keys: Keys, counts: Indices, max_groups: int) -> tuple[Keys, Indices, bool]:
    """Group equal keys and sum their counts: (keys, counts, True). Past `max_groups` groups it gives up (False)."""
    slots = np.full(_FIRST_CAPACITY, -1, dtype=np.int32)
    group_keys = np.empty((_FIRST_CAPACITY // 2, keys.shape[1]), dtype=np.uint64)
    group_counts = np.empty(_FIRST_CAPACITY // 2, dtype=np.int64)
    n_groups = 0
    for row in range(keys.shape[0]):
        slot = _find(slots, group_keys, keys, row)
        group = slots[slot]
        if group >= 0:
            group_counts[group] += counts[row]
            continue
        if n_groups == max_groups:
            return group_keys[:0].copy(), group_counts[:0].copy(), False
        if n_groups == group_keys.shape[0]:
            group_keys = _grown_keys(group_keys)
            wider = np.empty(group_keys.shape[0], dtype=np.int64)
            wider[:n_groups] = group_counts
            group_counts = wider
            slots = _rehashed(group_keys, n_groups)
            slot = _find(slots, group_keys, keys, row)
        slots[slot] = n_groups
        group_keys[n_groups] = keys[row]
        group_counts[n_groups] = counts[row]
        n_groups += 1
    return group_keys[:n_groups].copy(), group_counts[:n_groups].copy(), True


@kernel
def sum_partitioned(keys: Keys, counts: Indices, n_partition_bits: int) -> tuple[Keys, Indices]:
    """The same for many keys in many groups: scattered by hash into 2**n_partition_bits partitions first."""
    n_keys, n_words = keys.shape
    drop = np.uint64(64 - n_partition_bits)
    ends = np.zeros((1 << n_partition_bits) + 1, dtype=np.int64)
    for row in range(n_keys):
        ends[np.int64(_hash(keys, row) >> drop) + 1] += 1
    for partition in range(1 << n_partition_bits):
        ends[partition + 1] += ends[partition]
    fill = ends[:-1].copy()
    moved_keys = np.empty((n_keys, n_words), dtype=np.uint64)
    moved_counts = np.empty(n_keys, dtype=np.int64)
    for row in range(n_keys):
        home = np.int64(_hash(keys, row) >> drop)
        place = fill[home]
        fill[home] += 1
        for word in range(n_words):
            moved_keys[place, word] = keys[row, word]
        moved_counts[place] = counts[row]
    n_groups = 0  # groups are written over the front of the moved keys, which has always been read already
    slots = np.empty(0, dtype=np.int32)
    for partition in range(1 << n_partition_bits):
        first, last = ends[partition], ends[partition + 1]
        capacity = 2
        while capacity < 2 * (last - first):
            capacity *= 2
        if slots.shape[0] < capacity:
            slots = np.empty(capacity, dtype=np.int32)
        table = slots[:capacity]
        table[:] = -1
        groups = moved_keys[n_groups:]
        n_found = 0
        for row in range(first, last):
            slot = _find(table, groups, moved_keys, row)
            if table[slot] >= 0:
                moved_counts[n_groups + table[slot]] += moved_counts[row]
            else:
                table[slot] = n_found
                for word in range(n_words):
                    groups[n_found, word] = moved_keys[row, word]
                moved_counts[n_groups + n_found] = moved_counts[row]
                n_found += 1
        n_groups += n_found
    return moved_keys[:n_groups].copy(), moved_counts[:n_groups].copy()


@kernel
def choose_partition(keys: Keys, group_bits: Words, n_partition_bits: int) -> Indices:
    """The rows of one of 2**n_partition_bits partitions; keys that agree on `group_bits` are in the same one."""
    n_keys, n_words = keys.shape
    drop = np.uint64(64 - n_partition_bits)
    chosen = np.empty(n_keys, dtype=np.int64)
    n_chosen = 0
    for row in range(n_keys):
        mixed = np.uint64(0)
        for word in range(n_words):
            mixed = _mix(mixed, keys[row, word] & group_bits[word])
        if mixed >> drop == 0:
            chosen[n_chosen] = row
            n_chosen += 1
    return chosen[:n_chosen].copy()


@kernel
def assign_groups(keys: Keys) -> tuple[Indices, Keys]:
    """Group equal keys. Returns (the group of each key, keys of the groups)."""
    slots = np.full(_FIRST_CAPACITY, -1, dtype=np.int32)
    group_keys = np.empty((_FIRST_CAPACITY // 2, keys.shape[1]), dtype=np.uint64)
    groups = np.empty(keys.shape[0], dtype=np.int64)
    n_groups = 0
    for row in range(keys.shape[0]):
        slot = _find(slots, group_keys, keys, row)
        group = slots[slot]
        if group < 0:
            if n_groups == group_keys.shape[0]:
                group_keys = _grown_keys(group_keys)
                slots = _rehashed(group_keys, n_groups)
                slot = _find(slots, group_keys, keys, row)
            slots[slot] = n_groups
            group_keys[n_groups] = keys[row]
            group = n_groups
            n_groups += 1
        groups[row] = group
    return groups, group_keys[:n_groups].copy()


@kernel
def _find(slots: Slots, group_keys: Keys, keys: Keys, row: int) -> np.int64:
    """The slot of the key's group, or the free slot where it belongs."""
    last = np.uint64(slots.shape[0] - 1)  # the capacity is a power of two
    slot = np.int64(_hash(keys, row) & last)
    while slots[slot] >= 0:
        group = slots[slot]
        same = True
        for word in range(keys.shape[1]):
            if group_keys[group, word] != keys[row, word]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & np.int64(last)
    return slot


@kernel
def _hash(keys: Keys, row: int) -> np.uint64:
    mixed = np.uint64(0)
    for word in range(keys.shape[1]):
        mixed = _mix(mixed, keys[row, word])
    return mixed


@kernel
def _mix(mixed: np.uint64, word: np.uint64) -> np.uint64:
    product = (mixed ^ word) * np.uint64(0x9E3779B97F4A7C15)
    return product ^ (product >> np.uint64(32))


@kernel
def _grown_keys(group_keys: Keys) -> Keys:
    wider = np.empty((2 * group_keys.shape[0], group_keys.shape[1]), dtype=np.uint64)
    wider[: group_keys.shape[0]] = group_keys
    return wider


@kernel
def _rehashed(group_keys: Keys, n_groups: int) -> Slots:
    """A hash table twice the size of the key array, so that at most half of the slots are ever taken."""
    slots = np.full(2 * group_keys.shape[0], -1, dtype=np.int32)
    for group in range(n_groups):
        slots[_find(slots, group_keys, group_keys, group)] = group
    return slots
