"""Runs of a value as an LZ4 block: what LZ4 could make of the rows one by one, made from the runs alone.

    sequence: token │ literals: the value's own bytes │ offset: the size of a value │ how many bytes to copy from there

A run is one sequence: its value, and a copy of what stands one value before, until the run ends. The copy may begin in
the middle of the value, so of a value that differs from the one before in its two lowest bytes only these are stored.
The format is that of LZ4's own document, lz4_Block_format.md; Parquet calls the codec LZ4_RAW.

Where nearly every run has a value of its own, that takes as many bytes as a dictionary and runs of its numbers, and
less time: nothing is looked up, neither here nor by who reads it (a fifth less at k = 5).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel

SEQUENCE_BYTES = 1 + 8 + 2 + 1  # of a short run, at most
PACKED_PER_BYTE = 255  # a longer run takes one more for so many bytes of its rows; so do many literals
END_BYTES = 64  # for the end of a block, and for what may be written behind it
_LEAST_COPY = np.int64(4)
_LONG_COPY = np.int64(4 + 15)  # from here on lengths need more than their part of the token
_LONG_LITERALS = np.int64(15)
_LAST_LITERALS = np.int64(12)  # the format asks for as many bytes behind the last copy


@kernel
def write_block(values, lengths, size, prefix, out):
    """`prefix`, then lengths[i] times values[i] of `size` bytes (4 or 8) each, as an LZ4 block; how many bytes it has.

    Neighbouring values differ. `out` has room for the prefix, SEQUENCE_BYTES for each run, a byte for each
    PACKED_PER_BYTE of what is packed, and END_BYTES.
    """
    size = np.int64(size)
    # The last rows, `n_tail` of the run `last` and all of those behind it, are literals.
    last, n_tail = values.shape[0] - 1, (_LAST_LITERALS + size - 1) // size
    while last > 0 and lengths[last] < n_tail:
        n_tail -= lengths[last]
        last -= 1
    n_tail = min(n_tail, lengths[last])
    at = np.uint64(0)
    waiting = np.int64(0)  # runs from here on, of a single row each, are literals of the next sequence
    before = np.uint64(0)
    for i in range(last + 1):
        value = np.uint64(values[i])
        n_own = size if i == 0 else own_bytes(value ^ before, size)
        before = value
        n_copied = (lengths[i] - (n_tail if i == last else 0)) * size - n_own
        if n_copied < _LEAST_COPY:
            continue
        if waiting < i or i == 0:
            n_literals = (i - waiting) * size + (prefix.shape[0] if waiting == 0 else 0) + n_own
            at = _write_token(n_literals, n_copied, out, at)
            at = _write_waiting(values, waiting, i, size, prefix, out, at)
        else:
            out[at] = np.uint8(n_own << 4) | np.uint8(min(n_copied - _LEAST_COPY, 15))
            at += np.uint64(1)
        waiting = i + 1
        _write_value(value, size, out, at)
        at += np.uint64(n_own)
        out[at] = np.uint8(size)
        out[at + np.uint64(1)] = np.uint8(0)
        at += np.uint64(2)
        if n_copied >= _LONG_COPY + 255:
            at = _write_length(n_copied - _LONG_COPY, out, at)
        else:
            out[at] = np.uint8(n_copied - _LONG_COPY)  # of no account where it is less
            at += np.uint64(n_copied >= _LONG_COPY)
    return _write_end(values, lengths, waiting, last, n_tail, size, prefix, out, at)


@kernel
def bytes_of_block(before, value, length, size):
    """How many bytes of a block a run takes that follows on a run of another value."""
    n_own = own_bytes(np.uint64(value) ^ np.uint64(before), size)
    n_more = length * size - n_own - _LONG_COPY
    return 3 + n_own + (0 if n_more < 0 else 1 + n_more // PACKED_PER_BYTE)


@kernel
def own_bytes(differs, size):
    """How many of the lowest bytes a value does not share with another, from the bits in which they differ."""
    differs = np.uint64(differs)
    if size == 4:
        differs &= np.uint64(0xFFFFFFFF)
    n = 1 + np.int64(differs >> np.uint64(8) != 0) + np.int64(differs >> np.uint64(16) != 0)
    n += np.int64(differs >> np.uint64(24) != 0)
    if size == 8:
        n += np.int64(differs >> np.uint64(32) != 0) + np.int64(differs >> np.uint64(40) != 0)
        n += np.int64(differs >> np.uint64(48) != 0) + np.int64(differs >> np.uint64(56) != 0)
    return n


@kernel
def _write_end(values, lengths, waiting, last, n_tail, size, prefix, out, at):
    """The sequence that has literals only: rows that wait, and those that are left of the run `last` and behind it."""
    n_left = n_tail if waiting > last else lengths[last]
    n_rows = max(last - waiting, 0) + n_left
    for i in range(last + 1, values.shape[0]):
        n_rows += lengths[i]
    at = _write_token(n_rows * size + (prefix.shape[0] if waiting == 0 else 0), _LEAST_COPY, out, at)
    at = _write_waiting(values, waiting, last, size, prefix, out, at)
    for i in range(last, values.shape[0]):
        for _ in range(n_left if i == last else lengths[i]):
            _write_value(np.uint64(values[i]), size, out, at)
            at += np.uint64(size)
    return np.int64(at)


@kernel
def _write_token(n_literals, n_copied, out, at):
    out[at] = np.uint8(min(n_literals, 15) << 4) | np.uint8(min(n_copied - _LEAST_COPY, 15))
    at += np.uint64(1)
    return _write_length(n_literals - _LONG_LITERALS, out, at) if n_literals >= _LONG_LITERALS else at


@kernel
def _write_length(rest, out, at):
    """What a token has no room for of a length."""
    while rest >= 255:
        out[at] = np.uint8(255)
        at += np.uint64(1)
        rest -= 255
    out[at] = np.uint8(rest)
    return at + np.uint64(1)


@kernel
def _write_waiting(values, waiting, end, size, prefix, out, at):
    if waiting == 0:
        for byte in prefix:
            out[at] = byte
            at += np.uint64(1)
    for i in range(waiting, end):
        _write_value(np.uint64(values[i]), size, out, at)
        at += np.uint64(size)
    return at


@kernel
def _write_value(value, size, out, at):
    out[at] = np.uint8(value)
    out[at + np.uint64(1)] = np.uint8(value >> np.uint64(8))
    out[at + np.uint64(2)] = np.uint8(value >> np.uint64(16))
    out[at + np.uint64(3)] = np.uint8(value >> np.uint64(24))
    if size == 8:
        out[at + np.uint64(4)] = np.uint8(value >> np.uint64(32))
        out[at + np.uint64(5)] = np.uint8(value >> np.uint64(40))
        out[at + np.uint64(6)] = np.uint8(value >> np.uint64(48))
        out[at + np.uint64(7)] = np.uint8(value >> np.uint64(56))
