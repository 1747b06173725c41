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
from rtree_anon.kernels.windows import WINDOW_LANES, cheapest_group

# A group that has 2 * k1 rows besides its largest block can always be divided into two of k1 rows or more, and that
# never costs more. So the best groups are found among those with fewer.
WINDOW = 2
# Leaves are first merged to blocks of about sqrt(k1) / 3 rows. With b rows in a block, n / b * k1 / b unions are tried,
# so that the time does not depend on k1. Finer blocks give better groups: the penalty at k1 = 1000 was 4 % higher with
# blocks of k1 / 24 rows (on `patients`; 2 % on `agrawal`).
BLOCK_SCALE = 3
_THREE, _SEVEN = np.uint64(3), np.uint64(7)  # union i is in lane i & 7 of chunk i >> 3


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

    over blocks of whole leaves. A group that can be divided into two of k1 rows or more is not tried: that never costs
    more. It can where its blocks before the shortest group that ends with it have k1 rows.

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
    before = np.full(n_blocks + 1 + WINDOW_LANES, np.inf)  # rows before each block; eight are read at once
    before[0] = 0.0
    best = np.full(n_blocks + 1 + WINDOW_LANES, np.inf)
    best[0] = 0.0
    previous = np.full(n_blocks + 1, -1, np.int64)
    recent = _boxes(gauge, np.int64(128))  # of the blocks kept_from .. e - 1
    kept_from = 0
    stack = _unions(gauge, np.int64(64))
    tail = _boxes(gauge, np.int64(1))
    first = 0  # the longest group that is tried begins here
    shortest = 0  # and the shortest one here
    bottom = 0  # the unions in the stack are those of the blocks bottom .. middle, bottom + 1 .. middle, ...
    middle = -1
    for e in range(1, n_blocks + 1):
        if e - kept_from > recent.ends.shape[0]:  # a few boxes that stay in the cache, instead of those of all blocks
            roomier = _boxes(gauge, np.int64(2 * (e - first) + 128))
            _move(recent, first - kept_from, e - 1 - first, roomier)
            recent = roomier
            kept_from = first
        begin = block_end[e - 2] if e > 1 else 0
        before[e] = before[e - 1] + _fill_block(
            order, sizes, lo, hi, mask, gauge, begin, block_end[e - 1], recent, e - 1 - kept_from
        )
        while shortest + 1 < e and before[e] - before[shortest + 1] >= k1:
            shortest += 1
        if before[e] - before[shortest] < k1:
            continue
        while first < shortest and before[shortest] - before[first] >= k1:
            first += 1
        if shortest > middle:
            bottom = first
            middle = e - 1
            if e - first > stack.extra.shape[0]:
                stack = _unions(gauge, np.int64(2 * (e - first)))
            _fill_stack(stack, recent, first - kept_from, e - kept_from, gauge)
            _clear(tail)
        else:
            _extend(tail, recent, e - 1 - kept_from)
        best[e], previous[e] = _cheapest(
            stack, tail, gauge, best, before, bottom, first - bottom, shortest - bottom + 1, before[e], k1
        )
    return before, best, previous


