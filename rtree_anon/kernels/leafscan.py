"""Groups for a release at k1: unions of whole leaves, each with at least k1 rows.

Because every group is made of whole leaves, a row is never separated from the others of its leaf in any release, so
that all releases of one tree are safe together at the tree's own k (Definition 2 and Lemma 1 of the R+-tree paper).

`order` lists the leaves in scan order, `sizes` their numbers of rows. Groups are returned as `ends`: group g is
order[ends[g-1]:ends[g]].
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.gauge import mask_width, range_width
from rtree_anon.kernels.jit import inlined, kernel

# A group that has 2 * k1 rows besides its largest block can always be divided into two of k1 rows or more, and that
# never costs more. So the best groups are found among those with fewer.
WINDOW = 2
# Leaves are first merged to blocks of about sqrt(k1) / 3 rows. With b rows in a block, n / b * k1 / b unions are tried,
# so that the time does not depend on k1. Finer blocks give better groups: the penalty at k1 = 1000 was 4 % higher with
# blocks of k1 / 24 rows (on `patients`; 2 % on `agrawal`).
BLOCK_SCALE = 3


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

    The union of the blocks s .. e - 1 is that of s .. middle and middle + 1 .. e - 1 (`stack` and `tail`). The first
    kind is made anew for all s only when every group that is tried begins after the middle, so that a union costs the
    same wherever it begins, and the unions of one e are independent of each other, which the processor likes.

    Where every leaf has k1 rows, every leaf is a group: a union is as wide as the wider of its parts, or wider.
    """
    if sizes.min() >= k1:
        return np.arange(1, order.shape[0] + 1)
    block_end = blocks_of(order, sizes, k1)
    if block_end.shape[0] == 0:
        return block_end
    _, best, previous = best_divisions(order, sizes, lo, hi, mask, gauge, k1, block_end)
    if best[block_end.shape[0]] == np.inf:
        return block_end[:0]
    return read_ends(previous, block_end)


@kernel
def best_divisions(order, sizes, lo, hi, mask, gauge, k1, block_end):
    """The best division of the blocks before e, for every e: rows before e, the penalty, where its last group begins.

    The penalty is infinite where there is no division. `block_end` are the ends of the blocks in the order.
    """
    n_blocks = block_end.shape[0]
    before = np.zeros(n_blocks + 1, np.int64)  # rows before each block
    recent = _boxes(lo.shape[1], mask.shape[1], np.int64(128))  # of the blocks kept_from .. e - 1
    kept_from = 0
    stack = _unions(gauge, np.int64(64))
    tail = _unions(gauge, np.int64(1))
    widths = np.empty(64)
    best = np.full(n_blocks + 1, np.inf)
    best[0] = 0.0
    previous = np.full(n_blocks + 1, -1, np.int64)
    first = 0  # the longest group that is tried begins here
    shortest = 0  # and the shortest one here
    bottom = 0  # the unions in the stack are those of the blocks bottom .. middle, bottom + 1 .. middle, ...
    middle = -1
    for e in range(1, n_blocks + 1):
        if e - kept_from > recent.lo.shape[0]:  # a few boxes that stay in the cache, instead of those of all blocks
            roomier = _boxes(lo.shape[1], mask.shape[1], np.int64(2 * (e - first) + 128))
            _move(recent, first - kept_from, e - 1 - first, roomier)
            recent = roomier
            kept_from = first
        begin = block_end[e - 2] if e > 1 else 0
        before[e] = before[e - 1] + _fill_block(
            order, sizes, lo, hi, mask, begin, block_end[e - 1], recent, e - 1 - kept_from
        )
        while shortest + 1 < e and before[e] - before[shortest + 1] >= k1:
            shortest += 1
        if before[e] - before[shortest] < k1:
            continue
        if shortest > middle:
            bottom = first
            middle = e - 1
            if e - first > widths.shape[0]:
                stack = _unions(gauge, np.int64(2 * (e - first)))
                widths = np.empty(2 * (e - first))
            _fill_stack(stack, recent, first - kept_from, e - kept_from, gauge)
            _clear(tail)
        else:
            _extend(tail, recent, e - 1 - kept_from, gauge)
        while first < shortest:
            largest = max(stack.largest[first + 1 - bottom], tail.largest[0])
            if before[e] - before[first + 1] - largest < WINDOW * k1:
                break
            first += 1
        _widths_of_unions(stack, tail, gauge, first - bottom, shortest - bottom + 1, widths)
        for s in range(shortest, first - 1, -1):
            cost = best[s] + (before[e] - before[s]) * widths[s - bottom]
            if cost < best[e]:
                best[e] = cost
                previous[e] = s
    return before, best, previous


