"""The tree above the leaves: its links, its regions, and the order in which leaves are scanned.

Inner node i separates leaf i from leaf i + 1, so a tree of L leaves is L - 1 cuts with their depths: an in-order
listing. A child is given as the number of an inner node, or as ~leaf (a negative number).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment, call-arg, unreachable"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.gauge import MASK, mask_width, range_width
from rtree_anon.kernels.jit import kernel, lean_inlined
from rtree_anon.kernels.lanes import LANES, union_of_lanes, union_width_of_lanes


@kernel
def link_nodes(depth, left, right):
    """Fill the children of every inner node from the depths; return the root (-1, i.e. ~0, for a single leaf)."""
    return link_in_room(depth, depth.shape[0], left, right, np.empty(depth.shape[0] + 1, np.int64))


@lean_inlined
def link_in_room(depth, n_inner, left, right, path):
    """`link_nodes` of the first n_inner cuts; `path` is scratch space for one entry more."""
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
    return path[0] if n_inner > 0 else np.int64(-1)


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


@lean_inlined
def list_nodes(left, right, root, todo, visit):
    """`visit` lists the inner nodes, parents before their children; how many they are. `todo` is scratch space."""
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
    return n_visited


class WalkRoom(NamedTuple):
    """Scratch space of a walk, by inner node unless said otherwise."""

    width: NDArray[np.float64]  # by box
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
    n_boxes, n_inner = lo.shape[0], left.shape[0]
    all_lo = np.empty((n_boxes + n_inner, lo.shape[1]), np.int32)
    all_hi = np.empty((n_boxes + n_inner, lo.shape[1]), np.int32)
    all_mask = np.empty((n_boxes + n_inner, mask.shape[1]), np.uint64)
    all_lo[:n_boxes] = lo
    all_hi[:n_boxes] = hi
    all_mask[:n_boxes] = mask
    room = walk_room(n_inner, n_boxes)
    walk_leaves(
        left, right, n_inner, root, gauge, all_lo, all_hi, all_mask, n_boxes, entry, room, order, between, flipped
    )


@kernel
def walk_room(n_inner, inner):
    """Scratch space for trees with up to so many inner nodes, whose boxes begin behind `inner` others."""
    return WalkRoom(
        np.empty(inner + n_inner),
        np.empty(2 * n_inner + 3, np.int64),
        np.empty(n_inner, np.int64),
        np.zeros(n_inner, np.bool_),
    )


@lean_inlined
def walk_leaves(left, right, n_inner, root, gauge, lo, hi, mask, inner, entry, room, order, between, flipped):
    """`order_leaves` of a tree of n_inner inner nodes, with scratch space from `walk_room`.

    Leaf i has the box i, and inner node i gets the box inner + i: a child is then a number, and not a choice between
    arrays, which would cost more than to look at the few numbers in them.
    """
    width, todo, visit, swapped_at = room.width, room.todo, room.visit, room.swapped
    for leaf in range(n_inner + 1):
        width[leaf] = _union_width(gauge, lo, hi, mask, leaf, leaf)
    n_visited = list_nodes(left, right, root, todo, visit)
    for v in range(n_visited - 1, -1, -1):  # children before parents
        node = visit[v]
        own = inner + node
        _unite(lo, hi, mask, _box(left[node], inner), _box(right[node], inner), own)
        width[own] = _union_width(gauge, lo, hi, mask, own, own)
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
            one, other = _box(nearer, inner), _box(farther, inner)
            growth_left = _union_width(gauge, lo, hi, mask, last, one) - width[one]
            growth_right = _union_width(gauge, lo, hi, mask, last, other) - width[other]
            swapped = growth_right < growth_left
        todo[top] = nearer if swapped else farther
        todo[top + 1] = n_inner + node
        todo[top + 2] = farther if swapped else nearer
        swapped_at[node] = swapped
        top += 3
    for i in range(n_inner):
        flipped[i] = swapped_at[between[i]]


@lean_inlined
def _box(child, inner):
    """The box of an inner node, or of ~leaf."""
    return inner + child if child >= 0 else ~child


@lean_inlined
def _unite(lo, hi, mask, one, other, union):
    """The box `union` becomes the union of two others."""
    d = lo.shape[1]
    whole = d - d % LANES
    for first in range(0, whole, LANES):
        union_of_lanes(lo[one], hi[one], lo[other], hi[other], np.int64(first), lo[union], hi[union])
    for a in range(whole, d):
        lo[union, a] = min(lo[one, a], lo[other, a])
        hi[union, a] = max(hi[one, a], hi[other, a])
    for m in range(mask.shape[1]):
        mask[union, m] = mask[one, m] | mask[other, m]


@lean_inlined
def _union_width(gauge, lo, hi, mask, one, other):
    """The width of the union of two boxes, or of a box with itself."""
    d, n_linear = gauge.kind.shape[0], gauge.n_linear
    whole = d - d % LANES
    width = 0.0
    for first in range(0, whole, LANES):
        width += union_width_of_lanes(
            lo[one], hi[one], lo[other], hi[other], np.int64(first), np.int64(n_linear), gauge.scale
        )
    for a in range(whole, n_linear):
        width += (np.int64(max(hi[one, a], hi[other, a])) - np.int64(min(lo[one, a], lo[other, a]))) * gauge.scale[a]
    for a in range(n_linear, gauge.n_masked):
        width += mask_width(gauge, a, mask[one, a - n_linear] | mask[other, a - n_linear])
    for a in range(gauge.n_masked, d):
        width += range_width(gauge, a, min(lo[one, a], lo[other, a]), max(hi[one, a], hi[other, a]))
    return width


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
