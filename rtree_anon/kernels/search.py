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

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment, call-arg, unreachable, var-annotated"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels import sides
from rtree_anon.kernels.gauge import MASK, lowest_bit, mask_width, range_width
from rtree_anon.kernels.guard import weigh_cuts
from rtree_anon.kernels.jit import lean_inlined, lean_kernel
from rtree_anon.kernels.lanes import LANES, box_sides, points_of_rows
from rtree_anon.kernels.ranks import FEW, ROOM, cut_few_near, rank_all
from rtree_anon.kernels.room import dearer
from rtree_anon.kernels.sides import SETS, cheapest_cut, sweep_set_sides, sweep_sides, unite_sets, widest_axis
from rtree_anon.kernels.sorting import sort_distinct

INDEX_BITS = 20  # a sort key is (code << INDEX_BITS) | member
MAX_BLOCK_ROWS = 1 << INDEX_BITS  # with more rows, members would spill into the codes
_INDEX_MASK = (1 << INDEX_BITS) - 1


class Finding(NamedTuple):
    """What a search leaves behind, one entry per axis, and its scratch space. Made once per thread by `finding`."""

    width: NDArray[np.float64]  # of the node's box on this axis
    cost: NDArray[np.float64]  # of the best cut on this axis, inf where there is none
    threshold: NDArray[np.int32]  # the first code of the right side (not on MASK axes)
    left_set: NDArray[np.uint64]  # the categories of the left side (MASK axes)
    keys: NDArray[np.int64]
    sorted: NDArray[np.int64]
    order: NDArray[np.uint32]
    codes: NDArray[np.int32]  # of a few members, and what is found out about them (ranks.py)
    ranks: NDArray[np.int32]
    left: NDArray[np.float64]  # by the number of rows on the left: the widths of both sides
    right: NDArray[np.float64]
    points: NDArray[np.float32]  # (sweeps, rows, LANES): see load_points
    bits: NDArray[np.uint64]  # (sweeps, rows, SETS), likewise
    sides: NDArray[np.float32]  # [LANES]
    united: NDArray[np.uint64]  # [SETS]
    open: NDArray[np.float64]  # widths of axes that are still to be tried, whole vectors
    count: NDArray[np.int32]  # [64] rows per category
    ranked: NDArray[np.int32]  # [64] categories by frequency
    stack: NDArray[np.int64]  # (64, 3): nodes that wait; of a rollout (64, 2)
    rollout_stack: NDArray[np.int64]
    axes: NDArray[np.int64]  # cuts that are tried down to the leaves, and what they are
    kept_threshold: NDArray[np.int32]
    kept_set: NDArray[np.uint64]


