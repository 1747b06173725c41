"""Counting groups of packed keys: the frequency sets of the lattice.

A key is a row of `n_words` uint64 numbers that hold one bit field per attribute. Both kernels walk over the keys once,
generalize the fields that they are told to (by a table: the id of a node on one level to the id of its ancestor on a
higher one), drop the fields that are not kept, and find the group of the result in an open-addressing hash table that
grows with the number of groups, not with the number of keys. Groups are numbered by first appearance, so the result
depends on nothing but the input.

Fields to generalize are given as five parallel arrays: the word, the shift and the mask (before shifting) of the field,
and where its table starts in `tables`. `keep` has the bits of the fields that stay as they are. The caller guarantees
that every field value is a valid index into its table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.jit import inlined, kernel

Keys = NDArray[np.uint64]  # (n, n_words), or (n_words,) for one key
Words = NDArray[np.uint64]
Indices = NDArray[np.int64]
Slots = NDArray[np.int32]

_FIRST_CAPACITY = 1024


@kernel
def roll_up(
    keys: Keys,
    counts: Indices,
    keep: Words,
    words: Indices,
    shifts: Words,
    masks: Words,
    starts: Indices,
    tables: Words,
) -> tuple[Keys, Indices]:
    """Group the generalized keys and sum their counts. Returns (keys of the groups, counts of the groups)."""
    n_words = keys.shape[1]
    slots = np.full(_FIRST_CAPACITY, -1, dtype=np.int32)
    group_keys = np.empty((_FIRST_CAPACITY // 2, n_words), dtype=np.uint64)
    group_counts = np.empty(_FIRST_CAPACITY // 2, dtype=np.int64)
    n_groups = 0
    key = np.empty(n_words, dtype=np.uint64)
    for row in range(keys.shape[0]):
        _generalize(keys, row, keep, words, shifts, masks, starts, tables, key)
        slot = _find(slots, group_keys, key)
        group = slots[slot]
        if group >= 0:
            group_counts[group] += counts[row]
            continue
        if n_groups == group_keys.shape[0]:
            group_keys = _grown_keys(group_keys)
            wider = np.empty(group_keys.shape[0], dtype=np.int64)
            wider[:n_groups] = group_counts
            group_counts = wider
            slots = _rehashed(group_keys, n_groups)
            slot = _find(slots, group_keys, key)
        slots[slot] = n_groups
        group_keys[n_groups] = key
        group_counts[n_groups] = counts[row]
        n_groups += 1
    return group_keys[:n_groups].copy(), group_counts[:n_groups].copy()


@kernel
def assign_groups(
    keys: Keys, keep: Words, words: Indices, shifts: Words, masks: Words, starts: Indices, tables: Words
) -> tuple[Indices, Keys]:
    """Group the generalized keys. Returns (the group of each key, keys of the groups)."""
    n_words = keys.shape[1]
    slots = np.full(_FIRST_CAPACITY, -1, dtype=np.int32)
    group_keys = np.empty((_FIRST_CAPACITY // 2, n_words), dtype=np.uint64)
    groups = np.empty(keys.shape[0], dtype=np.int64)
    n_groups = 0
    key = np.empty(n_words, dtype=np.uint64)
    for row in range(keys.shape[0]):
        _generalize(keys, row, keep, words, shifts, masks, starts, tables, key)
        slot = _find(slots, group_keys, key)
        group = slots[slot]
        if group < 0:
            if n_groups == group_keys.shape[0]:
                group_keys = _grown_keys(group_keys)
                slots = _rehashed(group_keys, n_groups)
                slot = _find(slots, group_keys, key)
            slots[slot] = n_groups
            group_keys[n_groups] = key
            group = n_groups
            n_groups += 1
        groups[row] = group
    return groups, group_keys[:n_groups].copy()


@inlined
def _generalize(
    keys: Keys,
    row: int,
    keep: Words,
    words: Indices,
    shifts: Words,
    masks: Words,
    starts: Indices,
    tables: Words,
    key: Words,
) -> None:
    for word in range(key.shape[0]):
        key[word] = keys[row, word] & keep[word]
    for field in range(words.shape[0]):
        word, shift = words[field], shifts[field]
        node = (keys[row, word] >> shift) & masks[field]
        key[word] |= tables[starts[field] + np.int64(node)] << shift


@inlined
def _find(slots: Slots, group_keys: Keys, key: Words) -> np.int64:
    """The slot of the key's group, or the free slot where it belongs."""
    last = np.uint64(slots.shape[0] - 1)  # the capacity is a power of two
    slot = np.int64(_hash(key) & last)
    while slots[slot] >= 0:
        group = slots[slot]
        same = True
        for word in range(key.shape[0]):
            if group_keys[group, word] != key[word]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & np.int64(last)
    return slot


@inlined
def _hash(key: Words) -> np.uint64:
    mixed = np.uint64(0)
    for word in range(key.shape[0]):
        mixed = (mixed ^ key[word]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return mixed


@inlined
def _grown_keys(group_keys: Keys) -> Keys:
    wider = np.empty((2 * group_keys.shape[0], group_keys.shape[1]), dtype=np.uint64)
    wider[: group_keys.shape[0]] = group_keys
    return wider


@inlined
def _rehashed(group_keys: Keys, n_groups: int) -> Slots:
    """A hash table twice the size of the key array, so that at most half of the slots are ever taken."""
    slots = np.full(2 * group_keys.shape[0], -1, dtype=np.int32)
    for group in range(n_groups):
        slots[_find(slots, group_keys, group_keys[group])] = group
    return slots
