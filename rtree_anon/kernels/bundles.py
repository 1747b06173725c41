"""Bundles: neighbouring leaves of one page, as vectors of whole numbers of a few bits each.

A bundle is a sequence of 64-bit words, little-endian:

    0          rows (low 32 bits), leaves (high 32 bits)
    1          number of columns
    2 + 2v     base of vector v
    3 + 2v     bits per entry (low 8 bits), flags (next 8)
    ...        the vectors' entries, entry - base in `bits` bits, each vector beginning at a new word

Vectors are, in this order: the columns of the rows (codes; the last one is the row's id), and, describing the leaves,
their sizes and of the cuts between neighbouring leaves their depth, what they look at (4 times the axis, plus 2 where
the cut is a set of categories, plus 1 where its right side comes first), their threshold and their set. With
MISSING_IS_ZERO an entry of 0 is a missing value; with CONSECUTIVE entry i is base + i and takes no bits (ids after a
bulk load).

The entries of a column lie close together, because a page is a small box: 36 bytes of codes shrink to about 10.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.rowwords import limit_mask

HEADER_WORDS = 2
TREE_VECTORS = 5  # sizes, depth, looks_at, threshold, left_set
MISSING_IS_ZERO, CONSECUTIVE = 1, 2


@kernel
def bits_of(number):
    """How many bits a number from 0 to `number` takes."""
    n = 0
    while number > np.uint64(0):
        number >>= np.uint64(1)
        n += 1
    return n


@kernel
def vector_words(n, bits):
    return (n * bits + 63) >> 6


@kernel
def gather_rows(words, rows, starts, order, out):
    """Packed rows in leaf order, out[word, row]; the last column of `rows` has the numbers of the rows in `words`."""
    numbers = rows[:, rows.shape[1] - 1]
    n_words = words.shape[1]
    at = np.uint64(0)
    for leaf in order:
        for i in range(np.uint64(starts[leaf]), np.uint64(starts[leaf + 1])):
            r = np.uint32(numbers[i])
            for w in range(n_words):
                out[w, at] = words[r, w]
            at += np.uint64(1)


@kernel
def set_masks(words, layout, ends, columns, masks):
    """masks[b, m] becomes the set of categories (bit 63: missing) in column columns[m] of the rows up to ends[b].

    Rows are words[word, row].
    """
    for m in range(columns.shape[0]):
        c = columns[m]
        w, shift, below = layout.word[c], layout.shift[c], layout.below[c]
        mask = limit_mask(layout.limit[c])
        begin = np.int64(0)
        for b in range(ends.shape[0]):
            found = np.uint64(0)
            column = words[w, begin : ends[b]]
            for i in range(column.shape[0]):
                stored = (column[i] >> shift) & mask
                bit = np.uint64(63) if stored == np.uint64(0) else np.uint64(np.int64(stored) + below)
                found |= np.uint64(1) << bit
            masks[b, m] = found
            begin = ends[b]


@kernel
def put_vector(values, n, vector, base, flags, out, at):
    """Write values[:n] as a vector whose entries begin at word `at`; the word behind them."""
    least = most = np.uint64(0)
    if n > 0:
        least = most = values[0]
        entries = values[:n]  # without an end that is a variable, numba makes vectors
        for i in range(entries.shape[0]):
            least = min(least, entries[i])
            most = max(most, entries[i])
    if flags == MISSING_IS_ZERO and least != np.uint64(0):
        flags = 0  # nothing is missing here
    if flags == MISSING_IS_ZERO:
        least = np.uint64(0)
    bits = bits_of(most - least)
    out[HEADER_WORDS + 2 * vector] = np.uint64(base) + least
    out[HEADER_WORDS + 2 * vector + 1] = np.uint64(bits) | (np.uint64(flags) << np.uint64(8))
    if bits == 0:
        return at
    word = np.uint64(0)
    used = 0
    for i in range(n):
        entry = values[i] - least
        word |= entry << np.uint64(used)
        used += bits
        if used >= 64:
            out[at] = word
            at += 1
            used -= 64
            word = entry >> np.uint64(bits - used) if used > 0 else np.uint64(0)
    if used > 0:
        out[at] = word
        at += 1
    return at


@kernel
def write_bundle(words, layout, n_columns, starts, first, end, depth, looks_at, threshold, left_set, scratch, out):
    """Write leaves first .. end-1 to `out`, which is zero; the number of words used. Ids are left to `set_ids`.

    words[word, row] are packed rows in leaf order, `starts` the leaves; cut i lies between leaf i and leaf i + 1.
    `scratch` has room for the rows. Where the layout has a column for ids, it is the last one.
    """
    begin = starts[first]
    n_rows = starts[end] - begin
    n_leaves = end - first
    has_ids = layout.word.shape[0] == n_columns
    out[0] = np.uint64(n_rows) | (np.uint64(n_leaves) << np.uint64(32))
    out[1] = np.uint64(n_columns)
    at = np.int64(HEADER_WORDS + 2 * (n_columns + TREE_VECTORS))
    for c in range(n_columns if has_ids else n_columns - 1):
        w = layout.word[c]
        shift = layout.shift[c]
        mask = limit_mask(layout.limit[c])
        column = words[w, begin : begin + n_rows]
        for i in range(column.shape[0]):
            scratch[i] = (column[i] >> shift) & mask
        at = put_vector(scratch, n_rows, c, layout.below[c], MISSING_IS_ZERO, out, at)
    if not has_ids:
        out[HEADER_WORDS + 2 * (n_columns - 1) + 1] = np.uint64(CONSECUTIVE) << np.uint64(8)
    for i in range(n_leaves):
        scratch[i] = np.uint64(starts[first + i + 1] - starts[first + i])
    at = put_vector(scratch, n_leaves, n_columns, 0, 0, out, at)
    n_cuts = n_leaves - 1
    for i in range(n_cuts):
        scratch[i] = np.uint64(depth[first + i])
    at = put_vector(scratch, n_cuts, n_columns + 1, 0, 0, out, at)
    for i in range(n_cuts):
        scratch[i] = np.uint64(looks_at[first + i])
    at = put_vector(scratch, n_cuts, n_columns + 2, 0, 0, out, at)
    offset = np.int64(-(2**62))  # thresholds may be negative: entries are compared as unsigned numbers
    for i in range(n_cuts):
        scratch[i] = np.uint64(threshold[first + i] - offset)
    at = put_vector(scratch, n_cuts, n_columns + 3, offset, 0, out, at)
    for i in range(n_cuts):
        scratch[i] = left_set[first + i]
    return put_vector(scratch, n_cuts, n_columns + 4, 0, 0, out, at)


@kernel
def write_bundles(
    words, layout, n_columns, starts, begins, ends, depth, looks_at, threshold, left_set, scratch, pages, used
):
    """Write bundles that fit a page each, leaves begins[b] .. ends[b]-1 to pages[b]; see `write_bundle`."""
    for b in range(begins.shape[0]):
        used[b] = write_bundle(
            words,
            layout,
            n_columns,
            starts,
            begins[b],
            ends[b],
            depth,
            looks_at,
            threshold,
            left_set,
            scratch,
            pages[b],
        )


@kernel
def vector_place(bundle, vector):
    """The word where the entries of a vector begin."""
    n_rows = np.int64(bundle[0] & np.uint64(0xFFFFFFFF))
    n_leaves = np.int64(bundle[0] >> np.uint64(32))
    n_columns = np.int64(bundle[1])
    at = HEADER_WORDS + 2 * (n_columns + TREE_VECTORS)
    for v in range(vector):
        n = n_rows
        if v >= n_columns:
            n = n_leaves if v == n_columns else n_leaves - 1
        at += vector_words(n, np.int64(bundle[HEADER_WORDS + 2 * v + 1] & np.uint64(0xFF)))
    return at


@kernel
def get_vector(bundle, vector, n, missing, out):
    """Read entries of a vector to out[:n]."""
    base = np.int64(bundle[HEADER_WORDS + 2 * vector])
    about = bundle[HEADER_WORDS + 2 * vector + 1]
    bits = np.int64(about & np.uint64(0xFF))
    flags = np.int64(about >> np.uint64(8))
    if flags == CONSECUTIVE:
        for i in range(n):
            out[i] = base + i
        return
    if bits == 0:
        for i in range(n):
            out[i] = missing if flags == MISSING_IS_ZERO else base
        return
    at = vector_place(bundle, vector)
    mask = ~np.uint64(0) >> np.uint64(64 - bits)
    for i in range(n):
        position = i * bits
        word = at + (position >> 6)
        shift = position & 63
        entry = bundle[word] >> np.uint64(shift)
        if shift + bits > 64:
            entry |= bundle[word + 1] << np.uint64(64 - shift)
        entry &= mask
        gap = flags == MISSING_IS_ZERO and entry == np.uint64(0)
        out[i] = missing if gap else np.int64(np.uint64(base) + entry)


@kernel
def get_columns(bundle, first_column, n_columns, missing, out):
    """Read columns of a bundle to out[row, column]."""
    n = np.int64(bundle[0] & np.uint64(0xFFFFFFFF))
    for c in range(n_columns):
        get_vector(bundle, first_column + c, n, missing, out[:, c])
