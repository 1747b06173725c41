"""Strict multidimensional Mondrian (LeFevre, DeWitt, Ramakrishnan, ICDE 2006): the R+-tree paper's rival.

A node is cut at the median of the attribute with the widest normalized range; where that leaves fewer than k rows on a
side, the next widest is tried. Categories are taken in the order of their codes, as the paper does. The cuts are
recorded like those of our own tree (cutting.py), so that everything after the cutting is shared.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.cutting import partition_rows
from rtree_anon.kernels.gauge import MASK, MISSING_BIT, range_width
from rtree_anon.kernels.guard import sides_hold
from rtree_anon.kernels.jit import kernel


@kernel
def grow_mondrian(rows, start, m, depth, k, gauge, guard, record):
    """Cut rows[start:start+m], a node at this depth, down to groups of at least k rows that satisfy the guard's model.

    `guard` is None where there is no model. A median cut that leaves a side which breaks it is passed over for the next
    widest attribute, as one that leaves too few rows.
    """
    d = gauge.kind.shape[0]
    lo = np.empty(d, np.int32)
    hi = np.empty(d, np.int32)
    width = np.empty(d)
    column = np.empty(m, np.int32)
    stack = np.empty((256, 3), np.int64)
    stack[0, 0] = start
    stack[0, 1] = m
    stack[0, 2] = depth
    top = 1
    while top > 0:
        top -= 1
        start = stack[top, 0]
        m = stack[top, 1]
        depth = stack[top, 2]
        if m < 2 * k:
            continue
        for a in range(d):
            lo[a] = rows[start, a]
            hi[a] = rows[start, a]
        for i in range(start + 1, start + m):
            for a in range(d):
                lo[a] = min(lo[a], rows[i, a])
                hi[a] = max(hi[a], rows[i, a])
        for a in range(d):
            if gauge.kind[a] == MASK:  # the span of the codes; missing has the last code, wherever the others end
                mixed = lo[a] < hi[a] and hi[a] == MISSING_BIT
                width[a] = gauge.full[a] if mixed else (hi[a] - lo[a]) * gauge.scale[a]
            else:
                width[a] = range_width(gauge, a, lo[a], hi[a])
        for _ in range(d):
            axis = np.argmax(width)
            if width[axis] <= 0.0:
                break
            for i in range(m):
                column[i] = rows[start + i, axis]
            threshold, left = _median_cut(column, m)
            if left >= k and m - left >= k:
                left_set = np.uint64(0)
                if gauge.kind[axis] == MASK:
                    left_set = (np.uint64(1) << np.uint64(threshold)) - np.uint64(1)
                partition_rows(rows, start, m, gauge, axis, threshold, left_set)
                if guard is not None and not sides_hold(rows, start, m, left, guard):
                    width[axis] = 0.0
                    continue
                record.depth[start + left] = depth
                record.axis[start + left] = axis
                record.threshold[start + left] = threshold
                record.left_set[start + left] = left_set
                larger, smaller = left, m - left
                at_larger, at_smaller = start, start + left
                if larger < smaller:
                    larger, smaller = smaller, larger
                    at_larger, at_smaller = at_smaller, at_larger
                stack[top, 0] = at_larger
                stack[top, 1] = larger
                stack[top, 2] = depth + 1
                stack[top + 1, 0] = at_smaller
                stack[top + 1, 1] = smaller
                stack[top + 1, 2] = depth + 1
                top += 2
                break
            width[axis] = 0.0


@kernel
def _median_cut(column, m):
    """The value cut nearest to the median: (first value of the right side, size of the left). Reorders `column`."""
    middle = m // 2
    lo = 0
    hi = m - 1
    while lo < hi:  # quickselect: afterwards column[:middle] <= column[middle] <= column[middle+1:]
        pivot = column[(lo + hi) >> 1]
        i = lo
        j = hi
        while i <= j:
            while column[i] < pivot:
                i += 1
            while column[j] > pivot:
                j -= 1
            if i <= j:
                column[i], column[j] = column[j], column[i]
                i += 1
                j -= 1
        if middle <= j:
            hi = j
        elif middle >= i:
            lo = i
        else:
            break
    median = column[middle]
    below = 0
    equal = 0
    after = median  # the smallest value above the median
    for i in range(m):
        if column[i] < median:
            below += 1
        elif column[i] == median:
            equal += 1
        elif after == median or column[i] < after:
            after = column[i]
    if abs(2 * below - m) <= abs(2 * (below + equal) - m):
        return median, below
    return after, below + equal
