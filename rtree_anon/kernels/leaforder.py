"""The tree above the leaves: its links, its regions, and the order in which leaves are scanned.

Inner node i separates leaf i from leaf i + 1, so a tree of L leaves is L - 1 cuts with their depths: an in-order
listing. A child is given as the number of an inner node, or as ~leaf (a negative number).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.gauge import MASK, box_width, mask_width, range_width
from rtree_anon.kernels.jit import kernel, lean_inlined, lean_kernel


@kernel
def link_nodes(depth, left, right):
    """Fill the children of every inner node from the depths; return the root (-1, i.e. ~0, for a single leaf)."""
    n_inner = depth.shape[0]
    path = np.empty(n_inner + 1, np.int64)
    top = 0
    for i in range(n_inner):
        left[i] = ~i
        right[i] = ~(i + 1)
        below = -1
        while top > 0 and depth[path[top - 1]] > depth[i]:
            top -= 1
            below = path[top]
        if below >= 0:
            left[i] = below
        if top > 0:
            right[path[top - 1]] = i
        path[top] = i
        top += 1
    return path[0] if n_inner > 0 else -1


@kernel
def number_depths(left, right, root, depth):
    """The depth of every inner node, counted from the root."""
    todo = np.empty((left.shape[0] + 2, 2), np.int64)
    todo[0, 0] = root
    todo[0, 1] = 0
    top = 1
    while top > 0:
        top -= 1
        node, here = todo[top]
        if node >= 0:
            depth[node] = here
            todo[top, 0] = left[node]
            todo[top, 1] = here + 1
            todo[top + 1, 0] = right[node]
            todo[top + 1, 1] = here + 1
            top += 2


class WalkRoom(NamedTuple):
    """Scratch space of a walk, by inner node unless said otherwise."""

    lo: NDArray[np.int32]
    hi: NDArray[np.int32]
    mask: NDArray[np.uint64]
    width: NDArray[np.float64]
    leaf_width: NDArray[np.float64]  # by leaf
    todo: NDArray[np.int64]
    visit: NDArray[np.int64]
    swapped: NDArray[np.bool_]


@kernel
def order_leaves(left, right, root, gauge, lo, hi, mask, entry, order, between, flipped):
    """Walk the tree so that, at each inner node, the child nearer to the leaf just emitted comes first.

    `entry` is the number of the box that counts as emitted before the first leaf, -1 for none; it may lie behind the
    leaves' boxes. `between[i]` becomes the inner node that separates leaf i from leaf i + 1 of the order, and
    `flipped[i]` says that its right side comes first.

    Nearer: its box grows less by the union with that leaf. Neighbours in this order make better groups in a leaf scan
    than neighbours in the tree's own order (9 % better certainty with the paper's greedy scan, measured on Adult).
    """
    room = walk_room(left.shape[0], lo.shape[1], mask.shape[1])
    walk_leaves(left, right, left.shape[0], root, gauge, lo, hi, mask, entry, room, order, between, flipped)


@kernel
def walk_room(n_inner, d, n_masks):
    """Scratch space for trees with up to so many inner nodes."""
    return WalkRoom(
        np.empty((n_inner, d), np.int32),
        np.empty((n_inner, d), np.int32),
        np.empty((n_inner, n_masks), np.uint64),
        np.empty(n_inner),
        np.empty(n_inner + 1),
        np.empty(2 * n_inner + 3, np.int64),
        np.empty(n_inner, np.int64),
        np.zeros(n_inner, np.bool_),
    )


@lean_kernel
def walk_leaves(left, right, n_inner, root, gauge, lo, hi, mask, entry, room, order, between, flipped):
    """`order_leaves` of a tree of n_inner inner nodes, with scratch space from `walk_room`."""
    d = lo.shape[1]
    n_masks, n_linear = mask.shape[1], gauge.n_linear
    node_lo, node_hi, node_mask, node_width = room.lo, room.hi, room.mask, room.width
    leaf_width, todo, visit, swapped_at = room.leaf_width, room.todo, room.visit, room.swapped
    todo[0] = root
    top = 1
    n_visited = 0
    while top > 0:
        top -= 1
        node = todo[top]
        if node < 0:
            continue
        visit[n_visited] = node
        n_visited += 1
        todo[top] = left[node]
        todo[top + 1] = right[node]
        top += 2
    for v in range(n_visited - 1, -1, -1):  # children before parents
        node = visit[v]
        one, other = left[node], right[node]
        for child in (one, other):
            if child < 0:
                leaf_width[~child] = box_width(gauge, lo[~child], hi[~child], mask[~child])
        lo_one, hi_one, mask_one = _box(one, node_lo, node_hi, node_mask, lo, hi, mask)
        lo_other, hi_other, mask_other = _box(other, node_lo, node_hi, node_mask, lo, hi, mask)
        for a in range(d):
            node_lo[node, a] = min(lo_one[a], lo_other[a])
            node_hi[node, a] = max(hi_one[a], hi_other[a])
        for a in range(n_masks):
            node_mask[node, a] = mask_one[a] | mask_other[a]
        node_width[node] = box_width(gauge, node_lo[node], node_hi[node], node_mask[node])
    last = entry
    n_emitted = 0
    todo[0] = root
    top = 1
    while top > 0:
        top -= 1
        node = todo[top]
        if node < 0:
            last = ~node
            order[n_emitted] = last
            n_emitted += 1
            continue
        if node >= n_inner:  # what is nearer was emitted, what is farther comes now
            between[n_emitted - 1] = node - n_inner
            continue
        nearer, farther = left[node], right[node]
        swapped = False
        if last >= 0:
            growth_left = 0.0
            growth_right = 0.0
            last_lo, last_hi, last_mask = lo[last], hi[last], mask[last]
            lo_left, hi_left, mask_left = _box(nearer, node_lo, node_hi, node_mask, lo, hi, mask)
            lo_right, hi_right, mask_right = _box(farther, node_lo, node_hi, node_mask, lo, hi, mask)
            for a in range(n_linear):  # two sums at a time: each has to wait for itself
                scale = gauge.scale[a]
                lowest, highest = last_lo[a], last_hi[a]
                growth_left += (np.int64(max(highest, hi_left[a])) - np.int64(min(lowest, lo_left[a]))) * scale
                growth_right += (np.int64(max(highest, hi_right[a])) - np.int64(min(lowest, lo_right[a]))) * scale
            for a in range(n_linear, gauge.n_masked):
                m = a - n_linear
                growth_left += mask_width(gauge, a, last_mask[m] | mask_left[m])
                growth_right += mask_width(gauge, a, last_mask[m] | mask_right[m])
            for a in range(gauge.n_masked, d):
                lowest, highest = last_lo[a], last_hi[a]
                growth_left += range_width(gauge, a, min(lowest, lo_left[a]), max(highest, hi_left[a]))
                growth_right += range_width(gauge, a, min(lowest, lo_right[a]), max(highest, hi_right[a]))
            growth_left -= node_width[nearer] if nearer >= 0 else leaf_width[~nearer]
            growth_right -= node_width[farther] if farther >= 0 else leaf_width[~farther]
            if growth_right < growth_left:
                nearer, farther = farther, nearer
                swapped = True
        swapped_at[node] = swapped
        todo[top] = farther
        todo[top + 1] = n_inner + node
        todo[top + 2] = nearer
        top += 3
    for i in range(n_inner):
        flipped[i] = swapped_at[between[i]]


@lean_inlined
def _box(child, node_lo, node_hi, node_mask, lo, hi, mask):
    """The box of an inner node, or of ~leaf."""
    if child >= 0:
        return node_lo[child], node_hi[child], node_mask[child]
    return lo[~child], hi[~child], mask[~child]


@kernel
def leaf_regions(left, right, root, gauge, axis, threshold, left_set, lo, hi, mask):
    """The region of every leaf: the box that its ancestors' cuts leave of the whole domain.

    Called with row ~root (or row 0) of lo, hi, mask holding the domain in *every* row; regions are disjoint and cover
    it.
    """
    n_inner = left.shape[0]
    d = lo.shape[1]
    n_masks = mask.shape[1]
    path_lo = np.empty((n_inner + 1, d), np.int32)  # by inner node
    path_hi = np.empty((n_inner + 1, d), np.int32)
    path_mask = np.empty((n_inner + 1, n_masks), np.uint64)
    todo = np.empty(n_inner + 2, np.int64)
    top = 0
    if root >= 0:
        path_lo[root] = lo[0]
        path_hi[root] = hi[0]
        path_mask[root] = mask[0]
        todo[0] = root
        top = 1
    while top > 0:
        top -= 1
        node = todo[top]
        a = axis[node]
        for child in (left[node], right[node]):
            child_lo = path_lo[child] if child >= 0 else lo[~child]
            child_hi = path_hi[child] if child >= 0 else hi[~child]
            child_mask = path_mask[child] if child >= 0 else mask[~child]
            child_lo[:] = path_lo[node]
            child_hi[:] = path_hi[node]
            child_mask[:] = path_mask[node]
            if gauge.kind[a] == MASK:
                m = a - gauge.n_linear
                if child == left[node]:
                    child_mask[m] &= left_set[node]
                else:
                    child_mask[m] &= ~left_set[node]
            elif child == left[node]:
                child_hi[a] = threshold[node] - 1
            else:
                child_lo[a] = threshold[node]
            if child >= 0:
                todo[top] = child
                top += 1
