"""Exact search for the best clean cut of a small node.

A cut is a threshold on one axis, or a set of categories on a MASK axis, that leaves at least k rows on both sides. Its
cost is

    n1 * w1 * g(n1/k) + n2 * w2 * g(n2/k),        g(m) = max(floor(m), 1) ** growth

where n is a side's number of rows and w the width of its tight box: the certainty penalty of the two sides (Definition
4 of the R+-tree paper), with a look-ahead g to how much a side can still shrink. A side of n rows can become floor(n/k)
leaves, and m cuts spread evenly over d axes make boxes m**(-1/d) times as wide, so growth is a little above -1/d (below
it, slicing thin pieces off looks better than it is). The floor makes sides near multiples of k, and so fuller leaves: 5
% better certainty on Agrawal's data. All cut positions of an axis are priced in two sweeps along its sorted rows, one
from each end, that grow a box row by row.

The categories of a MASK axis have no order of their own: they are tried in the order of their frequency in the node, so
that a cut separates common from rare values and a region is a set, not a range of one fixed order.

A node is given as `block`, an int32 (axes, rows) array, and `members`, positions in it; cutting reorders only
`members`.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.gauge import MASK, mask_width, range_width
from rtree_anon.kernels.guard import mark_cuts
from rtree_anon.kernels.jit import kernel

INDEX_BITS = 20  # a sort key is (code << INDEX_BITS) | member
MAX_BLOCK_ROWS = 1 << INDEX_BITS  # with more rows, members would spill into the codes
_INDEX_MASK = (1 << INDEX_BITS) - 1
LANES = 8  # LINEAR axes that are swept together: independent of each other, so that the processor overlaps them
_INSERTION_ROWS = 40  # insertion sort is the faster one below this (measured)


class Finding(NamedTuple):
    """What a search leaves behind, one entry per axis, and its scratch space. Made once per thread by `finding`."""

    width: NDArray[np.float64]  # of the node's box on this axis
    cost: NDArray[np.float64]  # of the best cut on this axis, inf where there is none
    threshold: NDArray[np.int32]  # the first code of the right side (not on MASK axes)
    left_set: NDArray[np.uint64]  # the categories of the left side (MASK axes)
    keys: NDArray[np.int64]
    order: NDArray[np.uint32]
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    points: NDArray[np.float32]  # (rows, sweeps, LANES): see _load_points
    count: NDArray[np.int32]  # [64] rows per category
    ranked: NDArray[np.int32]  # [64] categories by frequency


def finding(n_axes: int, n_rows: int) -> Finding:
    """Scratch space for nodes of up to n_rows rows."""
    return Finding(
        np.empty(n_axes),
        np.empty(n_axes),
        np.empty(n_axes, np.int32),
        np.empty(n_axes, np.uint64),
        np.empty(n_rows, np.int64),
        np.empty(n_rows, np.uint32),
        np.empty(n_rows),
        np.empty(n_rows),
        np.zeros((n_rows, -(-n_axes // LANES), LANES), np.float32),
        np.zeros(64, np.int32),
        np.empty(64, np.int32),
    )


def worth_table(k: int, n_rows: int, growth: float) -> NDArray[np.float64]:
    """n * g(n/k) for n = 0 .. n_rows: row 0 for a whole node, row 1 (without the floor) for a probe of a larger one."""
    n = np.arange(n_rows + 1, dtype=np.float64)
    return np.stack([n * np.maximum(n // k, 1.0) ** growth, n * np.maximum(n, 1.0) ** growth])


@kernel
def search_cut(block, members, start, m, gauge, preferred, n_candidates, k, worth, guard, found):
    """Price the cuts of members[start:start+m]; return the axis of the best one, -1 where none is possible.

    The widest `n_candidates` axes that can be cut at all are priced; while a preferred axis can be cut, no other is.
    With a guard, both sides of a cut satisfy its constraint; guard.codes has what it looks at, in block order.
    """
    d = gauge.kind.shape[0]
    for a in range(d):
        found.cost[a] = np.inf
    _measure_axes(block, members, start, m, gauge, found.width)
    n_sweeps = _load_points(block, members, start, m, gauge, found)
    best = np.int64(-1)
    for favourite in (True, False):
        tried = 0
        for _ in range(d):
            axis = np.int64(-1)
            widest = 0.0
            for a in range(d):
                if preferred[a] == favourite and found.width[a] > widest and found.cost[a] == np.inf:
                    axis = a
                    widest = found.width[a]
            if axis < 0:
                break
            _price_axis(block, members, start, m, gauge, axis, k, worth, n_sweeps, guard, found)
            if found.cost[axis] == np.inf:
                found.width[axis] = -found.width[axis]  # not to be tried again; the sign is restored below
                continue
            tried += 1
            if best < 0 or found.cost[axis] < found.cost[best]:
                best = axis
            if tried == n_candidates:
                break
        for a in range(d):
            found.width[a] = abs(found.width[a])
        if best >= 0:
            break
    return best


@kernel
def divide_members(block, members, start, m, gauge, axis, found):
    """Bring the left side of the cut on `axis` to the front of members[start:start+m]; return its size."""
    i = start
    j = start + m - 1
    column = block[axis]
    while True:
        while i <= j and is_left(gauge, axis, column[members[i]], found.threshold[axis], found.left_set[axis]):
            i += 1
        while i <= j and not is_left(gauge, axis, column[members[j]], found.threshold[axis], found.left_set[axis]):
            j -= 1
        if i >= j:
            return i - start
        members[i], members[j] = members[j], members[i]
        i += 1
        j -= 1


@kernel
def is_left(gauge, axis, code, threshold, left_set):
    if gauge.kind[axis] == MASK:
        return ((left_set >> np.uint64(code)) & np.uint64(1)) != np.uint64(0)
    return code < threshold


@kernel
def members_width(block, members, start, m, gauge, widths):
    """Width of the tight box around the members; `widths` is scratch space for one number per axis."""
    _measure_axes(block, members, start, m, gauge, widths)
    width = 0.0
    for a in range(widths.shape[0]):
        width += widths[a]
    return width


@kernel
def _measure_axes(block, members, start, m, gauge, widths):
    """The width of the members' box on every axis. One call for all: a call costs as much as the work on a few rows."""
    for a in range(gauge.n_linear):
        lo = block[a, members[start]]
        hi = lo
        for i in range(start + 1, start + m):
            code = block[a, members[i]]
            lo = min(lo, code)
            hi = max(hi, code)
        widths[a] = (np.int64(hi) - np.int64(lo)) * gauge.scale[a]
    for a in range(gauge.n_linear, gauge.n_masked):
        mask = np.uint64(0)
        for i in range(start, start + m):
            mask |= np.uint64(1) << np.uint64(block[a, members[i]])
        widths[a] = mask_width(gauge, a, mask)
    for a in range(gauge.n_masked, gauge.kind.shape[0]):
        lo = block[a, members[start]]
        hi = lo
        for i in range(start + 1, start + m):
            code = block[a, members[i]]
            lo = min(lo, code)
            hi = max(hi, code)
        widths[a] = range_width(gauge, a, lo, hi)