def finding(n_axes: int, n_rows: int) -> Finding:
    """Scratch space for nodes of up to n_rows rows."""
    return Finding(
        np.empty(n_axes),
        np.empty(n_axes),
        np.empty(n_axes, np.int32),
        np.empty(n_axes, np.uint64),
        np.zeros(n_rows + sides.ROOM, np.int64),
        np.empty(n_rows, np.int64),
        np.zeros(n_rows + sides.ROOM, np.uint32),
        np.empty(min(n_rows, FEW) + ROOM, np.int32),
        np.empty(min(n_rows, FEW) + ROOM, np.int32),
        np.zeros(n_rows + 1 + sides.ROOM),
        np.zeros(n_rows + 1 + sides.ROOM),
        np.zeros((-(-n_axes // LANES), n_rows, LANES), np.float32),  # lanes without an axis stay 0
        np.zeros((-(-n_axes // SETS), n_rows, SETS), np.uint64),
        np.empty(LANES, np.float32),
        np.empty(SETS, np.uint64),
        np.zeros(-(-n_axes // sides.LANES) * sides.LANES),
        np.zeros(64, np.int32),
        np.empty(64, np.int32),
        np.empty((64, 3), np.int64),
        np.empty((64, 2), np.int64),
        np.empty(n_axes, np.int64),
        np.empty(n_axes, np.int32),
        np.empty(n_axes, np.uint64),
    )


def worth_table(k: int, n_rows: int, growth: float) -> NDArray[np.float64]:
    """What rows of a side are worth: [0] for a whole node, [1] (without the floor) for a probe of a larger one.

    Each is n * g(n/k) for n = 0 .. n_rows, then the same for n = n_rows .. 0, then n modulo k; with room behind, as
    vectors are read.
    """
    n = np.arange(n_rows + 1, dtype=np.float64)
    table = np.zeros((2, 3, n_rows + 1 + sides.ROOM))
    for part, leaves in zip(table, (n // k, n), strict=True):
        part[0, : n_rows + 1] = n * np.maximum(leaves, 1.0) ** growth
        part[1, : n_rows + 1] = part[0, n_rows::-1]
        part[2, : n_rows + 1] = n % k
    return table


@lean_inlined
def search_cut(block, members, start, m, gauge, preferred, n_candidates, k, worth, guard, spare, found):
    """Price the cuts of members[start:start+m]; return the axis of the best one, -1 where none is possible.

    The widest `n_candidates` axes that can be cut at all are priced; while a preferred axis can be cut, no other is.
    With a guard, both sides of a cut satisfy its constraint, priced with the room that it leaves to them (room.py);
    guard.codes has what it looks at, in block order, and guard.tally has learned how the node's rows vary.
    The left side of a cut has at most `spare` rows beyond a multiple of k, unless that is None.
    """
    d = gauge.kind.shape[0]
    for a in range(d):
        found.cost[a] = np.inf
    measure_axes(block, members, start, m, gauge, found)
    best = np.int64(-1)
    for favourite in (True, False):
        tried = 0
        for a in range(d):
            found.open[a] = found.width[a] if preferred[a] == favourite else 0.0
        for _ in range(d):
            axis = widest_axis(found.open, d)
            if axis < 0:
                break
            found.open[axis] = 0.0
            _price_axis(block, members, start, m, gauge, axis, k, worth, guard, spare, found)
            if found.cost[axis] == np.inf:
                continue
            tried += 1
            if best < 0 or found.cost[axis] < found.cost[best]:
                best = axis
            if tried == n_candidates:
                break
        if best >= 0:
            break
    return best


@lean_inlined
def divide_members(block, members, start, m, gauge, axis, threshold, left_set, others):
    """Bring the left side of a cut to the front of members[start:start+m]; return its size. `others` is scratch space.

    Without branches that a processor could guess wrong: every member is written to both sides, and one of them counts.
    """
    column = block[axis]
    here = members[start : start + m]  # the index of a loop from 0 is never negative, and numba knows it
    n_left = np.uint64(0)
    n_right = np.uint64(0)
    if gauge.kind[axis] == MASK:
        for i in range(m):
            member = here[i]
            left = np.uint64((left_set >> np.uint64(column[member])) & np.uint64(1))
            here[n_left] = member
            others[n_right] = member
            n_left += left
            n_right += np.uint64(1) - left
    else:
        for i in range(m):
            member = here[i]
            left = np.uint64(column[member] < threshold)
            here[n_left] = member
            others[n_right] = member
            n_left += left
            n_right += np.uint64(1) - left
    rest = here[n_left:]
    for i in range(np.int64(n_right)):
        rest[i] = others[i]
    return np.int64(n_left)


@lean_kernel
def is_left(gauge, axis, code, threshold, left_set):
    if gauge.kind[axis] == MASK:
        return ((left_set >> np.uint64(code)) & np.uint64(1)) != np.uint64(0)
    return code < threshold


@lean_kernel
def members_width(block, members, start, m, gauge, found):
    """Width of the tight box around the members."""
    measure_axes(block, members, start, m, gauge, found)
    width = 0.0
    for a in range(found.width.shape[0]):
        width += found.width[a]
    return width


@lean_inlined
def measure_axes(block, members, start, m, gauge, found):
    """found.width[a] becomes the width of the members' box on axis a, for every axis."""
    n_linear = gauge.n_linear
    for sweep in range((n_linear + LANES - 1) // LANES):
        box_sides(found.points[sweep], members, start, start + m, found.sides)
        for a in range(sweep * LANES, min(n_linear, (sweep + 1) * LANES)):
            found.width[a] = found.sides[a - sweep * LANES]
    for first in range(n_linear, gauge.n_masked, SETS):
        unite_sets(found.bits[(first - n_linear) // SETS], members, start, start + m, found.united)
        for a in range(first, min(first + SETS, gauge.n_masked)):
            found.width[a] = mask_width(gauge, a, found.united[a - first])
    for a in range(gauge.n_masked, gauge.kind.shape[0]):
        lo = block[a, members[start]]
        hi = lo
        for i in range(start + 1, start + m):
            code = block[a, members[i]]
            lo = min(lo, code)
            hi = max(hi, code)
        found.width[a] = range_width(gauge, a, lo, hi)


@lean_inlined
def _price_axis(block, members, start, m, gauge, axis, k, worth, guard, spare, found):
    """Find the best cut on one axis; leaves found.cost[axis] at inf where both sides cannot be valid."""
    masked = gauge.kind[axis] == MASK
    n_ranked = _sort_members(block, members, start, m, masked, axis, found)
    keys = found.keys
    # A cut needs two neighbours with different keys, k rows from both ends.
    if keys[k - 1] == keys[m - k] and keys[k - 1] == keys[k]:
        return
    first = k
    last = m - k
    if guard is not None:
        first, last = _weighed_range(m, k, guard, found)
        if first > last:
            return
    _grow_boxes(block, m, k, gauge, found)
    if guard is None:
        at, best = cheapest_cut(found.left, found.right, keys, worth, m, k, m if spare is None else spare)
    else:
        best = np.inf
        at = np.int64(-1)
        for i in range(first, last + 1):
            if spare is not None and worth[2, i] > spare:
                continue
            if guard.valid[i] and keys[i] != keys[i - 1]:
                cost = worth[0, i] * found.left[i] + worth[0, m - i] * found.right[i]
                if cost < best:  # the model only ever makes it dearer
                    left = worth[0, i] * found.left[i] * dearer(k, guard.left_needed[i], guard.caution)
                    cost = left + worth[0, m - i] * found.right[i] * dearer(k, guard.right_needed[i], guard.caution)
                if cost < best:
                    best = cost
                    at = i
    if at < 0:
        return
    found.cost[axis] = best
    _keep_cut(masked, axis, at, n_ranked, found)


@lean_inlined
def cut_near(block, members, start, m, gauge, axis, k, middle, guard, found):
    """Cut one axis as near as possible to `middle` rows on the left, unpriced; those rows, 0 where it cannot be cut."""
    masked = gauge.kind[axis] == MASK
    if guard is None and not masked and m <= FEW:
        _gather_codes(block, members, start, m, axis, found)
        left, threshold = cut_few_near(found.codes, m, k, 2 * middle, found.ranks)
        found.threshold[axis] = threshold
        return left
    n_ranked = _sort_members(block, members, start, m, masked, axis, found)
    first = k
    last = m - k
    if guard is not None:
        first, last = _weighed_range(m, k, guard, found)
    keys = found.keys
    best = np.int64(0)
    distance = m
    for at in range(first, last + 1):
        off = abs(at - middle)
        if keys[at] != keys[at - 1] and off < distance:
            if guard is not None and not guard.valid[at]:
                continue
            best = at
            distance = off
    if best > 0:
        _keep_cut(masked, axis, best, n_ranked, found)
    return best


@lean_inlined
def _gather_codes(block, members, start, m, axis, found):
    """found.codes[:m] becomes the members' codes on an axis."""
    column = block[axis]
    here = members[start : start + m]
    for i in range(m):
        found.codes[i] = column[here[i]]


@lean_inlined
def _weighed_range(m, k, guard, found):
    return weigh_cuts(
        guard.codes,
        found.order,
        found.keys,
        m,
        k,
        guard.constraint,
        guard.tally,
        guard.valid,
        guard.left_needed,
        guard.right_needed,
    )


@lean_inlined
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


@lean_inlined
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
        present = np.uint64(0)
        for i in range(start, start + m):
            c = np.uint64(column[members[i]])
            count[c] += 1
            present |= np.uint64(1) << c
        while present != np.uint64(0):
            c = lowest_bit(present)
            present &= present - np.uint64(1)
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
    here = members[start : start + m]
    if m <= FEW:
        _gather_codes(block, members, start, m, axis, found)
        rank_all(found.codes, m, found.ranks)
        for i in range(m):
            place = np.uint32(found.ranks[i])
            found.order[place] = here[i]
            keys[place] = found.codes[i]
        return n_ranked
    for i in range(m):
        keys[i] = (np.int64(column[here[i]]) << INDEX_BITS) | np.int64(here[i])
    sort_distinct(keys, m, found.sorted)
    for i in range(m):
        key = found.sorted[i]
        found.order[i] = np.uint32(key & _INDEX_MASK)
        keys[i] = key >> INDEX_BITS
    return n_ranked


@lean_inlined
def load_points(block, m, gauge, found):
    """Put the LINEAR coordinates of the first m columns of `block`, in units of width, side by side in found.points.

    Their categories on MASK axes are put in found.bits, as bits. Once for a block, whose rows lie together in memory
    (`workspace` in cutting.py makes it so); all searches among its rows use them. Coordinates are relative to the first
    row, so that float32 is exact enough to compare prices.
    """
    points = found.points
    n_linear = gauge.n_linear
    d = gauge.kind.shape[0]
    whole = d - d % LANES
    for first in range(0, min(whole, n_linear), LANES):
        points_of_rows(block.T, np.int64(m), np.int64(first), np.int64(n_linear), gauge.scale, points[first // LANES])
    for a in range(whole, n_linear):
        scale = gauge.scale[a]
        column = block[a]
        origin = np.int64(column[0])
        sweep, lane = a // LANES, a % LANES
        for i in range(m):
            points[sweep, i, lane] = np.float32((np.int64(column[i]) - origin) * scale)
    for a in range(n_linear, gauge.n_masked):
        bits = found.bits[(a - n_linear) // SETS, :, (a - n_linear) % SETS]
        column = block[a]
        for i in range(m):
            bits[i] = np.uint64(1) << np.uint64(column[i])


@lean_inlined
def _grow_boxes(block, m, k, gauge, found):
    """left[i] = width of the box around order[:i], right[i] = around order[i:m], for cuts with k rows on both sides."""
    order, left, right = found.order, found.left, found.right
    if gauge.n_linear == 0:
        for i in range(k, m - k + 1):
            left[i] = 0.0
            right[i] = 0.0
    for sweep in range((gauge.n_linear + LANES - 1) // LANES):
        sweep_sides(found.points[sweep], order, m, k, sweep > 0, left, right)
    for first in range(gauge.n_linear, gauge.n_masked, SETS):
        width = found.width[first]
        if first + 1 < gauge.n_masked:
            width += found.width[first + 1]
        if width > 0.0:
            sweep_set_sides(
                found.bits[(first - gauge.n_linear) // SETS],
                order,
                m,
                k,
                np.int64(first),
                gauge.n_masked,
                gauge.scale,
                gauge.full,
                left,
                right,
            )
    for a in range(gauge.n_masked, gauge.kind.shape[0]):
        if found.width[a] == 0.0:
            continue
        _sweep_axis(block[a], order, np.int64(0), m - k, np.int64(1), gauge, a, left[1:])
        _sweep_axis(block[a], order, m - 1, k - 1, np.int64(-1), gauge, a, right)


@lean_kernel
def _sweep_axis(column, order, begin, end, step, gauge, a, widths):
    """Add to widths[i] the width, on an axis that is neither LINEAR nor a MASK, around order[begin], ..., order[i]."""
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
