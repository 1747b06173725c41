"""Blocks of consecutive leaves and the widths of their unions, for scans that look at the rows of every group they try.

`leafscan` has faster ones for groups that are judged by their number of rows alone.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.gauge import mask_width, range_width
from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.lanes import LANES

BLOCKS_PER_GROUP = 24  # leaves are first merged to blocks of about k1/24 rows, so that the time does not depend on k1


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
