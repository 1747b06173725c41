"""Upkeep of leaves: which ones a batch of inserts and deletes makes too small or too large.

A stretch of the index is a whole subtree: leaves in order, cuts between neighbours (kernels/leaforder.py), rows leaf by
leaf. A batch is worked in like this (R+-tree paper, section 2.2; DESIGN: no leaf below k at any moment):

    settle_leaves   a cut that leaves fewer than k rows on one side is dropped, and those rows go down the other side
    choose_regions  subtrees that are cut again, because a leaf in them could be divided (recutting.py does it)
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.leaforder import list_nodes


@kernel
def node_spans(first, second, root, begin, end, visit):
    """Leaves begin[i] .. end[i]-1 are below inner node i; `visit` lists the inner nodes, parents first."""
    n_visited = list_nodes(first, second, root, np.empty(first.shape[0] + 2, np.int64), visit)
    for v in range(n_visited - 1, -1, -1):
        node = visit[v]
        begin[node] = begin[first[node]] if first[node] >= 0 else ~first[node]
        end[node] = end[second[node]] if second[node] >= 0 else ~second[node] + 1


@kernel
def settle_leaves(first, second, root, counts, k, kept, orphan):
    """Which cuts are kept so that every leaf has k rows, and which leaves' rows have to find another; their number.

    Without an orphan, leaves that are no longer separated by a cut are one leaf now. A tree with fewer than k rows
    becomes a single leaf.
    """
    n_inner = first.shape[0]
    kept[:] = False
    orphan[:] = False
    begin = np.empty(n_inner, np.int64)
    end = np.empty(n_inner, np.int64)
    visit = np.empty(n_inner, np.int64)
    node_spans(first, second, root, begin, end, visit)
    sums = np.zeros(counts.shape[0] + 1, np.int64)
    for i in range(counts.shape[0]):
        sums[i + 1] = sums[i] + counts[i]
    todo = np.empty(n_inner + 2, np.int64)
    todo[0] = root
    top = 1
    n_orphans = 0
    while top > 0:
        top -= 1
        node = todo[top]
        if node < 0:
            continue
        one, other = first[node], second[node]
        middle = end[one] if one >= 0 else ~one + 1
        enough_one = sums[middle] - sums[begin[node]] >= k
        enough_other = sums[end[node]] - sums[middle] >= k
        if enough_one and enough_other:
            kept[node] = True
            todo[top] = one
            todo[top + 1] = other
            top += 2
        elif enough_one or enough_other:
            weak_begin = middle if enough_one else begin[node]
            weak_end = end[node] if enough_one else middle
            for leaf in range(weak_begin, weak_end):
                orphan[leaf] = True
                n_orphans += 1
            todo[top] = one if enough_one else other
            top += 1
    return n_orphans


@kernel
def choose_regions(depth, starts, changed, k, most_rows, rows_per_leaf, begin, end):
    """Subtrees to be cut again, as ranges of leaves in order; their number. `depth` has the depths of the cuts.

    A changed leaf with 2k rows or more is one. So is a subtree with changed leaves, of at most `most_rows` rows, that
    has rows enough for more leaves than it would have otherwise: inserts fill leaves, and what neighbours can spare
    makes a new one. It must be worth it: for each leaf more, at most `rows_per_leaf` rows are cut again that would not
    be anyway. The largest such subtrees are taken.

    One pass from the first leaf to the last: a subtree is complete where a cut above it follows, and takes the place of
    the regions inside it.
    """
    n_inner = depth.shape[0]
    waiting = np.empty(n_inner, np.int64)  # cuts whose right side is not complete, by depth; of their left side:
    side_begin = np.empty(n_inner, np.int64)
    side_leaves = np.empty(n_inner, np.int64)  # expected
    side_changed = np.empty(n_inner, np.bool_)
    side_recut = np.empty(n_inner, np.int64)  # rows in regions
    top = 0
    n_regions = 0
    for leaf in range(n_inner + 1):
        first, n_leaves, dirty, n_recut = leaf, np.int64(1), changed[leaf], np.int64(0)
        n = starts[leaf + 1] - starts[leaf]
        if dirty and n >= 2 * k:
            n_leaves = n // k
            n_recut = n
            begin[n_regions] = leaf
            end[n_regions] = leaf + 1
            n_regions += 1
        following = depth[leaf] if leaf < n_inner else np.int32(-1)
        while top > 0 and depth[waiting[top - 1]] > following:
            top -= 1
            first = side_begin[top]
            n_leaves += side_leaves[top]
            dirty |= side_changed[top]
            n_recut += side_recut[top]
            n = starts[leaf + 1] - starts[first]
            if dirty and n >= (n_leaves + 1) * k and n <= most_rows:
                n_more = n // k - n_leaves
                if n - n_recut > n_more * rows_per_leaf:
                    continue
                n_leaves += n_more
                n_recut = n
                while n_regions > 0 and begin[n_regions - 1] >= first:
                    n_regions -= 1
                begin[n_regions] = first
                end[n_regions] = leaf + 1
                n_regions += 1
        if leaf < n_inner:
            waiting[top] = leaf
            side_begin[top] = first
            side_leaves[top] = n_leaves
            side_changed[top] = dirty
            side_recut[top] = n_recut
            top += 1
    return n_regions


@kernel
def choose_stretches(first, second, root, n_rows, touched, k, most_rows, begin, end):
    """Subtrees of bundles that are renewed together, as ranges of bundles in order; their number.

    All bundles of a stretch are touched; it has at least k rows, and at most `most_rows` unless it is one bundle. The
    tree is one that `settle_leaves` leaves: where a side has fewer than k rows, so has the other.
    """
    n_inner = first.shape[0]
    span_begin = np.empty(n_inner, np.int64)
    span_end = np.empty(n_inner, np.int64)
    visit = np.empty(n_inner, np.int64)
    node_spans(first, second, root, span_begin, span_end, visit)
    rows = np.zeros(n_inner + 2, np.int64)
    hits = np.zeros(n_inner + 2, np.int64)
    for i in range(n_inner + 1):
        rows[i + 1] = rows[i] + n_rows[i]
        hits[i + 1] = hits[i] + (1 if touched[i] else 0)
    todo = np.empty(n_inner + 2, np.int64)
    todo[0] = root
    top = 1
    n_stretches = 0
    while top > 0:
        top -= 1
        node = todo[top]
        a = span_begin[node] if node >= 0 else ~node
        b = span_end[node] if node >= 0 else ~node + 1
        if hits[b] == hits[a]:
            continue
        weak = node >= 0 and rows[span_end[first[node]] if first[node] >= 0 else ~first[node] + 1] - rows[a] < k
        if node < 0 or weak or (hits[b] - hits[a] == b - a and rows[b] - rows[a] <= most_rows):
            begin[n_stretches] = a
            end[n_stretches] = b
            n_stretches += 1
            continue
        todo[top] = second[node]
        todo[top + 1] = first[node]
        top += 2
    return n_stretches
