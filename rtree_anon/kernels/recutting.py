"""Cutting regions of a stretch again: subtrees that can have more leaves than they had (upkeep.py chooses them).

    load lines ─► cut down to leaves ─► boxes of the leaves ─► walk them from the leaf before ─► sizes, cuts, order

One region at a time goes all the way, so that its few rows stay in the nearest cache; what is between two regions keeps
its leaves, its cuts and its place. Rows are packed (rowwords.py) and are unpacked only here, as lines (lines.py), or
have been ranked before (`ranked`), where their codes are too wide for the kernels.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment, call-arg, unreachable"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.blocks import CutRecord, grow_block
from rtree_anon.kernels.boxes import boxes_of_members
from rtree_anon.kernels.cutting import grow
from rtree_anon.kernels.jit import kernel, lean_inlined
from rtree_anon.kernels.leaforder import WalkRoom, link_in_room, walk_leaves, walk_room
from rtree_anon.kernels.lines import expect_rows, load_lines


class CutArrays(NamedTuple):
    """Cuts between neighbours, in codes of the space, as kernels take them."""

    depth: NDArray[np.int32]
    axis: NDArray[np.int16]
    is_set: NDArray[np.bool_]
    flipped: NDArray[np.bool_]
    threshold: NDArray[np.int64]
    left_set: NDArray[np.uint64]


class RecutRoom(NamedTuple):
    """Scratch space for regions of up to n rows, made by `recut_room`: by row unless said otherwise."""

    lines: NDArray[np.int32]  # (n, axes + 1): of regions that are no block, and of the leaf before
    members: NDArray[np.uint32]  # 0 .. n-1
    record: CutRecord  # n + 1 entries
    part: NDArray[np.int64]  # by leaf of the region: where it begins; what follows is by leaf, too
    depth: NDArray[np.int32]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    path: NDArray[np.int64]
    walked: NDArray[np.int64]
    between: NDArray[np.int64]
    turned: NDArray[np.bool_]
    lo: NDArray[np.int32]  # boxes (.., axes): of the leaves, from `entry` on the leaf before, then of inner nodes
    hi: NDArray[np.int32]
    mask: NDArray[np.uint64]
    entry: int
    walk: WalkRoom


@kernel
def recut_room(n, k, d, n_masks):
    """Scratch space for regions of up to n rows, at least one, whose leaves have k rows."""
    most = n // k + 2  # leaves
    members = np.empty(n, np.uint32)
    for i in range(n):
        members[i] = i
    return RecutRoom(
        np.empty((n, d + 1), np.int32),
        members,
        CutRecord(
            np.full(n + 1, -1, np.int32),
            np.empty(n + 1, np.int16),
            np.empty(n + 1, np.int32),
            np.empty(n + 1, np.uint64),
        ),
        np.empty(most + 1, np.int64),
        np.empty(most, np.int32),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most + 1, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.bool_),
        np.empty((2 * most + 1, d), np.int32),
        np.empty((2 * most + 1, d), np.int32),
        np.empty((2 * most + 1, n_masks), np.uint64),
        most,
        walk_room(most, most + 1),
    )


@kernel
def recut_regions(
    old,
    added,
    source,
    starts,
    begin,
    end,
    hangs,
    k,
    layout,
    ranked,
    gauge,
    preferred,
    effort,
    worth,
    seed,
    work,
    found,
    space,
    guard,
    room,
    axis_of_column,
    set_axes,
    cuts,
    sizes,
    order,
    is_new,
    new,
):
    """Cut regions, leaves begin[r] .. end[r]-1, down to leaves, and list all leaves in their new order; how many.

    Leaf i of the stretch has the rows source[starts[i]:starts[i+1]] of `old` and `added`, and the regions hang at the
    depths `hangs`. `ranked` are lines of all rows, or None. `guard` has a privacy model that both sides of every cut
    must satisfy, or is None.

    What comes out: sizes of leaves, the numbers of their rows one after the other in `order`, and the cuts between them
    in `new`; of those where `is_new`, thresholds are in the codes of the kernels.
    """
    n_regions = begin.shape[0]
    n_leaves = starts.shape[0] - 1
    n_out = np.int64(0)
    at = np.int64(0)
    leaf = np.int64(0)
    for region in range(n_regions):
        if begin[region] > leaf or region == 0:
            at = _keep_leaves(source, starts, leaf, begin[region], cuts, n_out, sizes, order, at, is_new, new)
            n_out += begin[region] - leaf
            if n_out > 0:
                _load_entry(old, added, order, at - sizes[n_out - 1], at, layout, ranked, gauge, room)
        if n_out > 0:
            _copy_cuts(cuts, begin[region] - 1, new, n_out - 1, np.int64(1), is_new)
        if region + 1 < n_regions:
            expect_rows(old, added, source, starts[max(begin[region + 1] - 1, 0)], starts[end[region + 1]])
        first, behind = starts[begin[region]], starts[end[region]]
        m, depth = behind - first, hangs[region]
        lines, members = room.lines, room.members
        if guard is not None:  # alone, so that a kernel without a model is compiled without any of it, and vice versa
            _load(old, added, source, first, behind, layout, ranked, lines)
            grow(
                lines,
                np.int64(0),
                m,
                depth,
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
                room.record,
            )
        elif m > effort.exact_rows:
            _load(old, added, source, first, behind, layout, ranked, lines)
            grow(
                lines,
                np.int64(0),
                m,
                depth,
                k,
                gauge,
                preferred,
                effort,
                worth,
                seed,
                work,
                found,
                space,
                None,
                room.record,
            )
        else:
            lines, members = space.block.T, space.small[0]
            _load(old, added, source, first, behind, layout, ranked, lines)
            grow_block(
                space.block,
                m,
                np.int64(0),
                depth,
                k,
                gauge,
                preferred,
                effort,
                worth,
                None,
                found,
                space.small,
                space.others,
                room.record,
                True,
            )
        n_out += _list_leaves(
            lines, members, m, n_out, gauge, room, axis_of_column, set_axes, sizes, order, at, is_new, new
        )
        at += starts[end[region]] - starts[begin[region]]
        leaf = end[region]
    _keep_leaves(source, starts, leaf, n_leaves, cuts, n_out, sizes, order, at, is_new, new)
    return n_out + n_leaves - leaf


@lean_inlined
def _keep_leaves(source, starts, begin, end, cuts, n_out, sizes, order, at, is_new, new):
    """Leaves begin .. end-1 as they were, with the cuts before them, behind n_out leaves; where their rows end."""
    for leaf in range(begin, end):
        sizes[n_out + leaf - begin] = starts[leaf + 1] - starts[leaf]
    n_rows = starts[end] - starts[begin]
    rows, places = source[starts[begin] : starts[end]], order[at : at + n_rows]
    for i in range(rows.shape[0]):
        places[i] = rows[i]
    skipped = np.int64(1) if n_out == 0 else np.int64(0)  # there is no cut before the first leaf
    if end - begin > skipped:
        _copy_cuts(cuts, begin - 1 + skipped, new, n_out - 1 + skipped, end - begin - skipped, is_new)
    return at + n_rows


@lean_inlined
def _list_leaves(lines, members, m, n_out, gauge, room, axis_of_column, set_axes, sizes, order, at, is_new, new):
    """The leaves of a region that was cut, in the order of a walk from the leaf before; how many.

    They follow on n_out leaves and `at` rows. room.record has the cuts and is left empty. The box of the leaf before is
    the last one in `room`; there the box of the last leaf is left, for the region that may follow.
    """
    record = room.record
    number = gauge.kind.shape[0]  # where a line has the number of its row
    part = room.part
    n_cuts = np.int64(0)
    part[0] = 0
    for p in range(1, m):
        if record.depth[p] >= 0:
            room.depth[n_cuts] = record.depth[p]
            record.depth[p] = -1  # for the next region
            n_cuts += 1
            part[n_cuts] = p
    part[n_cuts + 1] = m
    entry = room.entry
    boxes_of_members(lines, members, part, n_cuts + 1, gauge, room.lo, room.hi, room.mask)
    root = link_in_room(room.depth, n_cuts, room.left, room.right, room.path)
    walk_leaves(
        room.left,
        room.right,
        n_cuts,
        root,
        gauge,
        room.lo,
        room.hi,
        room.mask,
        entry + 1,
        entry if n_out > 0 else np.int64(-1),
        room.walk,
        room.walked,
        room.between,
        room.turned,
    )
    for i in range(n_cuts + 1):
        here = room.walked[i]
        sizes[n_out + i] = part[here + 1] - part[here]
        for p in range(part[here], part[here + 1]):
            order[at] = lines[members[p], number]
            at += 1
    for i in range(n_cuts):
        p = part[room.between[i] + 1]
        a = axis_of_column[record.axis[p]]
        is_new[n_out + i] = True
        new.depth[n_out + i] = room.depth[room.between[i]]
        new.axis[n_out + i] = a
        new.is_set[n_out + i] = set_axes[a]
        new.flipped[n_out + i] = room.turned[i]
        new.threshold[n_out + i] = 0 if set_axes[a] else record.threshold[p]
        new.left_set[n_out + i] = record.left_set[p] if set_axes[a] else np.uint64(0)
    last = room.walked[n_cuts]
    for a in range(room.lo.shape[1]):
        room.lo[entry, a] = room.lo[last, a]
        room.hi[entry, a] = room.hi[last, a]
    for a in range(room.mask.shape[1]):
        room.mask[entry, a] = room.mask[last, a]
    return n_cuts + 1


@lean_inlined
def _load_entry(old, added, order, begin, end, layout, ranked, gauge, room):
    """The box of the leaf that comes before a region."""
    entry = room.entry
    part = room.part
    most = room.members.shape[0]
    for first in range(begin, end, most):  # a leaf that is no region can be larger than all of them
        m = min(end - first, most)
        _load(old, added, order, first, first + m, layout, ranked, room.lines)
        part[0] = 0
        part[1] = m
        boxes_of_members(room.lines, room.members, part, 1, gauge, room.lo, room.hi, room.mask)
        for a in range(room.lo.shape[1]):
            if first == begin:
                room.lo[entry, a] = room.lo[0, a]
                room.hi[entry, a] = room.hi[0, a]
            else:
                room.lo[entry, a] = min(room.lo[entry, a], room.lo[0, a])
                room.hi[entry, a] = max(room.hi[entry, a], room.hi[0, a])
        for a in range(room.mask.shape[1]):
            before = np.uint64(0) if first == begin else room.mask[entry, a]
            room.mask[entry, a] = before | room.mask[0, a]


@lean_inlined
def _load(old, added, numbers, begin, end, layout, ranked, lines):
    if ranked is None:
        load_lines(old, added, numbers, begin, end, layout, lines)
        return
    for i in range(end - begin):
        for a in range(lines.shape[1]):
            lines[i, a] = ranked[numbers[begin + i], a]


@lean_inlined
def _copy_cuts(cuts, first, new, place, n, is_new):
    """n cuts as they were, from `first` on, to `place` of the new ones."""
    for i in range(n):
        is_new[place + i] = False
        new.depth[place + i] = cuts.depth[first + i]
        new.axis[place + i] = cuts.axis[first + i]
        new.is_set[place + i] = cuts.is_set[first + i]
        new.flipped[place + i] = cuts.flipped[first + i]
        new.threshold[place + i] = cuts.threshold[first + i]
        new.left_set[place + i] = cuts.left_set[first + i]
