"""The most even cut of a node, found by looking at all rows: for nodes whose sample misled.

These are mostly rows that are nearly all the same, or whose values are too close for their width to be a number above
0; and, where there is a privacy model, large nodes whose sampled cut leaves a side that breaks it.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.gauge import MASK
from rtree_anon.kernels.guard import weigh_cuts
from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.room import can_be_weighed


@kernel
def even_cut(rows, start, m, k, gauge, preferred, favourite):
    """A cut of the preferred axes (or of the others) with k rows on both sides, wherever one exists.

    On an axis with an order, with v its median, a cut below v is possible only if k rows lie below v, and a cut above
    only if k rows lie above; so looking at both sides of v misses nothing. On a MASK axis, the categories by frequency.
    The most even cut wins. Returns (axis, threshold, left_set), axis -1 where no cut is possible.
    """
    d = gauge.kind.shape[0]
    best_axis = np.int64(-1)
    best_threshold = np.int32(0)
    best_set = np.uint64(0)
    least = k - 1  # rows on the smaller side
    for a in range(d):
        if preferred[a] != favourite:
            continue
        if gauge.kind[a] == MASK:
            count, ranked = _ranked_categories(rows, start, m, a)
            below = 0
            left_set = np.uint64(0)
            for r in range(63):
                below += count[ranked[r]]
                left_set |= np.uint64(1) << np.uint64(ranked[r])
                if min(below, m - below) > least:
                    least = min(below, m - below)
                    best_axis = a
                    best_set = left_set
            continue
        column = np.sort(rows[start : start + m, a])
        median = column[m // 2]
        below = np.searchsorted(column, median, "left")
        upto = np.searchsorted(column, median, "right")
        if min(below, m - below) > least:
            least = min(below, m - below)
            best_axis = a
            best_threshold = median
        if min(upto, m - upto) > least:
            least = min(upto, m - upto)
            best_axis = a
            best_threshold = column[upto]
    return best_axis, best_threshold, best_set


@kernel
def even_valid_cut(rows, start, m, k, gauge, preferred, favourite, guard):
    """A cut with both sides satisfying the guard's constraint, wherever one exists: every position is judged.

    The one that divides the room of the constraint (room.py) most evenly wins, so that the nodes below are few levels
    deep even where almost all rows are on one side of every cut; among equals the one that divides the rows so.
    """
    number = rows.shape[1] - 1
    best_axis = np.int64(-1)
    best_threshold = np.int32(0)
    best_set = np.uint64(0)
    least = 0
    least_room = -1.0
    order = np.empty(m, np.uint32)  # row numbers, sorted by key
    valid = np.empty(m + 1, np.bool_)
    left_needed = np.empty(m + 1)
    right_needed = np.empty(m + 1)
    constraint = guard.constraint
    numbers = rows[:, number]
    if not can_be_weighed(constraint.codes, numbers, start, start + m, constraint, guard.tally):
        return best_axis, best_threshold, best_set
    for a in range(gauge.kind.shape[0]):
        if preferred[a] != favourite:
            continue
        keys = np.empty(m, np.int64)
        ranked = np.zeros(64, np.int64)
        for i in range(m):
            keys[i] = rows[start + i, a]
        if gauge.kind[a] == MASK:
            _, ranked = _ranked_categories(rows, start, m, a)
            rank = np.zeros(64, np.int64)
            for r in range(64):
                rank[ranked[r]] = r
            for i in range(m):
                keys[i] = rank[keys[i]]
        by_key = np.argsort(keys, kind="mergesort")
        keys = keys[by_key]
        if keys[0] == keys[m - 1]:
            continue
        for i in range(m):
            order[i] = rows[start + by_key[i], number]
        first, last = weigh_cuts(
            constraint.codes, order, keys, m, k, constraint, guard.tally, valid, left_needed, right_needed
        )
        for at in range(first, last + 1):
            if not valid[at]:
                continue
            room = min(at / max(left_needed[at], k), (m - at) / max(right_needed[at], k))
            if room > least_room or (room == least_room and min(at, m - at) > least):
                least_room = room
                least = min(at, m - at)
                best_axis = np.int64(a)
                if gauge.kind[a] == MASK:
                    best_set = np.uint64(0)
                    for r in range(keys[at]):
                        best_set |= np.uint64(1) << np.uint64(ranked[r])
                else:
                    best_threshold = np.int32(keys[at])
    return best_axis, best_threshold, best_set


@kernel
def _ranked_categories(rows, start, m, a):
    """How often each category of a MASK axis occurs, and the categories by frequency."""
    count = np.zeros(64, np.int64)
    for i in range(start, start + m):
        count[rows[i, a]] += 1
    return count, np.argsort(-count, kind="mergesort")