@kernel
def join_divisions(order, sizes, lo, hi, mask, gauge, k1, block_end, middle, ahead, behind):
    """The ends of the groups of the best division, from the best divisions of the blocks before `middle` and behind.

    `ahead` is what `best_divisions` gives for the blocks before the middle, `behind` for the others, in reverse order.
    Either a group ends at the middle, or one lies across it; of these all are tried that can be a part of the best.
    """
    before, best, previous = ahead
    _, best_to_end, next_end = behind
    n_blocks = block_end.shape[0]
    n_behind = n_blocks - middle
    first = middle  # the longest group that is tried begins here
    largest = np.int64(0)
    while first > 0:
        largest = max(largest, before[first] - before[first - 1])
        if before[middle] - before[first - 1] - largest >= WINDOW * k1:
            break
        first -= 1
    boxes = _boxes(lo.shape[1], mask.shape[1], middle - first)
    for b in range(first, middle):
        begin = block_end[b - 1] if b > 0 else 0
        _fill_block(order, sizes, lo, hi, mask, begin, block_end[b], boxes, b - first)
    stack = _unions(gauge, middle - first)
    _fill_stack(stack, boxes, np.int64(0), middle - first, gauge)
    tail = _unions(gauge, np.int64(1))
    _clear(tail)
    widths = np.empty(middle - first)
    least = best[middle] + best_to_end[n_behind]
    begin_across = end_across = middle
    rows_behind = np.int64(0)
    for e in range(middle + 1, n_blocks + 1):
        rows_behind += _fill_block(order, sizes, lo, hi, mask, block_end[e - 2], block_end[e - 1], boxes, np.int64(0))
        _extend(tail, boxes, np.int64(0), gauge)
        if rows_behind - tail.largest[0] >= WINDOW * k1:
            break
        _widths_of_unions(stack, tail, gauge, np.int64(0), middle - first, widths)
        for s in range(middle - 1, first - 1, -1):
            rows = before[middle] - before[s] + rows_behind
            if rows >= k1:
                cost = best[s] + rows * widths[s - first] + best_to_end[n_blocks - e]
                if cost < least:
                    least = cost
                    begin_across = s
                    end_across = e
    if least == np.inf:
        return block_end[:0]
    early = read_ends(previous, block_end[:begin_across])
    late = np.empty(n_blocks, np.int64)
    n_late = 0
    at = end_across
    if begin_across < middle:
        late[0] = block_end[at - 1]
        n_late = 1
    while at < n_blocks:
        at = n_blocks - next_end[n_blocks - at]
        late[n_late] = block_end[at - 1]
        n_late += 1
    return np.concatenate((early, late[:n_late]))


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
def blocks_of(order, sizes, k1):
    """Where blocks of at least sqrt(k1) / BLOCK_SCALE rows end in the order; none where there are fewer rows in all."""
    n_leaves = order.shape[0]
    block_end = np.empty(n_leaves, np.int64)
    n_blocks = 0
    rows = 0
    for i in range(n_leaves):
        rows += sizes[order[i]]
        if (rows * BLOCK_SCALE) ** 2 >= k1:
            block_end[n_blocks] = i + 1
            n_blocks += 1
            rows = 0
    if n_blocks > 0:
        block_end[n_blocks - 1] = n_leaves
    return block_end[:n_blocks]


class Boxes(NamedTuple):
    """Boxes of blocks, one row each, and their numbers of rows."""

    lo: NDArray[np.int32]
    hi: NDArray[np.int32]
    mask: NDArray[np.uint64]
    rows: NDArray[np.int64]


@kernel
def _boxes(d, n_masks, n):
    return Boxes(
        np.empty((n, d), np.int32), np.empty((n, d), np.int32), np.empty((n, n_masks), np.uint64), np.empty(n, np.int64)
    )


@kernel
def _move(boxes, begin, n, target):
    """The boxes begin .. begin + n - 1 become the first ones of `target`."""
    target.lo[:n] = boxes.lo[begin : begin + n]
    target.hi[:n] = boxes.hi[begin : begin + n]
    target.mask[:n] = boxes.mask[begin : begin + n]
    target.rows[:n] = boxes.rows[begin : begin + n]


@inlined
def _fill_block(order, sizes, lo, hi, mask, begin, end, boxes, at):
    """The box of the leaves order[begin:end] as box number `at`; returns their number of rows."""
    leaf = order[begin]
    rows = sizes[leaf]
    for a in range(lo.shape[1]):
        boxes.lo[at, a] = lo[leaf, a]
        boxes.hi[at, a] = hi[leaf, a]
    for a in range(mask.shape[1]):
        boxes.mask[at, a] = mask[leaf, a]
    for i in range(begin + 1, end):
        leaf = order[i]
        rows += sizes[leaf]
        for a in range(lo.shape[1]):
            boxes.lo[at, a] = min(boxes.lo[at, a], lo[leaf, a])
            boxes.hi[at, a] = max(boxes.hi[at, a], hi[leaf, a])
        for a in range(mask.shape[1]):
            boxes.mask[at, a] |= mask[leaf, a]
    boxes.rows[at] = rows
    return rows