@kernel
def _price_axis(block, members, start, m, gauge, axis, k, worth, n_sweeps, guard, found):
    """Find the best cut on one axis; leaves found.cost[axis] at inf where both sides cannot be valid."""
    masked = gauge.kind[axis] == MASK
    n_ranked = _sort_members(block, members, start, m, masked, axis, found)
    keys = found.keys
    # A cut needs two neighbours with different keys, k rows from both ends.
    if keys[k - 1] == keys[m - k] and keys[k - 1] == keys[k]:
        return
    first = k
    last = m - k
    judged = False
    if guard is not None:
        first, last = mark_cuts(guard.codes, found.order, keys, m, k, guard.constraint, guard.tally, guard.valid)
        judged = not guard.constraint.upward
        if first > last:
            return
    _grow_boxes(block, m, k, gauge, n_sweeps, found)
    best = np.inf
    at = -1
    for i in range(first, last + 1):
        if guard is not None and judged and not guard.valid[i]:
            continue
        if keys[i] != keys[i - 1]:
            cost = worth[i] * found.left[i - 1] + worth[m - i] * found.right[i]
            if cost < best:
                best = cost
                at = i
    if at < 0:
        return
    found.cost[axis] = best
    _keep_cut(masked, axis, at, n_ranked, found)


@kernel
def cut_near(block, members, start, m, gauge, axis, k, middle, guard, found):
    """Cut one axis as near as possible to `middle` rows on the left, unpriced; False where it cannot be cut."""
    masked = gauge.kind[axis] == MASK
    n_ranked = _sort_members(block, members, start, m, masked, axis, found)
    first = k
    last = m - k
    judged = False
    if guard is not None:
        keys = found.keys
        first, last = mark_cuts(guard.codes, found.order, keys, m, k, guard.constraint, guard.tally, guard.valid)
        judged = not guard.constraint.upward
    for off in range(m):
        for at in (middle - off, middle + off):
            if first <= at <= last and found.keys[at] != found.keys[at - 1]:
                if guard is not None and judged and not guard.valid[at]:
                    continue
                _keep_cut(masked, axis, at, n_ranked, found)
                return True
    return False


