"""Groups for a release at k1: unions of whole leaves, each with at least k1 rows.

Because every group is made of whole leaves, a row is never separated from the others of its leaf in any release, so
that all releases of one tree are safe together at the tree's own k (Definition 2 and Lemma 1 of the R+-tree paper).

`order` lists the leaves in scan order, `sizes` their numbers of rows. Groups are returned as `ends`: group g is
order[ends[g-1]:ends[g]].
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.gauge import box_width
from rtree_anon.kernels.jit import kernel

# A group that has 2 * k1 rows besides its largest block can always be divided into two of k1 rows or more, and that
# never costs more. So the best groups are found among those with fewer.
WINDOW = 2
BLOCKS_PER_GROUP = 32  # leaves are first merged to blocks of about k1/32 rows, so that the time does not depend on k1


@kernel
def greedy_scan(order, sizes, k1):
    """The paper's leaf scan (section 3.2, Figure 5): close a group when it has k1 rows; the tail joins the last one."""
    n_leaves = order.shape[0]
    ends = np.empty(n_leaves, np.int64)
    n_groups = 0
    rows = 0
    for i in range(n_leaves):
        rows += sizes[order[i]]
        if rows >= k1:
            ends[n_groups] = i + 1
            n_groups += 1
            rows = 0
    if n_groups > 0:
        ends[n_groups - 1] = n_leaves
    return ends[:n_groups]


@kernel
def hierarchical_scan(left, right, root, sizes, k1):
    """The paper's hierarchical algorithm (section 3.1) on a binary tree: the lowest nodes whose siblings have k1 rows.

    A node is divided while both of its children have at least k1 rows. Groups are runs of leaves in tree order, so
    `ends` refers to leaves 0, 1, 2, ... and not to a scan order.
    """
    n_leaves = sizes.shape[0]
    before = np.zeros(n_leaves + 1, np.int64)
    for i in range(n_leaves):
        before[i + 1] = before[i] + sizes[i]
    ends = np.empty(n_leaves, np.int64)
    n_groups = 0
    todo = np.empty((n_leaves + 2, 3), np.int64)  # node, its first leaf, the end of its leaves
    todo[0, 0] = root
    todo[0, 1] = 0
    todo[0, 2] = n_leaves
    top = 1
    while top > 0:
        top -= 1
        node = todo[top, 0]
        begin = todo[top, 1]
        end = todo[top, 2]
        if node >= 0 and before[node + 1] - before[begin] >= k1 and before[end] - before[node + 1] >= k1:
            todo[top, 0] = right[node]
            todo[top, 1] = node + 1
            todo[top, 2] = end
            todo[top + 1, 0] = left[node]
            todo[top + 1, 1] = begin
            todo[top + 1, 2] = node + 1
            top += 2
        elif before[end] - before[begin] >= k1:
            ends[n_groups] = end
            n_groups += 1
    return ends[:n_groups]


@kernel
def optimal_scan(order, sizes, lo, hi, mask, gauge, k1):
    """The division of the scan order into groups with the least certainty penalty, by dynamic programming:

        best[e] = min over s of  best[s] + rows(s, e) * width(s, e),   rows(s, e) >= k1

    over blocks of whole leaves. Only groups with fewer than WINDOW * k1 rows besides their largest block are tried.
    """
    n_leaves = order.shape[0]
    block_end = np.empty(n_leaves, np.int64)
    n_blocks = 0
    rows = 0
    for i in range(n_leaves):
        rows += sizes[order[i]]
        if rows * BLOCKS_PER_GROUP >= k1:
            block_end[n_blocks] = i + 1
            n_blocks += 1
            rows = 0
    if n_blocks == 0:
        return block_end[:0]
    block_end[n_blocks - 1] = n_leaves
    d = lo.shape[1]
    n_masks = mask.shape[1]
    block_lo = np.empty((n_blocks, d), np.int32)
    block_hi = np.empty((n_blocks, d), np.int32)
    block_mask = np.empty((n_blocks, n_masks), np.uint64)
    block_rows = np.zeros(n_blocks, np.int64)
    begin = 0
    for b in range(n_blocks):
        block_lo[b] = lo[order[begin]]
        block_hi[b] = hi[order[begin]]
        block_mask[b] = mask[order[begin]]
        for i in range(begin, block_end[b]):
            leaf = order[i]
            block_rows[b] += sizes[leaf]
            for a in range(d):
                block_lo[b, a] = min(block_lo[b, a], lo[leaf, a])
                block_hi[b, a] = max(block_hi[b, a], hi[leaf, a])
            for a in range(n_masks):
                block_mask[b, a] |= mask[leaf, a]
        begin = block_end[b]

    best = np.full(n_blocks + 1, np.inf)
    best[0] = 0.0
    previous = np.full(n_blocks + 1, -1, np.int64)
    union_lo = np.empty(d, np.int32)
    union_hi = np.empty(d, np.int32)
    union_mask = np.empty(n_masks, np.uint64)
    for e in range(1, n_blocks + 1):
        union_lo[:] = block_lo[e - 1]
        union_hi[:] = block_hi[e - 1]
        union_mask[:] = block_mask[e - 1]
        rows = 0
        largest = 0
        for s in range(e - 1, -1, -1):
            for a in range(d):
                union_lo[a] = min(union_lo[a], block_lo[s, a])
                union_hi[a] = max(union_hi[a], block_hi[s, a])
            for a in range(n_masks):
                union_mask[a] |= block_mask[s, a]
            rows += block_rows[s]
            largest = max(largest, block_rows[s])
            if rows >= k1:
                if best[s] < np.inf:
                    cost = best[s] + rows * box_width(gauge, union_lo, union_hi, union_mask)
                    if cost < best[e]:
                        best[e] = cost
                        previous[e] = s
                if rows - largest >= WINDOW * k1:
                    break
    if best[n_blocks] == np.inf:
        return block_end[:0]
    n_groups = 0
    e = n_blocks
    while e > 0:
        e = previous[e]
        n_groups += 1
    ends = np.empty(n_groups, np.int64)
    e = n_blocks
    for g in range(n_groups - 1, -1, -1):
        ends[g] = block_end[e - 1]
        e = previous[e]
    return ends