class Unions(NamedTuple):
    """Unions of boxes, axis by axis, so that one axis of many unions is one stretch of memory."""

    near: NDArray[np.float64]  # (LINEAR axes, unions), in units of width; so is the next
    far: NDArray[np.float64]
    sets: NDArray[np.uint64]  # (MASK axes, unions)
    lo: NDArray[np.int32]  # (other axes, unions)
    hi: NDArray[np.int32]
    largest: NDArray[np.int64]  # rows of the largest block


@kernel
def _unions(gauge, n):
    n_masks = gauge.n_masked - gauge.n_linear
    n_others = gauge.kind.shape[0] - gauge.n_masked
    return Unions(
        np.empty((gauge.n_linear, n)),
        np.empty((gauge.n_linear, n)),
        np.empty((n_masks, n), np.uint64),
        np.empty((n_others, n), np.int32),
        np.empty((n_others, n), np.int32),
        np.empty(n, np.int64),
    )


@inlined
def _fill_stack(stack, boxes, begin, end, gauge):
    """Union number i is that of the boxes begin + i .. end - 1."""
    for a in range(gauge.n_linear):
        near = np.inf
        far = -np.inf
        for i in range(end - 1, begin - 1, -1):
            near = min(near, boxes.lo[i, a] * gauge.scale[a])
            far = max(far, boxes.hi[i, a] * gauge.scale[a])
            stack.near[a, i - begin] = near
            stack.far[a, i - begin] = far
    for m in range(stack.sets.shape[0]):
        union = np.uint64(0)
        for i in range(end - 1, begin - 1, -1):
            union |= boxes.mask[i, m]
            stack.sets[m, i - begin] = union
    for o in range(stack.lo.shape[0]):
        a = gauge.n_masked + o
        lo = boxes.lo[end - 1, a]
        hi = boxes.hi[end - 1, a]
        for i in range(end - 1, begin - 1, -1):
            lo = min(lo, boxes.lo[i, a])
            hi = max(hi, boxes.hi[i, a])
            stack.lo[o, i - begin] = lo
            stack.hi[o, i - begin] = hi
    largest = np.int64(0)
    for i in range(end - 1, begin - 1, -1):
        largest = max(largest, boxes.rows[i])
        stack.largest[i - begin] = largest


@inlined
def _clear(tail):
    """The union of no blocks at all."""
    for a in range(tail.near.shape[0]):
        tail.near[a, 0] = np.inf
        tail.far[a, 0] = -np.inf
    for m in range(tail.sets.shape[0]):
        tail.sets[m, 0] = np.uint64(0)
    for o in range(tail.lo.shape[0]):
        tail.lo[o, 0] = np.int32(2**31 - 1)
        tail.hi[o, 0] = np.int32(-(2**31))
    tail.largest[0] = 0


@inlined
def _extend(tail, boxes, at, gauge):
    """The tail with one more box."""
    for a in range(gauge.n_linear):
        tail.near[a, 0] = min(tail.near[a, 0], boxes.lo[at, a] * gauge.scale[a])
        tail.far[a, 0] = max(tail.far[a, 0], boxes.hi[at, a] * gauge.scale[a])
    for m in range(tail.sets.shape[0]):
        tail.sets[m, 0] |= boxes.mask[at, m]
    for o in range(tail.lo.shape[0]):
        tail.lo[o, 0] = min(tail.lo[o, 0], boxes.lo[at, gauge.n_masked + o])
        tail.hi[o, 0] = max(tail.hi[o, 0], boxes.hi[at, gauge.n_masked + o])
    tail.largest[0] = max(tail.largest[0], boxes.rows[at])


@inlined
def _widths_of_unions(stack, tail, gauge, begin, end, widths):
    """The widths of the unions begin .. end - 1 of the stack, each together with the tail."""
    # Unsigned numbers cannot count from the end of an array, which would keep these loops from being vectorized.
    begin = np.uint64(begin)
    end = np.uint64(end)
    for i in range(begin, end):
        widths[i] = 0.0
    for a in range(gauge.n_linear):
        near = tail.near[a, 0]
        far = tail.far[a, 0]
        for i in range(begin, end):
            lo = stack.near[a, i] if stack.near[a, i] < near else near
            hi = stack.far[a, i] if stack.far[a, i] > far else far
            widths[i] += hi - lo
    for m in range(stack.sets.shape[0]):
        for i in range(begin, end):
            widths[i] += mask_width(gauge, gauge.n_linear + m, stack.sets[m, i] | tail.sets[m, 0])
    for o in range(stack.lo.shape[0]):
        for i in range(begin, end):
            lo = min(stack.lo[o, i], tail.lo[o, 0])
            hi = max(stack.hi[o, i], tail.hi[o, 0])
            widths[i] += range_width(gauge, gauge.n_masked + o, lo, hi)
