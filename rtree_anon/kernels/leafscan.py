"""Groups for a release at k1: unions of whole leaves, each with at least k1 rows.

Because every group is made of whole leaves, a row is never separated from the others of its leaf in any release, so
that all releases of one tree are safe together at the tree's own k (Definition 2 and Lemma 1 of the R+-tree paper).

`order` lists the leaves in scan order, `sizes` their numbers of rows. Groups are returned as `ends`: group g is
order[ends[g-1]:ends[g]].
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.gauge import mask_width, range_width
from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.search import LANES

# A group that has 2 * k1 rows besides its largest block can always be divided into two of k1 rows or more, and that
# never costs more. So the best groups are found among those with fewer.
WINDOW = 2
BLOCKS_PER_GROUP = 24  # leaves are first merged to blocks of about k1/24 rows, so that the time does not depend on k1


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
    block_end, block_rows, block_lo, block_hi, block_mask = merge_blocks(order, sizes, lo, hi, mask, k1)
    n_blocks = block_end.shape[0]
    if n_blocks == 0:
        return block_end
    near, far = lanes_of_boxes(block_lo, block_hi, gauge)
    widths = np.empty(n_blocks)
    best = np.full(n_blocks + 1, np.inf)
    best[0] = 0.0
    previous = np.full(n_blocks + 1, -1, np.int64)
    for e in range(1, n_blocks + 1):
        first = e
        rows = 0
        largest = 0
        while first > 0 and (rows < k1 or rows - largest < WINDOW * k1):
            first -= 1
            rows += block_rows[first]
            largest = max(largest, block_rows[first])
        measure_unions(near, far, block_lo, block_hi, block_mask, gauge, first, e, widths)
        rows = 0
        for s in range(e - 1, first - 1, -1):
            rows += block_rows[s]
            if rows >= k1 and best[s] < np.inf:
                cost = best[s] + rows * widths[s]
                if cost < best[e]:
                    best[e] = cost
                    previous[e] = s
    if best[n_blocks] == np.inf:
        return block_end[:0]
    return read_ends(previous, block_end)


@kernel
def merge_blocks(order, sizes, lo, hi, mask, k1):
    """Leaves in scan order merged to blocks of about k1/BLOCKS_PER_GROUP rows: their ends, rows and boxes.

    No block where there are fewer rows than that in all.
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
    if n_blocks > 0:
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
    return block_end[:n_blocks], block_rows, block_lo, block_hi, block_mask


@kernel
def read_ends(previous, block_end):
    """The ends of the groups, from where the last group of the best division before each block begins."""
    n_groups = 0
    e = block_end.shape[0]
    while e > 0:
        e = previous[e]
        n_groups += 1
    ends = np.empty(n_groups, np.int64)
    e = block_end.shape[0]
    for g in range(n_groups - 1, -1, -1):
        ends[g] = block_end[e - 1]
        e = previous[e]
    return ends


@kernel
def measure_unions(near, far, lo, hi, mask, gauge, first, end, widths):
    """widths[s] = the width of the union of the boxes s .. end - 1, for s from first to end - 1."""
    for s in range(first, end):
        widths[s] = 0.0
    for sweep in range(near.shape[1]):
        _sweep_boxes(near, far, first, end, sweep, widths)
    _sweep_other_axes(lo, hi, mask, gauge, first, end, widths)


@kernel
def lanes_of_boxes(lo, hi, gauge):
    """The LINEAR sides of boxes in units of width, LANES axes side by side: (boxes, sweeps, LANES); the rest is 0."""
    n_sweeps = (gauge.n_linear + LANES - 1) // LANES
    near = np.zeros((lo.shape[0], n_sweeps, LANES))
    far = np.zeros((lo.shape[0], n_sweeps, LANES))
    for box in range(lo.shape[0]):
        for a in range(gauge.n_linear):
            near[box, a // LANES, a % LANES] = lo[box, a] * gauge.scale[a]
            far[box, a // LANES, a % LANES] = hi[box, a] * gauge.scale[a]
    return near, far


@kernel
def _sweep_boxes(near, far, first, end, sweep, widths):
    """Add to widths[s] the width, on LANES axes, of the union of the boxes s .. end - 1, for s from end - 1 to first.

    Written out lane by lane: the union stays in registers, which makes the scan 1.5 times as fast at k1 = 100.
    """
    at = end - 1
    lo0, lo1, lo2, lo3 = near[at, sweep, 0], near[at, sweep, 1], near[at, sweep, 2], near[at, sweep, 3]
    lo4, lo5, lo6, lo7 = near[at, sweep, 4], near[at, sweep, 5], near[at, sweep, 6], near[at, sweep, 7]
    hi0, hi1, hi2, hi3 = far[at, sweep, 0], far[at, sweep, 1], far[at, sweep, 2], far[at, sweep, 3]
    hi4, hi5, hi6, hi7 = far[at, sweep, 4], far[at, sweep, 5], far[at, sweep, 6], far[at, sweep, 7]
    for s in range(end - 1, first - 1, -1):
        lo0 = near[s, sweep, 0] if near[s, sweep, 0] < lo0 else lo0
        lo1 = near[s, sweep, 1] if near[s, sweep, 1] < lo1 else lo1
        lo2 = near[s, sweep, 2] if near[s, sweep, 2] < lo2 else lo2
        lo3 = near[s, sweep, 3] if near[s, sweep, 3] < lo3 else lo3
        lo4 = near[s, sweep, 4] if near[s, sweep, 4] < lo4 else lo4
        lo5 = near[s, sweep, 5] if near[s, sweep, 5] < lo5 else lo5
        lo6 = near[s, sweep, 6] if near[s, sweep, 6] < lo6 else lo6
        lo7 = near[s, sweep, 7] if near[s, sweep, 7] < lo7 else lo7
        hi0 = far[s, sweep, 0] if far[s, sweep, 0] > hi0 else hi0
        hi1 = far[s, sweep, 1] if far[s, sweep, 1] > hi1 else hi1
        hi2 = far[s, sweep, 2] if far[s, sweep, 2] > hi2 else hi2
        hi3 = far[s, sweep, 3] if far[s, sweep, 3] > hi3 else hi3
        hi4 = far[s, sweep, 4] if far[s, sweep, 4] > hi4 else hi4
        hi5 = far[s, sweep, 5] if far[s, sweep, 5] > hi5 else hi5
        hi6 = far[s, sweep, 6] if far[s, sweep, 6] > hi6 else hi6
        hi7 = far[s, sweep, 7] if far[s, sweep, 7] > hi7 else hi7
        widths[s] += ((hi0 - lo0) + (hi1 - lo1) + ((hi2 - lo2) + (hi3 - lo3))) + (
            (hi4 - lo4) + (hi5 - lo5) + ((hi6 - lo6) + (hi7 - lo7))
        )


@kernel
def _sweep_other_axes(lo, hi, mask, gauge, first, end, widths):
    """The same for the axes that are not LINEAR."""
    for a in range(gauge.n_linear, gauge.n_masked):
        union = np.uint64(0)
        for s in range(end - 1, first - 1, -1):
            union |= mask[s, a - gauge.n_linear]
            widths[s] += mask_width(gauge, a, union)
    for a in range(gauge.n_masked, gauge.kind.shape[0]):
        union_lo = lo[end - 1, a]
        union_hi = hi[end - 1, a]
        for s in range(end - 1, first - 1, -1):
            union_lo = min(union_lo, lo[s, a])
            union_hi = max(union_hi, hi[s, a])
            widths[s] += range_width(gauge, a, union_lo, union_hi)