@kernel
def join_divisions(order, sizes, lo, hi, mask, gauge, k1, block_end, middle, ahead, behind):
    """The ends of the groups of the best division, from the best divisions of the blocks before `middle` and behind.

    `ahead` is what `best_divisions` gives for the blocks before the middle, `behind` for the others, in reverse order.
    Either a group ends at the middle, or one lies across it; of these all are tried that can be a part of the best: no
    group has 2 * k1 rows besides its largest block.
    """
    before, best, previous = ahead
    _, best_to_end, next_end = behind
    n_blocks = block_end.shape[0]
    n_behind = n_blocks - middle
    first = middle  # the longest group that is tried begins here
    largest = 0.0
    while first > 0:
        largest = max(largest, before[first] - before[first - 1])
        if before[middle] - before[first - 1] - largest >= WINDOW * k1:
            break
        first -= 1
    boxes = _boxes(gauge, middle - first + 1)
    for b in range(first, middle):
        begin = block_end[b - 1] if b > 0 else 0
        _fill_block(order, sizes, lo, hi, mask, gauge, begin, block_end[b], boxes, b - first)
    stack = _unions(gauge, middle - first)
    _fill_stack(stack, boxes, np.int64(0), middle - first, gauge)
    tail = _boxes(gauge, np.int64(1))
    _clear(tail)
    # Groups that begin before the middle, and no others: eight are read at once.
    best_ahead = np.full(middle - first + WINDOW_LANES, np.inf)
    best_ahead[: middle - first] = best[first:middle]
    rows_ahead = np.full(middle - first + WINDOW_LANES, np.inf)
    rows_ahead[: middle - first] = before[first:middle]
    least = best[middle] + best_to_end[n_behind]
    begin_across = end_across = middle
    rows_behind = largest = 0.0
    for e in range(middle + 1, n_blocks + 1):
        rows = _fill_block(order, sizes, lo, hi, mask, gauge, block_end[e - 2], block_end[e - 1], boxes, middle - first)
        _extend(tail, boxes, middle - first)
        rows_behind += rows
        largest = max(largest, rows)
        if rows_behind - largest >= WINDOW * k1:
            break
        cost, s = _cheapest(
            stack,
            tail,
            gauge,
            best_ahead,
            rows_ahead,
            np.int64(0),
            np.int64(0),
            middle - first,
            before[middle] + rows_behind,
            k1,
        )
        cost += best_to_end[n_blocks - e]
        if cost < least:
            least = cost
            begin_across = first + s
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
    """Boxes of blocks, one row each."""

    ends: NDArray[np.float64]  # (boxes, 2 * LINEAR axes) in units of width: the lower ends, then the upper ones negated
    sets: NDArray[np.uint64]  # (boxes, MASK axes)
    lo: NDArray[np.int32]  # (boxes, other axes)
    hi: NDArray[np.int32]


@kernel
def _boxes(gauge, n):
    n_masks = gauge.n_masked - gauge.n_linear
    n_others = gauge.kind.shape[0] - gauge.n_masked
    return Boxes(
        np.empty((n, 2 * gauge.n_linear)),
        np.empty((n, n_masks), np.uint64),
        np.empty((n, n_others), np.int32),
        np.empty((n, n_others), np.int32),
    )


@kernel
def _move(boxes, begin, n, target):
    """The boxes begin .. begin + n - 1 become the first ones of `target`."""
    target.ends[:n] = boxes.ends[begin : begin + n]
    target.sets[:n] = boxes.sets[begin : begin + n]
    target.lo[:n] = boxes.lo[begin : begin + n]
    target.hi[:n] = boxes.hi[begin : begin + n]


@inlined
def _fill_block(order, sizes, lo, hi, mask, gauge, begin, end, boxes, at):
    """The box of the leaves order[begin:end] as box number `at`; returns their number of rows."""
    # Unsigned numbers cannot count from the end of an array, which would cost a test each.
    at = np.uint64(at)
    n_linear = np.uint64(gauge.n_linear)
    leaf = np.uint64(order[begin])
    rows = sizes[leaf]
    for a in range(n_linear):
        boxes.ends[at, a] = lo[leaf, a] * gauge.scale[a]
        boxes.ends[at, n_linear + a] = hi[leaf, a] * -gauge.scale[a]
    for m in range(mask.shape[1]):
        boxes.sets[at, m] = mask[leaf, m]
    for o in range(boxes.lo.shape[1]):
        boxes.lo[at, o] = lo[leaf, gauge.n_masked + o]
        boxes.hi[at, o] = hi[leaf, gauge.n_masked + o]
    for i in range(begin + 1, end):
        leaf = np.uint64(order[i])
        rows += sizes[leaf]
        for a in range(n_linear):
            boxes.ends[at, a] = min(boxes.ends[at, a], lo[leaf, a] * gauge.scale[a])
            boxes.ends[at, n_linear + a] = min(boxes.ends[at, n_linear + a], hi[leaf, a] * -gauge.scale[a])
        for m in range(mask.shape[1]):
            boxes.sets[at, m] |= mask[leaf, m]
        for o in range(boxes.lo.shape[1]):
            boxes.lo[at, o] = min(boxes.lo[at, o], lo[leaf, gauge.n_masked + o])
            boxes.hi[at, o] = max(boxes.hi[at, o], hi[leaf, gauge.n_masked + o])
    return np.float64(rows)


class Unions(NamedTuple):
    """Unions of boxes, eight side by side."""

    ends: NDArray[np.float64]  # (unions / 8, 2 * LINEAR axes, 8), as those of boxes
    sets: NDArray[np.uint64]  # (MASK axes, unions)
    lo: NDArray[np.int32]  # (other axes, unions)
    hi: NDArray[np.int32]
    extra: NDArray[np.float64]  # the width on the axes that are not LINEAR, together with the tail


