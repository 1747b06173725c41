"""Keys as whole numbers: the bytes of a value in columns of codes, and a number that names a row by them.

    codes[0]      how many bytes the value has
    codes[1 + g]  bytes 7 g .. 7 g + 6, the first one highest, zeros behind the end: below 2**56

Equal values have equal codes, and only they. The number is a keyed hash of 62 bits, computed from the codes; columns
behind the end of a value do not count, so that it stays the same when there is room for longer ones.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel

GROUP_BYTES = 7
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@kernel
def pack_keys(offsets, data, codes):
    """The values data[offsets[i]:offsets[i+1]] as codes[column, i]; the columns must have room for them."""
    for row in range(codes.shape[1]):
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        codes[0, row] = end - begin
        at = begin
        for column in range(1, codes.shape[0]):
            group = np.int64(0)
            for _ in range(GROUP_BYTES):
                group <<= 8
                if at < end:
                    group |= np.int64(data[at])
                at += 1
            codes[column, row] = group


@kernel
def unpack_keys(codes, offsets, data):
    """The bytes of codes[column, i] to data[offsets[i]:offsets[i+1]], which must be as long as the codes say."""
    for row in range(codes.shape[1]):
        at, end = offsets[row], offsets[row + 1]
        column = 1
        while at < end:
            group = codes[column, row]
            for i in range(GROUP_BYTES):
                if at < end:
                    data[at] = np.uint8((group >> (8 * (GROUP_BYTES - 1 - i))) & 0xFF)
                    at += 1
            column += 1


@kernel
def hash_keys(codes, salt, ids):
    """A number from 0 to 2**62 - 1 for every codes[column, i]."""
    for row in range(codes.shape[1]):
        n_bytes = np.uint64(codes[0, row])
        state = _mixed(salt ^ (n_bytes * _MULTIPLIER))
        n_groups = (codes[0, row] + GROUP_BYTES - 1) // GROUP_BYTES
        for column in range(1, min(n_groups + 1, codes.shape[0])):
            state = _mixed(state ^ np.uint64(codes[column, row]))
        ids[row] = np.int64(_mixed(state + salt) >> np.uint64(2))


@kernel
def _mixed(state):
    state = (state ^ (state >> np.uint64(32))) * _MULTIPLIER
    state = (state ^ (state >> np.uint64(29))) * np.uint64(0xD6E8FEB86659FD93)
    return state ^ (state >> np.uint64(32))
