"""Which leaves share a page: the largest subtrees whose rows fit one, packed as kernels/bundles.py packs them.

What a subtree takes depends on the ranges of its columns, and these need a look at all rows. Columns cannot take more
bits than their whole domain does, though, so that most of the tree is decided without one:

    sure_units     the largest subtrees that fit a page whatever their values are, by the domain's bits
    stored_boxes   the ranges of the columns, once for every unit (rows of a subtree are next to each other)
    plan_bundles   the largest subtrees of units that fit by these ranges

The plan is the same as if every leaf were looked at: what is inside of something that fits, fits.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.bundles import bits_of, vector_words
from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.leaforder import list_nodes
from rtree_anon.kernels.rowwords import limit_mask

_SIZE_BITS = 16  # are more than the sizes of nearly all leaves take


@kernel
def sure_units(depth, starts, limits, capacity, cut_bits, extra_words, ends, largest):
    """Divide leaves in order into units that fit `capacity` words in any case, each a whole subtree; their number.

    ends[u] is the first leaf behind unit u, largest[u] the rows of its largest leaf. `depth` has the depths of the
    cuts, limits[c] is the largest stored number of column c. A leaf that may not fit is a unit of its own. See
    `plan_bundles` for the rest.

    One pass from the first leaf to the last: a subtree is complete where a cut above it follows. What it takes grows
    with what is in it, so that one with a side that does not fit need not be looked at.
    """
    n_inner = depth.shape[0]
    bits = np.empty(limits.shape[0], np.int64)
    for c in range(limits.shape[0]):
        bits[c] = bits_of(limits[c])
    row_bits = bits.sum()
    rounding = extra_words + limits.shape[0] + 6  # words that are only begun, and those that `tree_words` adds
    side_depth = np.empty(n_inner, np.int64)  # of cuts whose right side is not complete; of their left side:
    side_begin = np.empty(n_inner, np.int64)
    side_most = np.empty(n_inner, np.int64)  # rows of a leaf
    side_fits = np.empty(n_inner, np.bool_)
    top = 0
    n_units = 0
    for leaf in range(n_inner + 1):
        begin, most, fits = leaf, starts[leaf + 1] - starts[leaf], True
        ends[n_units] = leaf + 1
        largest[n_units] = most
        n_units += 1
        following = np.int64(depth[leaf]) if leaf < n_inner else np.int64(-1)
        while top > 0 and side_depth[top - 1] > following:
            top -= 1
            begin, most, fits = side_begin[top], max(most, side_most[top]), fits and side_fits[top]
            if not fits:
                continue
            n_leaves, n_rows = leaf + 1 - begin, starts[leaf + 1] - starts[begin]
            bound = rounding + ((n_rows * row_bits + n_leaves * (cut_bits + _SIZE_BITS)) >> 6)
            if bound > capacity or most >= 1 << _SIZE_BITS:
                size = extra_words + tree_words(n_leaves, most, cut_bits)
                for c in range(bits.shape[0]):
                    size += vector_words(n_rows, bits[c])
                fits = size <= capacity
            if fits:  # both sides are one unit each
                n_units -= 1
                ends[n_units - 1] = leaf + 1
                largest[n_units - 1] = most
        if leaf < n_inner:
            side_depth[top] = following
            side_begin[top] = begin
            side_most[top] = most
            side_fits[top] = fits
            top += 1
    return n_units


@kernel
def tree_words(n_leaves, largest, cut_bits):
    """A bound for the words that the leaves of a bundle and the cuts between them take."""
    return vector_words(n_leaves, bits_of(np.uint64(largest))) + vector_words(n_leaves, cut_bits) + 4


@kernel
def stored_boxes(words, layout, starts, lo, hi):
    """Smallest and largest stored number (kernels/rowwords.py) of every column in the rows of every unit.

    Rows are words[word, row]; unit u has the rows from starts[u] to starts[u+1]-1.
    """
    n_columns = layout.word.shape[0]
    for u in range(starts.shape[0] - 1):
        for c in range(n_columns):
            w = layout.word[c]
            shift = layout.shift[c]
            mask = limit_mask(layout.limit[c])
            least = ~np.uint64(0)
            most = np.uint64(0)
            column = words[w, starts[u] : starts[u + 1]]
            for i in range(column.shape[0]):  # by number: numba makes vectors of that, but not of "for word in column"
                stored = (column[i] >> shift) & mask
                least = min(least, stored)
                most = max(most, stored)
            lo[u, c] = least
            hi[u, c] = most


@kernel
def plan_bundles(left, right, root, starts, leaves, largest, lo, hi, capacity, cut_bits, extra_words, ends):
    """Divide units in order into bundles that fit `capacity` words, each a whole subtree; the number of bundles.

    ends[b] is the first unit behind bundle b. Unit u has the leaves from leaves[u] to leaves[u+1]-1 with the rows from
    starts[u] to starts[u+1]-1, at most largest[u] of them in a leaf, and stored numbers between lo[u] and hi[u]. A unit
    that does not fit is a bundle of its own. `cut_bits` bounds the bits per cut, `extra_words` the words that every
    bundle takes besides.
    """
    n_inner = left.shape[0]
    n_columns = lo.shape[1]
    node_lo = np.empty((n_inner, n_columns), np.uint64)
    node_hi = np.empty((n_inner, n_columns), np.uint64)
    first = np.empty(n_inner, np.int64)
    last = np.empty(n_inner, np.int64)
    most = np.empty(n_inner, np.int64)
    todo = np.empty(n_inner + 2, np.int64)
    visit = np.empty(n_inner, np.int64)
    n_visited = list_nodes(left, right, root, todo, visit)
    for v in range(n_visited - 1, -1, -1):
        node = visit[v]
        one, other = left[node], right[node]
        first[node] = first[one] if one >= 0 else ~one
        last[node] = last[other] if other >= 0 else ~other
        most[node] = max(most[one] if one >= 0 else largest[~one], most[other] if other >= 0 else largest[~other])
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
        begin, end = first[node], last[node] + 1
        n_rows = starts[end] - starts[begin]
        size = extra_words + tree_words(leaves[end] - leaves[begin], most[node], cut_bits)
        for c in range(n_columns):
            size += vector_words(n_rows, bits_of(node_hi[node, c] - node_lo[node, c]))
        if size <= capacity:
            ends[n_bundles] = end
            n_bundles += 1
        else:
            todo[top] = right[node]
            todo[top + 1] = left[node]
            top += 2
    return n_bundles


@kernel
def unions_of_units(lo, hi, ends, union_lo, union_hi):
    """Smallest and largest stored numbers of every column, of the units up to ends[b] together."""
    begin = np.int64(0)
    for b in range(ends.shape[0]):
        for c in range(union_lo.shape[1]):
            union_lo[b, c] = lo[begin, c]
            union_hi[b, c] = hi[begin, c]
        for unit in range(begin + 1, ends[b]):
            for c in range(union_lo.shape[1]):
                union_lo[b, c] = min(union_lo[b, c], lo[unit, c])
                union_hi[b, c] = max(union_hi[b, c], hi[unit, c])
        begin = ends[b]