@kernel
def _unions(gauge, n):
    n_masks = gauge.n_masked - gauge.n_linear
    n_others = gauge.kind.shape[0] - gauge.n_masked
    n_chunks = (n + WINDOW_LANES - 1) // WINDOW_LANES
    n = n_chunks * WINDOW_LANES
    return Unions(
        np.zeros((n_chunks, 2 * gauge.n_linear, WINDOW_LANES)),
        np.empty((n_masks, n), np.uint64),
        np.empty((n_others, n), np.int32),
        np.empty((n_others, n), np.int32),
        np.zeros(n),
    )


@inlined
def _fill_stack(stack, boxes, begin, end, gauge):
    """Union number i is that of the boxes begin + i .. end - 1."""
    last = np.uint64(end - 1 - begin)
    for a in range(np.uint64(stack.ends.shape[1])):
        stack.ends[last >> _THREE, a, last & _SEVEN] = boxes.ends[np.uint64(end - 1), a]
    for i in range(end - 2, begin - 1, -1):
        at = np.uint64(i - begin)
        after = at + np.uint64(1)
        for a in range(np.uint64(stack.ends.shape[1])):
            stack.ends[at >> _THREE, a, at & _SEVEN] = min(
                stack.ends[after >> _THREE, a, after & _SEVEN], boxes.ends[np.uint64(i), a]
            )
    for m in range(stack.sets.shape[0]):
        union = np.uint64(0)
        for i in range(end - 1, begin - 1, -1):
            union |= boxes.sets[i, m]
            stack.sets[m, i - begin] = union
    for o in range(stack.lo.shape[0]):
        lo = boxes.lo[end - 1, o]
        hi = boxes.hi[end - 1, o]
        for i in range(end - 1, begin - 1, -1):
            lo = min(lo, boxes.lo[i, o])
            hi = max(hi, boxes.hi[i, o])
            stack.lo[o, i - begin] = lo
            stack.hi[o, i - begin] = hi


@inlined
def _clear(tail):
    """The union of no blocks at all."""
    for a in range(tail.ends.shape[1]):
        tail.ends[0, a] = np.inf
    for m in range(tail.sets.shape[1]):
        tail.sets[0, m] = np.uint64(0)
    for o in range(tail.lo.shape[1]):
        tail.lo[0, o] = np.int32(2**31 - 1)
        tail.hi[0, o] = np.int32(-(2**31))


@inlined
def _extend(tail, boxes, at):
    """The tail with one more box."""
    at = np.uint64(at)
    for a in range(np.uint64(tail.ends.shape[1])):
        tail.ends[0, a] = min(tail.ends[0, a], boxes.ends[at, a])
    for m in range(tail.sets.shape[1]):
        tail.sets[0, m] |= boxes.sets[at, m]
    for o in range(tail.lo.shape[1]):
        tail.lo[0, o] = min(tail.lo[0, o], boxes.lo[at, o])
        tail.hi[0, o] = max(tail.hi[0, o], boxes.hi[at, o])


@inlined
def _cheapest(stack, tail, gauge, best, before, bottom, begin, end, rows, k1):
    """The least cost of a group of one of the unions begin .. end - 1 of the stack and the tail, and where it begins.

    `rows` are those before the end of the group, and union i begins with block bottom + i.
    """
    # Unsigned numbers cannot count from the end of an array, which would keep these loops from being vectorized.
    begin = np.uint64(begin) & ~_SEVEN
    end = np.uint64(end)
    if stack.sets.shape[0] + stack.lo.shape[0] > 0:
        for i in range(begin, end):
            stack.extra[i] = 0.0
    for m in range(stack.sets.shape[0]):
        for i in range(begin, end):
            stack.extra[i] += mask_width(gauge, gauge.n_linear + m, stack.sets[m, i] | tail.sets[0, m])
    for o in range(stack.lo.shape[0]):
        for i in range(begin, end):
            lo = min(stack.lo[o, i], tail.lo[0, o])
            hi = max(stack.hi[o, i], tail.hi[0, o])
            stack.extra[i] += range_width(gauge, gauge.n_masked + o, lo, hi)
    return cheapest_group(  # type: ignore[call-arg]
        stack.ends,
        tail.ends,
        stack.extra,
        best,
        before,
        bottom,
        np.int64(begin >> _THREE),
        np.int64((end + _SEVEN) >> _THREE),
        rows,
        np.float64(k1),
    )
