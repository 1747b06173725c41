"""Tight boxes around runs of rows, and unions of boxes.

A box is int32 lo[d] and hi[d] (inclusive codes; not set on MASK axes) and uint64 mask[number of MASK axes]. Compaction
(R+-tree paper, section 4) is nothing but this: the values that occur, and no more.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment, call-arg, unreachable"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.gauge import box_width
from rtree_anon.kernels.jit import kernel, lean_inlined
from rtree_anon.kernels.lanes import LANES, box_of_members, box_of_rows
from rtree_anon.kernels.sides import SETS, sets_of_members


@kernel
def boxes_of_runs(rows, starts, gauge, lo, hi, mask):
    """The tight box of rows[starts[i]:starts[i+1]], for every i; no run is empty."""
    d = gauge.kind.shape[0]
    first_mask, end_mask = gauge.n_linear, gauge.n_masked
    for run in range(starts.shape[0] - 1):
        begin, end = starts[run], starts[run + 1]
        for a in range(first_mask, end_mask):
            found = np.uint64(0)
            for i in range(begin, end):
                found |= np.uint64(1) << np.uint64(rows[i, a])
            mask[run, a - first_mask] = found
        if d >= LANES:  # vectors of axes; the last one overlaps with the one before it
            for a in range(0, d - LANES, LANES):
                box_of_rows(rows, begin, end, np.int64(a), lo, hi, np.int64(run))
            box_of_rows(rows, begin, end, np.int64(d - LANES), lo, hi, np.int64(run))
            continue
        for a in range(d):
            if first_mask <= a < end_mask:
                continue
            least = most = rows[begin, a]
            for i in range(begin + 1, end):
                least = min(least, rows[i, a])
                most = max(most, rows[i, a])
            lo[run, a] = least
            hi[run, a] = most


@lean_inlined
def boxes_of_members(rows, members, starts, n_runs, gauge, lo, hi, mask):
    """The tight box of the rows members[starts[i]:starts[i+1]], for the first n_runs; no run is empty."""
    d = gauge.kind.shape[0]
    first_mask, end_mask = gauge.n_linear, gauge.n_masked
    for run in range(n_runs):
        begin, end = starts[run], starts[run + 1]
        paired = first_mask + (end_mask - first_mask) // SETS * SETS
        for a in range(first_mask, paired, SETS):
            sets_of_members(rows, members, begin, end, np.int64(a), mask, np.int64(run), np.int64(a - first_mask))
        for a in range(paired, end_mask):
            found = np.uint64(0)
            for i in range(begin, end):
                found |= np.uint64(1) << np.uint64(rows[members[i], a])
            mask[run, a - first_mask] = found
        if d >= LANES:
            for a in range(0, d - LANES, LANES):
                box_of_members(rows, members, begin, end, np.int64(a), lo, hi, np.int64(run))
            box_of_members(rows, members, begin, end, np.int64(d - LANES), lo, hi, np.int64(run))
            continue
        for a in range(d):
            if first_mask <= a < end_mask:
                continue
            least = most = rows[members[begin], a]
            for i in range(begin + 1, end):
                least = min(least, rows[members[i], a])
                most = max(most, rows[members[i], a])
            lo[run, a] = least
            hi[run, a] = most


@kernel
def ends_of_columns(rows, lo, hi):
    """The smallest and the largest number of every column of rows, of which there is one at least."""
    for a in range(rows.shape[1]):
        lo[a] = rows[0, a]
        hi[a] = rows[0, a]
    for i in range(1, rows.shape[0]):
        for a in range(rows.shape[1]):
            lo[a] = min(lo[a], rows[i, a])
            hi[a] = max(hi[a], rows[i, a])


@kernel
def unions_of_boxes(order, ends, first, last, lo, hi, mask, union_lo, union_hi, union_mask):
    """The union of the boxes order[ends[g-1]:ends[g]], for every g from `first` to `last` - 1."""
    begin = ends[first - 1] if first > 0 else 0
    for g in range(first, last):
        end = ends[g]
        for a in range(lo.shape[1]):
            lowest = lo[order[begin], a]
            highest = hi[order[begin], a]
            for at in range(begin + 1, end):
                lowest = min(lowest, lo[order[at], a])
                highest = max(highest, hi[order[at], a])
            union_lo[g, a] = lowest
            union_hi[g, a] = highest
        for a in range(mask.shape[1]):
            union = mask[order[begin], a]
            for at in range(begin + 1, end):
                union |= mask[order[at], a]
            union_mask[g, a] = union
        begin = end


@kernel
def widths_of_boxes(gauge, lo, hi, mask, widths):
    """The width of every box, in units of the certainty penalty."""
    for box in range(lo.shape[0]):
        widths[box] = box_width(gauge, lo[box], hi[box], mask[box])