@kernel
def _keep_cut(masked, axis, at, n_ranked, found):
    """Leave the cut between the sorted members at - 1 and at in `found`."""
    if masked:
        left_set = np.uint64(0)
        for r in range(n_ranked):
            if r < found.keys[at]:
                left_set |= np.uint64(1) << np.uint64(found.ranked[r])
        found.left_set[axis] = left_set
    else:
        found.threshold[axis] = np.int32(found.keys[at])


@kernel
def _sort_members(block, members, start, m, masked, axis, found):
    """Fill found.order (members by their key on the axis) and found.keys (the keys alone, ascending).

    The key is the code, or on a MASK axis the rank of the category by frequency (most frequent first, then by code).
    Returns the number of ranked categories.
    """
    column = block[axis]
    keys = found.keys
    n_ranked = 0
    if masked:
        count = found.count
        for i in range(start, start + m):
            count[column[members[i]]] += 1
        for c in range(64):
            if count[c] > 0:
                at = n_ranked
                while at > 0 and count[found.ranked[at - 1]] < count[c]:
                    found.ranked[at] = found.ranked[at - 1]
                    at -= 1
                found.ranked[at] = c
                n_ranked += 1
        # Counting sort: count[c] becomes the place of the category's next member.
        place = 0
        for r in range(n_ranked):
            c = found.ranked[r]
            size = count[c]
            count[c] = place
            for i in range(place, place + size):
                keys[i] = r
            place += size
        for i in range(start, start + m):
            c = column[members[i]]
            found.order[count[c]] = members[i]
            count[c] += 1
        for r in range(n_ranked):
            count[found.ranked[r]] = 0
        return n_ranked
    for i in range(m):
        member = members[start + i]
        keys[i] = (np.int64(column[member]) << INDEX_BITS) | np.int64(member)
    if m <= _INSERTION_ROWS:
        for i in range(1, m):
            key = keys[i]
            j = i - 1
            while j >= 0 and keys[j] > key:
                keys[j + 1] = keys[j]
                j -= 1
            keys[j + 1] = key
    else:
        keys[:m].sort()
    for i in range(m):
        found.order[i] = np.uint32(keys[i] & _INDEX_MASK)
        keys[i] >>= INDEX_BITS
    return n_ranked


