"""Upkeep of leaves: which ones a batch of inserts and deletes makes too small or too large, and cutting those again.

A stretch of the index is a whole subtree: leaves in order, cuts between neighbours (kernels/leaforder.py), rows leaf by
leaf. A batch is worked in like this (R+-tree paper, section 2.2; DESIGN: no leaf below k at any moment):

    settle_leaves   a cut that leaves fewer than k rows on one side is dropped, and those rows go down the other side
    choose_regions  subtrees that are cut again, because a leaf in them could be divided
    pick_rows       the rows of these regions: only they are unpacked for the kernels that cut
    recut_regions   the cuts inside them, by the kernels of every other cut
    arrange_leaves  the leaves in their new order: regions walked from the leaf before them, everything else as it was
    mix_cuts        the cuts between them, old and new ones
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.blocks import grow_block
from rtree_anon.kernels.boxes import boxes_of_runs
from rtree_anon.kernels.cutting import grow
from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.leaforder import link_nodes, walk_leaves, walk_room


class CutArrays(NamedTuple):
    """Cuts between neighbours, in codes of the space, as kernels take them."""

    depth: NDArray[np.int32]
    axis: NDArray[np.int16]
    is_set: NDArray[np.bool_]
    flipped: NDArray[np.bool_]
    threshold: NDArray[np.int64]
    left_set: NDArray[np.uint64]


@kernel
def node_spans(first, second, root, begin, end, visit):
    """Leaves begin[i] .. end[i]-1 are below inner node i; `visit` lists the inner nodes, parents first."""
    n_inner = first.shape[0]
    todo = np.empty(n_inner + 2, np.int64)
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
        todo[top] = first[node]
        todo[top + 1] = second[node]
        top += 2
    for v in range(n_visited - 1, -1, -1):
        node = visit[v]
        begin[node] = begin[first[node]] if first[node] >= 0 else ~first[node]
        end[node] = end[second[node]] if second[node] >= 0 else ~second[node] + 1


@kernel
def settle_leaves(first, second, root, counts, k, kept, orphan):
    """Which cuts are kept so that every leaf has k rows, and which leaves' rows have to find another; their number.

    Without an orphan, leaves that are no longer separated by a cut are one leaf now. A tree with fewer than k rows
    becomes a single leaf.
    """
    n_inner = first.shape[0]
    kept[:] = False
    orphan[:] = False
    begin = np.empty(n_inner, np.int64)
    end = np.empty(n_inner, np.int64)
    visit = np.empty(n_inner, np.int64)
    node_spans(first, second, root, begin, end, visit)
    sums = np.zeros(counts.shape[0] + 1, np.int64)
    for i in range(counts.shape[0]):
        sums[i + 1] = sums[i] + counts[i]
    todo = np.empty(n_inner + 2, np.int64)
    todo[0] = root
    top = 1
    n_orphans = 0
    while top > 0:
        top -= 1
        node = todo[top]
        if node < 0:
            continue
        one, other = first[node], second[node]
        middle = end[one] if one >= 0 else ~one + 1
        enough_one = sums[middle] - sums[begin[node]] >= k
        enough_other = sums[end[node]] - sums[middle] >= k
        if enough_one and enough_other:
            kept[node] = True
            todo[top] = one
            todo[top + 1] = other
            top += 2
        elif enough_one or enough_other:
            weak_begin = middle if enough_one else begin[node]
            weak_end = end[node] if enough_one else middle
            for leaf in range(weak_begin, weak_end):
                orphan[leaf] = True
                n_orphans += 1
            todo[top] = one if enough_one else other
            top += 1
    return n_orphans


@kernel
def choose_regions(first, second, root, starts, changed, k, most_rows, begin, end):
    """Subtrees to be cut again, as ranges of leaves in order; their number.

    A changed leaf with 2k rows or more is one. So is a subtree with changed leaves, of at most `most_rows` rows, that
    has rows enough for one leaf more than it would have otherwise: inserts fill leaves, and what neighbours can spare
    makes a new one. The largest such subtrees are taken.
    """
    n_inner = first.shape[0]
    n_leaves = n_inner + 1
    dirty = np.zeros(n_leaves + 1, np.int64)
    for i in range(n_leaves):
        dirty[i + 1] = dirty[i] + (1 if changed[i] else 0)
    if dirty[n_leaves] == 0:
        return 0
    span_begin = np.empty(n_inner, np.int64)
    span_end = np.empty(n_inner, np.int64)
    visit = np.empty(n_inner, np.int64)
    node_spans(first, second, root, span_begin, span_end, visit)
    leaves = np.ones(n_leaves, np.int64)  # expected, of every leaf's region
    node_leaves = np.empty(n_inner, np.int64)
    leaf_wants = np.zeros(n_leaves, np.bool_)
    node_wants = np.zeros(n_inner, np.bool_)
    for i in range(n_leaves):
        n = starts[i + 1] - starts[i]
        if changed[i] and n >= 2 * k:
            leaf_wants[i] = True
            leaves[i] = n // k
    for v in range(n_inner - 1, -1, -1):
        node = visit[v]
        one, other = first[node], second[node]
        n_expected = node_leaves[one] if one >= 0 else leaves[~one]
        n_expected += node_leaves[other] if other >= 0 else leaves[~other]
        a, b = span_begin[node], span_end[node]
        n = starts[b] - starts[a]
        if dirty[b] > dirty[a] and n <= most_rows and n // k > n_expected:
            node_wants[node] = True
            n_expected = n // k
        node_leaves[node] = n_expected
    todo = np.empty(n_inner + 2, np.int64)
    todo[0] = root
    top = 1
    n_regions = 0
    while top > 0:
        top -= 1
        node = todo[top]
        if (node >= 0 and node_wants[node]) or (node < 0 and leaf_wants[~node]):
            begin[n_regions] = span_begin[node] if node >= 0 else ~node
            end[n_regions] = span_end[node] if node >= 0 else ~node + 1
            n_regions += 1
        elif node >= 0:
            todo[top] = second[node]
            todo[top + 1] = first[node]
            top += 2
    return n_regions


@kernel
def pick_rows(starts, source, begin, end, picked, place):
    """The rows of regions, one region after the other, each behind the leaf that comes before it; how many they are.

    picked[place[r, 0]:place[r, 1]] are the rows of the leaf before region r, unless that is in a region itself;
    picked[place[r, 1]:place[r, 2]] are those of the region.
    """
    at = np.int64(0)
    for r in range(begin.shape[0]):
        place[r, 0] = at
        if begin[r] > 0 and (r == 0 or end[r - 1] != begin[r]):
            for i in range(starts[begin[r] - 1], starts[begin[r]]):
                picked[at] = source[i]
                at += 1
        place[r, 1] = at
        for i in range(starts[begin[r]], starts[end[r]]):
            picked[at] = source[i]
            at += 1
        place[r, 2] = at
    return at


@kernel
def recut_regions(rows, place, depth, k, gauge, preferred, effort, worth, seed, work, found, space, guard, record):
    """Cut every region down to leaves, as many as its rows can make; depth[r] is where region r hangs.

    `guard` has a privacy model that both sides of every cut must satisfy, or is None.
    """
    d = rows.shape[1] - 1
    for r in range(place.shape[0]):
        first = place[r, 1]
        m = place[r, 2] - first
        if guard is not None or m > effort.exact_rows:
            grow(
                rows,
                first,
                m,
                depth[r],
                k,
                gauge,
                preferred,
                effort,
                worth,
                seed,
                work,
                found,
                space,
                guard,
                record,
            )
            continue
        block, members, others = space.block, space.small, space.others
        for i in range(m):
            for a in range(d):
                block[a, i] = rows[first + i, a]
        grow_block(
            block, m, first, depth[r], k, gauge, preferred, effort, worth, None, found, members, others, record, True
        )
        for i in range(m):
            others[i] = rows[first + i, d]
        for i in range(m):
            member = members[0, i]
            for a in range(d):
                rows[first + i, a] = block[a, member]
            rows[first + i, d] = others[member]


@kernel
def arrange_leaves(rows, source, starts, begin, end, place, record, gauge, sizes, cut_from, flipped, order):
    """The leaves in order: their sizes, and in `order` the numbers of their rows one after the other; how many leaves.

    cut_from[i], between leaf i and leaf i + 1, is the number of an old cut, or ~position of a new one in the record,
    whose right side comes first where flipped[i]. Rows of regions are in `rows`, with their numbers in the last column.
    """
    d = gauge.kind.shape[0]
    n_masks = gauge.n_masked - gauge.n_linear
    n_regions = begin.shape[0]
    most = np.int64(1)  # leaves of a region
    for r in range(n_regions):
        n = np.int64(1)
        for p in range(place[r, 1] + 1, place[r, 2]):
            if record.depth[p] >= 0:
                n += 1
        most = max(most, n)
    part = np.empty(most + 1, np.int64)
    depth = np.empty(most, np.int32)
    left = np.empty(most, np.int64)
    right = np.empty(most, np.int64)
    walked = np.empty(most, np.int64)
    between = np.empty(most, np.int64)
    turned = np.empty(most, np.bool_)
    lo = np.empty((most + 1, d), np.int32)
    hi = np.empty((most + 1, d), np.int32)
    mask = np.empty((most + 1, n_masks), np.uint64)
    room = walk_room(most, d, n_masks)
    before = np.zeros(2, np.int64)  # the leaf just emitted, if it is in `rows`
    n_out = 0
    at = 0
    leaf = 0
    region = 0
    while leaf < starts.shape[0] - 1:
        if n_out > 0:
            cut_from[n_out - 1] = leaf - 1
            flipped[n_out - 1] = False
        if region == n_regions or begin[region] != leaf:
            sizes[n_out] = starts[leaf + 1] - starts[leaf]
            for i in range(starts[leaf], starts[leaf + 1]):
                order[at] = source[i]
                at += 1
            n_out += 1
            leaf += 1
            continue
        n_cuts = 0
        part[0] = place[region, 1]
        for p in range(place[region, 1] + 1, place[region, 2]):
            if record.depth[p] >= 0:
                depth[n_cuts] = record.depth[p]
                n_cuts += 1
                part[n_cuts] = p
        part[n_cuts + 1] = place[region, 2]
        root = link_nodes(depth[:n_cuts], left, right)
        n_parts = n_cuts + 1
        boxes_of_runs(rows, part[: n_parts + 1], gauge, lo, hi, mask)
        entry = np.int64(-1)
        if n_out > 0:
            entry = np.int64(n_parts)
            if place[region, 0] < place[region, 1]:
                before[0], before[1] = place[region, 0], place[region, 1]
            boxes_of_runs(rows, before, gauge, lo[n_parts:], hi[n_parts:], mask[n_parts:])
        walk_leaves(left, right, n_cuts, root, gauge, lo, hi, mask, entry, room, walked, between, turned)
        for i in range(n_parts):
            first, behind = part[walked[i]], part[walked[i] + 1]
            before[0], before[1] = first, behind
            sizes[n_out] = behind - first
            for p in range(first, behind):
                order[at] = rows[p, d]
                at += 1
            if i < n_cuts:
                cut_from[n_out] = ~part[between[i] + 1]
                flipped[n_out] = turned[i]
            n_out += 1
        leaf = end[region]
        region += 1
    return n_out


@kernel
def mix_cuts(cut_from, old, record, axis_of_column, set_axes, new):
    """Fill `new` with the cuts that `arrange_leaves` lists: depth, axis, is_set, flipped, threshold, left_set.

    new.flipped has the turns of new cuts. Thresholds of new cuts stay in the codes of the kernels.
    """
    for i in range(cut_from.shape[0]):
        p = cut_from[i]
        if p >= 0:
            new.depth[i] = old.depth[p]
            new.axis[i] = old.axis[p]
            new.is_set[i] = old.is_set[p]
            new.flipped[i] = old.flipped[p]
            new.threshold[i] = old.threshold[p]
            new.left_set[i] = old.left_set[p]
            continue
        p = ~p
        a = axis_of_column[record.axis[p]]
        new.depth[i] = record.depth[p]
        new.axis[i] = a
        new.is_set[i] = set_axes[a]
        new.threshold[i] = 0 if set_axes[a] else record.threshold[p]
        new.left_set[i] = record.left_set[p] if set_axes[a] else np.uint64(0)


@kernel
def choose_stretches(first, second, root, n_rows, touched, k, most_rows, begin, end):
    """Subtrees of bundles that are renewed together, as ranges of bundles in order; their number.

    All bundles of a stretch are touched; it has at least k rows, and at most `most_rows` unless it is one bundle. The
    tree is one that `settle_leaves` leaves: where a side has fewer than k rows, so has the other.
    """
    n_inner = first.shape[0]
    span_begin = np.empty(n_inner, np.int64)
    span_end = np.empty(n_inner, np.int64)
    visit = np.empty(n_inner, np.int64)
    node_spans(first, second, root, span_begin, span_end, visit)
    rows = np.zeros(n_inner + 2, np.int64)
    hits = np.zeros(n_inner + 2, np.int64)
    for i in range(n_inner + 1):
        rows[i + 1] = rows[i] + n_rows[i]
        hits[i + 1] = hits[i] + (1 if touched[i] else 0)
    todo = np.empty(n_inner + 2, np.int64)
    todo[0] = root
    top = 1
    n_stretches = 0
    while top > 0:
        top -= 1
        node = todo[top]
        a = span_begin[node] if node >= 0 else ~node
        b = span_end[node] if node >= 0 else ~node + 1
        if hits[b] == hits[a]:
            continue
        weak = node >= 0 and rows[span_end[first[node]] if first[node] >= 0 else ~first[node] + 1] - rows[a] < k
        if node < 0 or weak or (hits[b] - hits[a] == b - a and rows[b] - rows[a] <= most_rows):
            begin[n_stretches] = a
            end[n_stretches] = b
            n_stretches += 1
            continue
        todo[top] = second[node]
        todo[top + 1] = first[node]
        top += 2
    return n_stretches
