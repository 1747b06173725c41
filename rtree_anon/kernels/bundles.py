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
    """Packed rows in leaf order; the last column of `rows` holds the numbers of the rows in `words`."""
    numbers = rows[:, rows.shape[1] - 1]
    n_words = words.shape[1]
    at = np.uint64(0)
    for leaf in order:
        for i in range(np.uint64(starts[leaf]), np.uint64(starts[leaf + 1])):
            r = np.uint32(numbers[i])
            for w in range(n_words):
                out[at, w] = words[r, w]
            at += np.uint64(1)


@kernel
def stored_boxes(words, layout, starts, columns, lo, hi):
    """Smallest and largest stored number (kernels/rowwords.py) of these columns in every leaf."""
    for c in columns:
        w = layout.word[c]
        shift = layout.shift[c]
        mask = limit_mask(layout.limit[c])
        for leaf in range(starts.shape[0] - 1):
            begin, end = starts[leaf], starts[leaf + 1]
            least = most = (words[begin, w] >> shift) & mask
            for i in range(begin + 1, end):
                stored = (words[i, w] >> shift) & mask
                least = min(least, stored)
                most = max(most, stored)
            lo[leaf, c] = least
            hi[leaf, c] = most


@kernel
def boxes_as_stored(order, box_lo, box_hi, axes, columns, below, missing, lo, hi):
    """The boxes order[0], order[1], ... on some axes, in kernel codes, as stored numbers of these axes' columns."""
    for leaf in range(order.shape[0]):
        box = order[leaf]
        for i in range(axes.shape[0]):
            least, most = box_lo[box, axes[i]], box_hi[box, axes[i]]
            c = columns[i]
            lo[leaf, c] = np.uint64(0) if least == missing else np.uint64(np.int64(least) - below[c])
            hi[leaf, c] = np.uint64(0) if most == missing else np.uint64(np.int64(most) - below[c])


@kernel
def unions_of_stored(lo, hi, ends, union_lo, union_hi):
    """Smallest and largest stored numbers of the first columns, of the leaves up to ends[b] together."""
    begin = np.int64(0)
    for b in range(ends.shape[0]):
        for c in range(union_lo.shape[1]):
            union_lo[b, c] = lo[begin, c]
            union_hi[b, c] = hi[begin, c]
        for leaf in range(begin + 1, ends[b]):
            for c in range(union_lo.shape[1]):
                union_lo[b, c] = min(union_lo[b, c], lo[leaf, c])
                union_hi[b, c] = max(union_hi[b, c], hi[leaf, c])
        begin = ends[b]


@kernel
def set_masks(words, layout, ends, columns, masks):
    """masks[b, m] becomes the set of categories (bit 63: missing) in column columns[m] of the rows up to ends[b]."""
    for m in range(columns.shape[0]):
        c = columns[m]
        w, shift, below = layout.word[c], layout.shift[c], layout.below[c]
        mask = limit_mask(layout.limit[c])
        begin = np.int64(0)
        for b in range(ends.shape[0]):
            found = np.uint64(0)
            for i in range(begin, ends[b]):
                stored = (words[i, w] >> shift) & mask
                bit = np.uint64(63) if stored == np.uint64(0) else np.uint64(np.int64(stored) + below)
                found |= np.uint64(1) << bit
            masks[b, m] = found
            begin = ends[b]


@kernel
def plan_bundles(left, right, root, starts, lo, hi, capacity, cut_bits, extra_words, ends):
    """Divide leaves in order into bundles that fit `capacity` words, each a whole subtree; the number of bundles.

    ends[b] is the first leaf behind bundle b. A leaf that does not fit is a bundle of its own. `cut_bits` bounds the
    bits per cut, `extra_words` the words that every bundle takes besides.
    """
    n_inner = left.shape[0]
    n_columns = lo.shape[1]
    node_lo = np.empty((n_inner, n_columns), np.uint64)
    node_hi = np.empty((n_inner, n_columns), np.uint64)
    first = np.empty(n_inner, np.int64)
    last = np.empty(n_inner, np.int64)
    largest = np.empty(n_inner, np.int64)  # leaf
    todo = np.empty(n_inner + 2, np.int64)
    visit = np.empty(n_inner, np.int64)
    todo[0] = root
    top = 1
    n_visited = 0
    while top > 0:
        top -= 1
        node = todo[top]
        if node < 0:
            continue
        visit[n_visited] = node
        n_visited += 1
        todo[top] = left[node]
        todo[top + 1] = right[node]
        top += 2
    for v in range(n_visited - 1, -1, -1):
        node = visit[v]
        one, other = left[node], right[node]
        first[node] = first[one] if one >= 0 else ~one
        last[node] = last[other] if other >= 0 else ~other
        size_one = largest[one] if one >= 0 else starts[~one + 1] - starts[~one]
        size_other = largest[other] if other >= 0 else starts[~other + 1] - starts[~other]
        largest[node] = max(size_one, size_other)
        for c in range(n_columns):
            lo_one = node_lo[one, c] if one >= 0 else lo[~one, c]
            lo_other = node_lo[other, c] if other >= 0 else lo[~other, c]
            hi_one = node_hi[one, c] if one >= 0 else hi[~one, c]
            hi_other = node_hi[other, c] if other >= 0 else hi[~other, c]
            node_lo[node, c] = min(lo_one, lo_other)
            node_hi[node, c] = max(hi_one, hi_other)
    n_bundles = 0
    todo[0] = root
    top = 1
    while top > 0:
        top -= 1
        node = todo[top]
        if node < 0:
            ends[n_bundles] = ~node + 1
            n_bundles += 1
            continue
        n_rows = starts[last[node] + 1] - starts[first[node]]
        n_leaves = last[node] + 1 - first[node]
        size = extra_words + vector_words(n_leaves, bits_of(np.uint64(largest[node]))) + 4
        size += vector_words(n_leaves, cut_bits)
        for c in range(n_columns):
            size += vector_words(n_rows, bits_of(node_hi[node, c] - node_lo[node, c]))
        if size <= capacity:
            ends[n_bundles] = last[node] + 1
            n_bundles += 1
        else:
            todo[top] = right[node]
            todo[top + 1] = left[node]
            top += 2
    return n_bundles


@kernel
def put_vector(values, n, vector, base, flags, out, at):
    """Write values[:n] as a vector whose entries begin at word `at`; the word behind them."""
    least = most = np.uint64(0)
    if n > 0:
        least = most = values[0]
        for i in range(n):
            least = min(least, values[i])
            most = max(most, values[i])
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

    `words` are packed rows in leaf order, `starts` the leaves; cut i lies between leaf i and leaf i + 1. `scratch` has
    room for the rows. Where the layout has a column for ids, it is the last one.
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
        for i in range(n_rows):
            scratch[i] = (words[begin + i, w] >> shift) & mask
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
