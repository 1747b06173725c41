"""Cutting rows into leaves: the top-down build of the tree over an array of rows.

`rows` is an int32 (n, axes + 1) array, row-major; the last column names the row and is not looked at. A node is a
contiguous range of rows. Cutting it moves the rows of the left side to its front, in place. A cut is *clean*: a
threshold or a set of categories on one axis, at least k rows on both sides; regions never overlap. A node that has 2k
rows or more is cut wherever such a cut exists; what remains is a leaf.

The tree is recorded by position. Between two neighbouring leaves there is exactly one inner node whose cut separates
them, so entry p of the record is the inner node whose right side begins at row p:

    depth[p]      its depth, -1 where no cut is (row p is inside a leaf)
    axis[p], threshold[p], left_set[p]   its cut

Which node is processed when, and by which thread, cannot be seen in the result.

How a node is cut depends on its size:

    more than cached_rows    by a sample (forecast.py); whole rows are moved, so that what is below lies together
    up to cached_rows        by a sample; the node's rows are set aside once, and only their numbers are moved
    up to exact_rows         exactly (blocks.py, search.py)

Where there is a privacy model, both sides of a cut must also satisfy it (paper, section 6: the definition of an
allowable group is given). A node is cut as it would be without the model, and the sides are judged; where one is not
valid or has too little room for more cuts (room.py), the cuts are weighed by what the model leaves: those of a forecast
(roomcut.py), and if none of them is valid, or the node is small, all (guard.py). A node without a valid cut is a leaf.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.blocks import grow_block, weighed_cut
from rtree_anon.kernels.evencut import even_cut, even_valid_cut
from rtree_anon.kernels.forecast import draw_numbers, forecast_cut, median_cut
from rtree_anon.kernels.guard import load_codes
from rtree_anon.kernels.jit import kernel, lean_inlined, lean_kernel
from rtree_anon.kernels.room import sides_have_room
from rtree_anon.kernels.roomcut import roomy_cut
from rtree_anon.kernels.search import divide_members, is_left, load_points, search_cut

_ROWS_PER_SAMPLED = 4  # larger nodes afford larger samples: they are few
MAX_SAMPLE_FACTOR = 8
_MOST_BINS = 32
_MEDIAN_ROWS = 32
_WEIGHED_SAMPLE = 256  # rows and bins of a forecast, at least, where a model binds
_WEIGHED_BINS = 16


class Workspace(NamedTuple):
    """Scratch space of one thread, made by `workspace`."""

    source: NDArray[np.int32]  # (rows, axes + 1): the rows of a node as they came
    members: NDArray[np.uint32]  # [rows] the node's rows in their present order
    others: NDArray[np.uint32]  # [rows]
    block: NDArray[np.int32]  # (axes + 1, small), every row together: the rows of a small node, or of a probe
    small: NDArray[np.uint32]  # (2, small): members of the block
    drawn: NDArray[np.int64]  # numbers of the rows of a sample
    stack: NDArray[np.int64]  # (2, 256, 3): nodes that wait


def workspace(n_axes: int, cached_rows: int, small_rows: int, sample_rows: int) -> Workspace:
    """Scratch space for nodes of up to cached_rows rows, blocks of small_rows and samples of sample_rows."""
    return Workspace(
        np.empty((cached_rows, n_axes + 1), np.int32),
        np.empty(cached_rows, np.uint32),
        np.empty(max(cached_rows, small_rows), np.uint32),
        np.empty((small_rows, n_axes + 1), np.int32).T,
        np.empty((2, small_rows), np.uint32),
        np.empty(max(sample_rows, small_rows, _MEDIAN_ROWS), np.int64),
        np.empty((2, 256, 3), np.int64),
    )


@kernel
def grow(rows, start, m, depth, k, gauge, preferred, effort, worth, seed, work, found, space, guard, record):
    """Cut rows[start:start+m], a node at this depth, down to leaves.

    `guard` has a privacy model that both sides of every cut must satisfy, or is None.
    """
    stack = space.stack[0]
    top = _push(stack, 0, start, m, depth)
    while top > 0:
        top -= 1
        start, m, depth = stack[top, 0], stack[top, 1], stack[top, 2]
        if m <= space.members.shape[0]:  # from here on numbers of rows are moved, and rows once, when a leaf is found
            n_nodes = _set_aside(rows, start, m, depth, space)
            while n_nodes > 0:
                n_nodes, sampled = _cut_down(
                    rows, start, n_nodes, k, gauge, preferred, effort, worth, seed, work, found, space, guard, record
                )
                if n_nodes > 0:
                    n_nodes = _cut_top(
                        rows,
                        start,
                        n_nodes,
                        sampled,
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
        left = cut_node(
            rows, start, m, depth, k, gauge, preferred, effort, worth, seed, work, found, space, guard, record
        )
        if left > 0:
            top = _push_sides(stack, top, start, m, left, depth + 1)


@lean_inlined
def _push(stack, top, start, m, depth):
    stack[top, 0] = start
    stack[top, 1] = m
    stack[top, 2] = depth
    return top + 1


@lean_inlined
def _push_sides(stack, top, start, m, left, depth):
    """The smaller side is pushed last and done first: the stack holds at most log2(n) nodes of waiting siblings."""
    if left <= m - left:
        top = _push(stack, top, start + left, m - left, depth)
        return _push(stack, top, start, left, depth)
    top = _push(stack, top, start, left, depth)
    return _push(stack, top, start + left, m - left, depth)


@kernel
def cut_node(rows, start, m, depth, k, gauge, preferred, effort, worth, seed, work, found, space, guard, record):
    """Cut one large node by a sample, record the cut and return the size of its left side; 0 where it is a leaf."""
    if m < 2 * k:
        return 0
    n_drawn = _n_drawn(m, effort)
    draw_numbers(start, m, n_drawn, seed, space.drawn)
    for i in range(n_drawn):
        _keep_sampled(rows, start + space.drawn[i], i, m, effort, work, space)
    axis = _sampled_cut(m, n_drawn, k, gauge, preferred, effort, worth, work, found, space)
    left = np.int64(0)
    if axis >= 0 and (preferred[axis] or not preferred.any()):
        left = partition_rows(rows, start, m, gauge, axis, work.threshold[0], work.left_set[0])
    if left < k or m - left < k:
        axis = _cut_by_all_rows(rows, start, m, k, gauge, preferred, axis, work)
        if axis < 0:
            return 0
        left = partition_rows(rows, start, m, gauge, axis, work.threshold[0], work.left_set[0])
    if guard is not None and not _have_room(rows, start, m, left, k, guard):
        axis = _weighed_cut(rows, start, m, k, gauge, preferred, effort, worth, seed, work, found, space, guard)
        if axis < 0:
            return 0
        left = partition_rows(rows, start, m, gauge, axis, work.threshold[0], work.left_set[0])
    _keep_cut(record, start + left, depth, axis, work)
    return left


@lean_kernel
def _set_aside(rows, start, m, depth, space):
    """Copy rows[start:start+m] to space.source; the stack of nodes that wait then has one."""
    for i in range(m):
        space.members[i] = i
        for a in range(rows.shape[1]):
            space.source[i, a] = rows[start + i, a]
    return _push(space.stack[1], np.int64(0), np.int64(0), m, depth)


@lean_kernel
def _cut_down(rows, start, top, k, gauge, preferred, effort, worth, seed, work, found, space, guard, record):
    """Cut the nodes on the stack down to leaves, or until the sample of the top one shows no cut that is allowed.

    Returns how many nodes are left and the axis of the cut that was not allowed, -1 where there was none. All that is
    done for every node is here, in one lean function: to count references would take as long as the work.
    """
    d = rows.shape[1] - 1
    source, members, block, small = space.source, space.members, space.block, space.small
    stack = space.stack[1]
    while top > 0:
        begin, m, depth = stack[top - 1, 0], stack[top - 1, 1], stack[top - 1, 2]
        if m < 2 * k:
            _put_rows(rows, start, begin, m, source, members)
            top -= 1
            continue
        if m > effort.exact_rows:
            axis, left = _cut_by_sample(
                rows, start, begin, m, k, gauge, preferred, effort, worth, seed, work, found, space, guard
            )
            if left == 0:
                return top, axis
            _keep_cut(record, start + begin + left, depth, axis, work)
            top = _push_sides(stack, top - 1, begin, m, left, depth + 1)
            continue
        for i in range(m):
            member = members[begin + i]
            for a in range(d + 1):
                block[a, i] = source[member, a]
        if guard is not None:  # it looks at rows by the numbers in their last column
            for i in range(m):
                rows[start + begin + i, d] = block[d, i]
            load_codes(rows, start + begin, m, guard)
        grow_block(
            block,
            m,
            start + begin,
            depth,
            k,
            gauge,
            preferred,
            effort,
            worth,
            guard,
            found,
            small,
            space.others,
            record,
            None,
        )
        for i in range(m):
            member = small[0, i]
            for a in range(d + 1):
                rows[start + begin + i, a] = block[a, member]
        top -= 1
    return top, np.int64(-1)


@lean_kernel
def _cut_by_sample(rows, start, begin, m, k, gauge, preferred, effort, worth, seed, work, found, space, guard):
    """Cut the node members[begin:begin+m] by a sample; the axis and the size of the left side, 0 if that is no cut."""
    source, members = space.source, space.members
    n_drawn = _n_drawn(m, effort)
    draw_numbers(start + begin, m, n_drawn, seed, space.drawn)
    for i in range(n_drawn):
        _keep_sampled(source, members[begin + space.drawn[i]], i, m, effort, work, space)
    axis = _sampled_cut(m, n_drawn, k, gauge, preferred, effort, worth, work, found, space)
    if axis < 0 or not (preferred[axis] or not preferred.any()):
        return axis, np.int64(0)
    threshold, left_set = work.threshold[0], work.left_set[0]
    left = divide_members(source.T, members, begin, m, gauge, axis, threshold, left_set, space.others)
    if left < k or m - left < k:
        return axis, np.int64(0)
    if guard is not None:
        number = rows.shape[1] - 1
        for i in range(begin, begin + m):
            rows[start + i, number] = source[members[i], number]
        if not _have_room(rows, start + begin, m, left, k, guard):
            return axis, np.int64(0)
    return axis, left


@kernel
def _cut_top(rows, start, top, sampled, k, gauge, preferred, effort, worth, seed, work, found, space, guard, record):
    """Cut the top node of the stack by a look at all of its rows; the number of nodes that are left then.

    Its sample suggests a cut of the axis `sampled` that is not allowed. A node that cannot be cut is a leaf.
    """
    source, members, stack = space.source, space.members, space.stack[1]
    top -= 1
    begin, m, depth = stack[top, 0], stack[top, 1], stack[top, 2]
    _put_rows(rows, start, begin, m, source, members)
    axis = sampled
    left = np.int64(0)
    if axis >= 0 and (preferred[axis] or not preferred.any()):
        left = count_left(rows, start + begin, m, gauge, axis, work.threshold[0], work.left_set[0])
    if left < k or m - left < k:
        axis = _cut_by_all_rows(rows, start + begin, m, k, gauge, preferred, sampled, work)
        if axis < 0:
            return top
        left = divide_members(
            source.T, members, begin, m, gauge, axis, work.threshold[0], work.left_set[0], space.others
        )
        _put_rows(rows, start, begin, m, source, members)
    if guard is not None and not _have_room(rows, start + begin, m, left, k, guard):
        axis = _weighed_cut(rows, start + begin, m, k, gauge, preferred, effort, worth, seed, work, found, space, guard)
        if axis < 0:
            return top
        left = divide_members(
            source.T, members, begin, m, gauge, axis, work.threshold[0], work.left_set[0], space.others
        )
    _keep_cut(record, start + begin + left, depth, axis, work)
    return _push_sides(stack, top, begin, m, left, depth + 1)


@lean_kernel
def _put_rows(rows, start, begin, m, source, members):
    """The rows of the node members[begin:begin+m], in their present order, to their place."""
    for i in range(begin, begin + m):
        member = members[i]
        for a in range(rows.shape[1]):
            rows[start + i, a] = source[member, a]


@lean_inlined
def _keep_sampled(rows, row, i, m, effort, work, space):
    """rows[row] becomes row i of the sample of a node of m rows."""
    if _is_probe(m, effort):
        for a in range(space.block.shape[0]):
            space.block[a, i] = rows[row, a]
    else:
        for a in range(work.sample.shape[0]):
            work.sample[a, i] = rows[row, a]


@lean_inlined
def _keep_cut(record, place, depth, axis, work):
    record.depth[place] = depth
    record.axis[place] = axis
    record.threshold[place] = work.threshold[0]
    record.left_set[place] = work.left_set[0]


@lean_inlined
def _is_probe(m, effort):
    return m <= effort.probe_nodes and effort.probe_rows > 0


@lean_inlined
def _n_drawn(m, effort):
    """How many rows of a node of m rows are looked at."""
    if m > effort.probe_nodes:
        factor = min(max(m // (_ROWS_PER_SAMPLED * effort.sample_rows), 1), MAX_SAMPLE_FACTOR)
        return min(m, effort.sample_rows * factor)
    if effort.probe_rows == 0:
        return np.int64(_MEDIAN_ROWS)
    return min(m, effort.probe_rows)


@lean_kernel
def _sampled_cut(m, n_drawn, k, gauge, preferred, effort, worth, work, found, space):
    """The cut that the drawn rows suggest for their node of m rows, left in `work`; -1 where they show none."""
    if m > effort.probe_nodes:
        factor = min(max(m // (_ROWS_PER_SAMPLED * effort.sample_rows), 1), MAX_SAMPLE_FACTOR)
        n_bins = min(effort.n_bins * factor, np.int64(_MOST_BINS))
        return forecast_cut(gauge, preferred, m, n_drawn, n_bins, k, effort.growth, work)
    if effort.probe_rows == 0:
        return median_cut(gauge, preferred, n_drawn, work)
    for i in range(n_drawn):
        space.small[0, i] = i
    load_points(space.block, n_drawn, gauge, found)
    least = max((k * n_drawn) // m, np.int64(1))  # rows of the probe that stand for k rows
    axis = search_cut(
        space.block,
        space.small[0],
        np.int64(0),
        n_drawn,
        gauge,
        preferred,
        effort.n_candidates,
        least,
        worth[1],
        None,
        None,
        found,
    )
    if axis >= 0:
        work.threshold[0] = found.threshold[axis]
        work.left_set[0] = found.left_set[axis]
    return axis


@kernel
def _cut_by_all_rows(rows, start, m, k, gauge, preferred, sampled, work):
    """A cut of rows[start:start+m] wherever there is one, left in `work`; the axis, -1 where there is none.

    Preferred axes come first, whatever the sample suggested: it can miss the only cut of a preferred axis.
    """
    by_sample = work.threshold[0], work.left_set[0]
    for favourite in (True, False):
        if not favourite and sampled >= 0 and preferred.any() and not preferred[sampled]:
            left = count_left(rows, start, m, gauge, sampled, by_sample[0], by_sample[1])
            if k <= left <= m - k:  # no preferred axis can be cut: the sample's cut stands
                return sampled
        axis, threshold, left_set = even_cut(rows, start, m, k, gauge, preferred, favourite)
        if axis >= 0:
            work.threshold[0] = threshold
            work.left_set[0] = left_set
            return axis
    return np.int64(-1)


@lean_inlined
def _have_room(rows, start, m, left, k, guard):
    """Whether rows[start:start+left] and rows[start+left:start+m] are valid, and have room for what is below."""
    numbers, constraint = rows[:, rows.shape[1] - 1], guard.constraint
    return sides_have_room(constraint.codes, numbers, start, start + left, start + m, k, constraint, guard.tally)


@kernel
def _weighed_cut(rows, start, m, k, gauge, preferred, effort, worth, seed, work, found, space, guard):
    """The cut of rows[start:start+m] by what the model leaves, left in `work`; the axis, -1 where none is valid.

    By a forecast. Where it shows no valid cut (of a preferred axis), or its sample would be the whole node, nodes are
    searched like small ones as long as the scratch space suffices; of larger ones the most even cut.
    """
    n_sample = min(m, max(effort.sample_rows, np.int64(_WEIGHED_SAMPLE)), np.int64(work.sample.shape[1]))
    if m > _WEIGHED_SAMPLE:
        draw_numbers(start, m, n_sample, seed, space.drawn)
        for i in range(n_sample):
            row = start + space.drawn[i]
            for a in range(work.sample.shape[0]):
                work.sample[a, i] = rows[row, a]
        n_bins = max(effort.n_bins, np.int64(_WEIGHED_BINS))
        axis = roomy_cut(rows, start, m, k, gauge, preferred, n_sample, n_bins, effort.growth, work, guard)
        if axis >= 0 and (preferred[axis] or not preferred.any()):
            return axis
    if m <= space.block.shape[1]:
        for i in range(m):
            space.small[0, i] = i
            for a in range(space.block.shape[0]):
                space.block[a, i] = rows[start + i, a]
        load_codes(rows, start, m, guard)
        load_points(space.block, m, gauge, found)
        axis = weighed_cut(
            space.block, space.small, np.int64(0), m, k, gauge, preferred, effort, worth, guard, found, space.others
        )
        if axis >= 0:
            work.threshold[0] = found.threshold[axis]
            work.left_set[0] = found.left_set[axis]
        return axis
    for favourite in (True, False):
        axis, threshold, left_set = even_valid_cut(rows, start, m, k, gauge, preferred, favourite, guard)
        if axis >= 0:
            work.threshold[0] = threshold
            work.left_set[0] = left_set
            return axis
    return np.int64(-1)


@kernel
def count_left(rows, start, m, gauge, axis, threshold, left_set):
    """How many of rows[start:start+m] lie on the left side of a cut."""
    n = 0
    for i in range(start, start + m):
        n += is_left(gauge, axis, rows[i, axis], threshold, left_set)
    return n


@kernel
def partition_rows(rows, start, m, gauge, axis, threshold, left_set):
    """Move the rows of the left side to the front of rows[start:start+m]; return how many they are."""
    i = start
    j = start + m - 1
    while True:
        while i <= j and is_left(gauge, axis, rows[i, axis], threshold, left_set):
            i += 1
        while i <= j and not is_left(gauge, axis, rows[j, axis], threshold, left_set):
            j -= 1
        if i >= j:
            return i - start
        for a in range(rows.shape[1]):
            rows[i, a], rows[j, a] = rows[j, a], rows[i, a]
        i += 1
        j -= 1