@kernel
def _load_points(block, members, start, m, gauge, found):
    """Put the members' LINEAR coordinates, in units of width, side by side in found.points; return how many sweeps.

    Axes of width 0 are left out; the lanes that remain are 0. Coordinates are relative to the first member, so that
    float32 is exact enough to compare prices.
    """
    lane = 0
    points = found.points
    for a in range(gauge.n_linear):
        if found.width[a] == 0.0:
            continue
        scale = gauge.scale[a]
        origin = np.int64(block[a, members[start]])
        for i in range(start, start + m):
            member = members[i]
            points[member, lane // LANES, lane % LANES] = np.float32((np.int64(block[a, member]) - origin) * scale)
        lane += 1
    n_sweeps = (lane + LANES - 1) // LANES
    for rest in range(lane, n_sweeps * LANES):
        for i in range(start, start + m):
            points[members[i], n_sweeps - 1, rest % LANES] = np.float32(0.0)
    return np.int64(n_sweeps)


@kernel
def _grow_boxes(block, m, k, gauge, n_sweeps, found):
    """left[i] = width of the box around order[0..i], right[i] = around order[i..m-1], where a cut needs them.

    A cut leaves k rows on both sides, so that left ends k rows before the end and right begins k rows after the start.
    """
    order, left, right = found.order, found.left, found.right
    for i in range(m):
        left[i] = 0.0
        right[i] = 0.0
    for sweep in range(n_sweeps):
        _sweep_lanes(found.points, order, np.int64(0), m - k, np.int64(1), sweep, left)
        _sweep_lanes(found.points, order, m - 1, k - 1, np.int64(-1), sweep, right)
    for a in range(gauge.n_linear, gauge.kind.shape[0]):
        if found.width[a] == 0.0:
            continue
        _sweep_axis(block[a], order, np.int64(0), m - k, np.int64(1), gauge, a, left)
        _sweep_axis(block[a], order, m - 1, k - 1, np.int64(-1), gauge, a, right)


@kernel
def _sweep_lanes(points, order, begin, end, step, sweep, widths):
    """Add to widths[i] the width, on LANES axes, of the box around order[begin], ..., order[i]."""
    at = order[begin]
    lo0 = hi0 = points[at, sweep, 0]
    lo1 = hi1 = points[at, sweep, 1]
    lo2 = hi2 = points[at, sweep, 2]
    lo3 = hi3 = points[at, sweep, 3]
    lo4 = hi4 = points[at, sweep, 4]
    lo5 = hi5 = points[at, sweep, 5]
    lo6 = hi6 = points[at, sweep, 6]
    lo7 = hi7 = points[at, sweep, 7]
    for i in range(begin + step, end, step):
        at = order[i]
        x0, x1, x2, x3 = points[at, sweep, 0], points[at, sweep, 1], points[at, sweep, 2], points[at, sweep, 3]
        x4, x5, x6, x7 = points[at, sweep, 4], points[at, sweep, 5], points[at, sweep, 6], points[at, sweep, 7]
        lo0 = x0 if x0 < lo0 else lo0
        hi0 = x0 if x0 > hi0 else hi0
        lo1 = x1 if x1 < lo1 else lo1
        hi1 = x1 if x1 > hi1 else hi1
        lo2 = x2 if x2 < lo2 else lo2
        hi2 = x2 if x2 > hi2 else hi2
        lo3 = x3 if x3 < lo3 else lo3
        hi3 = x3 if x3 > hi3 else hi3
        lo4 = x4 if x4 < lo4 else lo4
        hi4 = x4 if x4 > hi4 else hi4
        lo5 = x5 if x5 < lo5 else lo5
        hi5 = x5 if x5 > hi5 else hi5
        lo6 = x6 if x6 < lo6 else lo6
        hi6 = x6 if x6 > hi6 else hi6
        lo7 = x7 if x7 < lo7 else lo7
        hi7 = x7 if x7 > hi7 else hi7
        widths[i] += ((hi0 - lo0) + (hi1 - lo1) + ((hi2 - lo2) + (hi3 - lo3))) + (
            (hi4 - lo4) + (hi5 - lo5) + ((hi6 - lo6) + (hi7 - lo7))
        )


@kernel
def _sweep_axis(column, order, begin, end, step, gauge, a, widths):
    """Add to widths[i] the width, on an axis that is not LINEAR, of the box around order[begin], ..., order[i]."""
    if gauge.kind[a] == MASK:
        mask = np.uint64(0)
        for i in range(begin, end, step):
            mask |= np.uint64(1) << np.uint64(column[order[i]])
            widths[i] += mask_width(gauge, a, mask)
        return
    lo = column[order[begin]]
    hi = lo
    width = 0.0
    for i in range(begin + step, end, step):
        code = column[order[i]]
        if code < lo or code > hi:
            lo = min(lo, code)
            hi = max(hi, code)
            width = range_width(gauge, a, lo, hi)
        widths[i] += width
