"""Columns that repeat a value for all rows of a group, as Parquet stores them: a dictionary, and runs of its entries.

Columns in which nearly every run has a value of its own are packed without a dictionary instead (plainruns.py).

The time is that of the groups, whatever the number of their rows. Where groups are small it is most of what a file
costs, so the loops have no branch that depends on values: which of them are new, or equal to their neighbour, cannot be
foretold.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.plainruns import bytes_of_block, write_block

_HASH = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: multiplicative hashing (Knuth, volume 3, section 6.4)
SLOTS_PER_VALUE = 8  # where values span fewer than so many numbers each, a number is its own place in a table
LEAST_SLOTS = 16
MOST_RUN_BYTES = 10 + 4  # of one run: the longest varint, and four bytes of a value
LEAST_PLAIN_RUNS = 1 << 14  # with fewer there is time for zstd, which packs a dictionary and runs into fewer bytes
RUNS_PER_SAMPLE = 8
MOST_GROWTH = 1.15  # of a column that is read faster for it


@kernel
def encode_columns(values, lengths, sizes, prefix, slots, distinct, distinct_end, gap, runs, runs_end):
    """Columns (one row of `values` each) of runs that are lengths[i] rows long: their distinct values, and their runs.

    All of a row group in one call, during which no thread waits for another. What is made of column c stands behind
    what is made of the one before it, so that little memory is touched: distinct[: distinct_end[c]] end with the values
    that occur in it, and runs[: runs_end[c]] with the runs of their numbers, of `bytes_of_numbers` bytes each. `gap`
    bytes are left free before the runs of every column. `slots` is as for `number_values`; `distinct` has room for one
    value more than there are.

    A column of which sizes[c] is not 0 may be packed without distinct values, as `prefix` and values of so many bytes
    (`write_block`); it is, where that takes hardly more bytes. It then has no distinct values.
    """
    n = values.shape[1]
    numbers = np.empty(n, np.int32)
    joined = np.empty(n, values.dtype)
    joined_lengths = np.empty(n, np.int64)
    sample = np.empty(n // RUNS_PER_SAMPLE + 1, values.dtype)
    at = np.int64(0)
    at_run = np.int64(0)
    for c in range(values.shape[0]):
        n_runs = join_runs(values[c], lengths, joined, joined_lengths)
        at_run += gap
        if sizes[c] > 0 and _plain_is_small(
            joined[:n_runs], joined_lengths, sizes[c], sample, numbers, distinct[at:], slots
        ):
            at_run += write_block(joined[:n_runs], joined_lengths, sizes[c], prefix, runs[at_run:])
        else:
            n_distinct = number_values(joined[:n_runs], numbers, distinct[at:], slots)
            at += n_distinct
            at_run += write_runs(numbers[:n_runs], joined_lengths, bytes_of_numbers(n_distinct), runs[at_run:])
        distinct_end[c] = at
        runs_end[c] = at_run


@kernel
def _plain_is_small(values, lengths, size, sample, numbers, distinct, slots):
    """Whether runs take hardly more bytes without a dictionary, as a sample of them suggests."""
    n_runs = values.shape[0]
    if n_runs < LEAST_PLAIN_RUNS:
        return False
    n_sample = (n_runs - 1) // RUNS_PER_SAMPLE
    n_bytes = np.int64(0)
    for i in range(n_sample):
        place = i * RUNS_PER_SAMPLE + 1  # the run before it counts as well
        sample[i] = values[place]
        n_bytes += bytes_of_block(values[place - 1], values[place], lengths[place], size)
    n_distinct = _likely_distinct(number_values(sample[:n_sample], numbers, distinct, slots), n_sample, n_runs)
    with_dictionary = n_runs * (1.0 + bytes_of_numbers(np.int64(n_distinct))) + n_distinct * size
    return n_bytes * (n_runs / n_sample) <= MOST_GROWTH * with_dictionary


@kernel
def _likely_distinct(found, n_sample, n):
    """How many values occur among n, of which as many as n_sample have `found` different ones, were all as frequent.

    Of D values that are equally likely, m draws meet D (1 - exp(-m / D)) on average, which grows with D.
    """
    least, most = np.float64(found), np.float64(n)
    for _ in range(20):
        middle = (least + most) / 2
        if middle * (1 - np.exp(-n_sample / middle)) < found:
            least = middle
        else:
            most = middle
    return most


@kernel
def bytes_of_numbers(n):
    """How many bytes every number below n takes: as few as possible, but one at least."""
    n_bytes = 1
    while n > np.int64(1) << (8 * n_bytes):
        n_bytes += 1
    return n_bytes


@kernel
def join_runs(values, lengths, joined, joined_lengths):
    """Neighbours with the same value as one run: the runs that are left, and how many."""
    last = values.shape[0] - 1
    at = np.uint64(0)  # unsigned: an index that cannot count from the end needs no test
    length = np.int64(0)
    for i in range(last):
        length += lengths[i]
        joined[at] = values[i]  # whether the run ends here or not; what goes on is written again in its place
        joined_lengths[at] = length
        ends = np.int64(values[i + 1] != values[i])
        at += np.uint64(ends)
        length *= 1 - ends
    joined[at] = values[last]
    joined_lengths[at] = length + lengths[last]
    return np.int64(at) + 1


@kernel
def number_values(values, numbers, distinct, slots):
    """The distinct values in the order of their first appearance; numbers[i] is the place of values[i] among them.

    Values are whole numbers (the bits of floats). Returns how many distinct ones there are. Exact: hashes only say
    where to look. `slots` is room for SLOTS_PER_VALUE numbers for each value, and LEAST_SLOTS at least; `distinct` is
    room for one more than there are values.
    """
    least = most = values[0]
    for value in values:
        least = min(least, value)
        most = max(most, value)
    span = np.uint64(most) - np.uint64(least)
    if span < np.uint64(SLOTS_PER_VALUE * values.shape[0]):
        return _number_by_place(values, least, numbers, distinct, slots[: np.int64(span) + 1])
    return _number_by_hash(values, numbers, distinct, slots)


@kernel
def _number_by_place(values, least, numbers, distinct, places):
    n, n_places = values.shape[0], places.shape[0]
    places[:] = -1  # also brings them into the cache, without which a table that needs no clearing is slower
    n_distinct = np.int64(0)
    i = np.int64(0)
    while i < n and n_distinct < n_places:
        place = np.uint64(values[i] - least)
        number = places[place]
        new = number < 0
        number = np.int32(n_distinct) if new else number
        places[place] = number
        distinct[n_distinct] = values[i]  # of no account unless it is new
        n_distinct += np.int64(new)
        numbers[i] = number
        i += 1
    for j in range(i, n):  # every value has been met, as it soon happens to be where there are few
        numbers[j] = places[np.uint64(values[j] - least)]
    return n_distinct


@kernel
def _number_by_hash(values, numbers, distinct, slots):
    n = values.shape[0]
    bits = 4  # LEAST_SLOTS
    while (1 << bits) < 2 * n:
        bits += 1
    shift = np.uint64(64 - bits)
    last_slot = np.uint64((1 << bits) - 1)
    slots[: 1 << bits] = -1
    n_distinct = np.int64(0)
    for i in range(n):
        value = values[i]
        slot = (np.uint64(value) * _HASH) >> shift
        number = slots[slot]
        while number >= 0 and distinct[number] != value:
            slot = (slot + np.uint64(1)) & last_slot
            number = slots[slot]
        new = number < 0
        number = np.int32(n_distinct) if new else number
        slots[slot] = number
        distinct[n_distinct] = value  # of no account unless it is new
        n_distinct += np.int64(new)
        numbers[i] = number
    return n_distinct


@kernel
def write_runs(numbers, lengths, n_bytes, out):
    """Runs of Parquet's RLE encoding: lengths[i] times numbers[i], of `n_bytes` bytes each; the number of bytes used.

    A run is twice its length as a varint, then the number. `out` has room for MOST_RUN_BYTES for each.
    """
    one = np.uint64(1)
    at = np.uint64(0)
    for i in range(numbers.shape[0]):
        number = np.uint32(numbers[i])
        head = np.uint64(lengths[i]) << one
        while head >= np.uint64(128):
            out[at] = np.uint8(head & np.uint64(127)) | np.uint8(128)
            head >>= np.uint64(7)
            at += one
        out[at] = np.uint8(head)
        out[at + one] = np.uint8(number)
        if n_bytes > 1:
            out[at + np.uint64(2)] = np.uint8(number >> np.uint32(8))
        if n_bytes > 2:  # of three bytes the fourth is where the next run begins
            out[at + np.uint64(3)] = np.uint8(number >> np.uint32(16))
            out[at + np.uint64(4)] = np.uint8(number >> np.uint32(24))
        at += np.uint64(1 + n_bytes)
    return np.int64(at)
