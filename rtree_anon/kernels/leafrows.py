"""Rows of many bundles at once: what a reader of an index does for every segment, in one call for all of its pages.

Invariant: nothing of a bundle is believed before it is checked against the length of its content and against what the
upper tree says of it, as `index.bundle` does for one bundle at a time and with words for what is wrong.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.boxes import ends_of_columns
from rtree_anon.kernels.bundles import CONSECUTIVE, HEADER_WORDS, TREE_VECTORS, get_columns, get_vector, vector_words
from rtree_anon.kernels.jit import kernel

_MOST_BITS = 64


@kernel
def read_bundles(pages, first, n_bytes, at_row, at_leaf, lo, hi, missing, gap, begin, codes, carried, starts):
    """Read bundles from number `begin` on, up to the first that is not as it should be; the number of that one.

    Bundle b has n_bytes[b] bytes on page first[b]. Its rows are at_row[b] .. at_row[b + 1] - 1, of codes and carried
    columns; its leaves are at_leaf[b] .. at_leaf[b + 1] - 1, and starts[i + 1] becomes the row behind leaf i. lo[b] and
    hi[b] are the ends of its codes, where `missing` stands for a missing value, which has the number `gap` in `codes`.
    """
    d = codes.shape[1]
    n_columns = d + carried.shape[1] + 1
    ends = np.empty((2, d), np.int64)
    for b in range(begin, first.shape[0]):
        bundle = pages[first[b]]
        row, end_row, leaf, end_leaf = at_row[b], at_row[b + 1], at_leaf[b], at_leaf[b + 1]
        if not _is_sound(bundle, n_bytes[b], end_row - row, end_leaf - leaf, n_columns):
            return b
        get_columns(bundle, np.int64(0), d, gap, codes[row:end_row])
        ends_of_columns(codes[row:end_row], ends[0], ends[1])
        for a in range(d):
            least = missing if ends[0, a] == gap else ends[0, a]
            most = missing if ends[1, a] == gap else ends[1, a]
            if least != lo[b, a] or most != hi[b, a]:
                return b
        get_columns(bundle, d, carried.shape[1], missing, carried[row:end_row])
        get_vector(bundle, n_columns, end_leaf - leaf, missing, starts[leaf + 1 : end_leaf + 1])
        for i in range(leaf, end_leaf):
            if starts[i + 1] < 1 or starts[i + 1] > end_row - starts[i]:
                return b
            starts[i + 1] += starts[i]
        if starts[end_leaf] != end_row:
            return b
    return first.shape[0]


@kernel
def _is_sound(bundle, n_bytes, n_rows, n_leaves, n_columns):
    """Whether a bundle has these counts, and vectors that fill its bytes."""
    n_vectors = n_columns + TREE_VECTORS
    n_words = n_bytes >> 3
    if n_bytes & 7 or n_words < HEADER_WORDS + 2 * n_vectors or n_words > bundle.shape[0]:
        return False
    if bundle[0] != np.uint64(n_rows) | (np.uint64(n_leaves) << np.uint64(32)) or bundle[1] != np.uint64(n_columns):
        return False
    if not 1 <= n_leaves <= n_rows:
        return False
    needed = HEADER_WORDS + 2 * n_vectors
    for v in range(n_vectors):
        about = bundle[HEADER_WORDS + 2 * v + 1]
        bits = np.int64(about & np.uint64(0xFF))
        if bits > _MOST_BITS or about >> np.uint64(8) > np.uint64(CONSECUTIVE):
            return False
        n = n_rows if v < n_columns else n_leaves - (v > n_columns)
        needed += vector_words(n, bits)
    return needed == n_words
