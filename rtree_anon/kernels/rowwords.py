"""Rows as a few machine words: the form in which rows wait in buffers and in the spill file of a bulk load.

A column takes the bits that its domain needs, and no column crosses a word:

    stored = 0 where the value is missing, else code - base + 1;  word[c] of the row holds it from bit shift[c] on

Nine columns of Agrawal's data are two words instead of 36 bytes: half of what is buffered, spilled and read again.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.jit import kernel

_BLOCK_ROWS = 512  # rows that are packed before they are moved to their buckets: they stay in the nearest cache


class WordLayout(NamedTuple):
    """Where each column is; arrays with one entry per column."""

    word: NDArray[np.int64]
    shift: NDArray[np.uint64]
    limit: NDArray[np.uint64]  # the largest stored number
    below: NDArray[np.int64]  # base - 1: stored = code - below


@kernel
def pack_columns(codes, first, n, missing, layout, words):
    """Pack rows first .. first+n-1 of codes[column, row] into words[0:n]; False where a value does not fit."""
    words[:n] = np.uint64(0)
    fits = True
    for c in range(codes.shape[0]):
        w = layout.word[c]
        shift = layout.shift[c]
        limit = layout.limit[c]
        below = layout.below[c]
        column = codes[c, first : first + n]
        word = words[:, w]
        wrong = np.int64(0)
        for i in range(n):
            code = np.int64(column[i])
            gap = code == missing
            stored = np.uint64(0) if gap else np.uint64(code - below)
            wrong += (stored > limit) | ((stored == np.uint64(0)) & (not gap))
            word[i] |= stored << shift
        fits &= wrong == 0
    return fits


@kernel
def unpack_column(words, layout, c, missing, out):
    """Codes of one column of packed rows."""
    w = layout.word[c]
    shift = layout.shift[c]
    limit = layout.limit[c]
    below = layout.below[c]
    for i in range(words.shape[0]):
        stored = (words[i, w] >> shift) & limit_mask(limit)
        out[i] = missing if stored == np.uint64(0) else np.int64(stored) + below


@kernel
def limit_mask(limit):
    """All bits that numbers up to `limit` use."""
    mask = limit
    mask |= mask >> np.uint64(1)
    mask |= mask >> np.uint64(2)
    mask |= mask >> np.uint64(4)
    mask |= mask >> np.uint64(8)
    mask |= mask >> np.uint64(16)
    mask |= mask >> np.uint64(32)
    return mask


@kernel
def unpack_rows(words, layout, first_column, target, out_missing, out):
    """Unpack columns first_column .. to out[:, target[c]], row by row; missing values become out_missing[c]."""
    n_columns = target.shape[0]
    masks = np.empty(n_columns, np.uint64)
    for c in range(n_columns):
        masks[c] = limit_mask(layout.limit[first_column + c])
    for begin in range(0, words.shape[0], _BLOCK_ROWS):
        end = min(begin + _BLOCK_ROWS, words.shape[0])
        for c in range(n_columns):
            w = layout.word[first_column + c]
            shift = layout.shift[first_column + c]
            below = layout.below[first_column + c]
            mask = masks[c]
            gap = out_missing[c]
            word = words[begin:end, w]
            column = out[begin:end, target[c]]
            for i in range(end - begin):
                stored = (word[i] >> shift) & mask
                column[i] = gap if stored == np.uint64(0) else np.int64(stored) + below


@kernel
def range_of_columns(codes, missing, lo, hi, has_missing):
    """Smallest and largest code of every column of codes[column, row], and whether one is missing.

    A column without any code has the range 0 .. -1.
    """
    for c in range(codes.shape[0]):
        column = codes[c]
        least, most = np.int64(np.iinfo(np.int64).max), np.int64(np.iinfo(np.int64).min)
        n_missing = np.int64(0)
        for i in range(codes.shape[1]):
            code = np.int64(column[i])
            gap = code == missing
            n_missing += gap
            least = least if gap else min(least, code)
            most = most if gap else max(most, code)
        has_missing[c] = n_missing > 0
        lo[c] = 0 if n_missing == codes.shape[1] else least
        hi[c] = -1 if n_missing == codes.shape[1] else most


@kernel
def repack_rows(words, source, ids, target, out):
    """Rows of one layout in another one that has a further column for their ids; False where a value does not fit."""
    n_columns = target.word.shape[0]
    fits = True
    for begin in range(0, words.shape[0], _BLOCK_ROWS):
        end = min(begin + _BLOCK_ROWS, words.shape[0])
        out[begin:end] = np.uint64(0)
        for c in range(n_columns):
            v, up, limit = target.word[c], target.shift[c], target.limit[c]
            if c == n_columns - 1:
                below = target.below[c]
                for i in range(begin, end):
                    stored = np.uint64(ids[i] - below)
                    fits &= np.uint64(0) < stored <= limit
                    out[i, v] |= stored << up
                continue
            w, down, mask = source.word[c], source.shift[c], limit_mask(source.limit[c])
            offset = np.uint64(source.below[c] - target.below[c])  # modulo 2**64; what is too small becomes too large
            for i in range(begin, end):
                stored = (words[i, w] >> down) & mask
                moved = np.uint64(0) if stored == np.uint64(0) else stored + offset
                fits &= moved <= limit and (moved != np.uint64(0) or stored == np.uint64(0))
                out[i, v] |= moved << up
    return fits
