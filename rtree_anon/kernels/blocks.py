"""Cutting a small node down to leaves: the block of its rows is laid out once, and only its members are moved.

A block is int32 (axes, rows): every axis a contiguous array. A node of the subtree is a range of `members`, numbers of
rows in the block; cutting it divides that range. So the rows themselves are read once and written once, however many
levels there are below.

A node is searched exactly (search.py), or cut in the middle of its widest axis where the grade says so; the smallest
nodes, where asked, try their best few cuts down to the leaves and keep the one that really turned out best. Under a
privacy model the cut that k alone would make comes first; where it does not leave both sides room (room.py), cuts are
weighed by what the model leaves.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.jit import lean_inlined, lean_kernel
from rtree_anon.kernels.room import can_be_weighed, sides_have_room
from rtree_anon.kernels.search import cut_near, divide_members, load_points, measure_axes, members_width, search_cut

_ROLLOUT_CANDIDATES = 4  # axes priced inside a rollout: as good as all nine on Agrawal's data, and less work


class Effort(NamedTuple):
    """How hard to look for good cuts. All sizes are numbers of rows."""

    exact_rows: int  # nodes up to this size are searched exactly
    n_candidates: int  # axes that are priced in an exact search; 0: the widest one is cut in the middle, unpriced
    probe_nodes: int  # nodes up to this size are searched exactly on a probe of their rows; larger ones by forecast
    probe_rows: int  # rows of a probe; 0: no search, the widest axis of a few rows is cut at its median
    sample_rows: int  # sample for a forecast; up to MAX_SAMPLE_FACTOR times as many for the largest nodes
    n_bins: int  # bins per axis of the sample, likewise
    rollout_rows: int  # nodes up to this size try their best cuts down to the leaves
    n_rollouts: int  # how many cuts
    growth: float  # the exponent of g: boxes of m times as many rows are m**-growth times as wide


class CutRecord(NamedTuple):
    """The tree, by position (see above); arrays of n + 1 entries."""

    depth: NDArray[np.int32]
    axis: NDArray[np.int16]
    threshold: NDArray[np.int32]
    left_set: NDArray[np.uint64]


@lean_inlined
def grow_block(block, m, at, depth, k, gauge, preferred, effort, worth, guard, found, members, others, record, sparing):
    """Cut the first m rows of `block`, a node at this depth that begins at position `at`, down to leaves.

    members[0, :m] becomes the order of the rows; members[1] and `others` are scratch space. `guard` has a privacy
    model that both sides of every cut must satisfy (and guard.codes what it looks at, in block order), or is None.
    Unless `sparing` is None, cuts that keep rows for as many leaves as possible come before cheaper ones.
    """
    for i in range(m):
        members[0, i] = i
    if m < 2 * k:
        return
    load_points(block, m, gauge, found)
    stack = found.stack
    stack[0, 0] = 0
    stack[0, 1] = m
    stack[0, 2] = depth
    top = 1
    while top > 0:
        top -= 1
        start = stack[top, 0]
        m = stack[top, 1]
        depth = stack[top, 2]
        if sparing is not None:
            axis = block_cut(block, members, start, m, k, gauge, preferred, effort, worth, guard, m % k, found, others)
        else:
            axis = block_cut(block, members, start, m, k, gauge, preferred, effort, worth, guard, None, found, others)
        if axis < 0:
            continue
        threshold, left_set = found.threshold[axis], found.left_set[axis]
        left = divide_members(block, members[0], start, m, gauge, axis, threshold, left_set, others)
        place = at + start + left
        record.depth[place] = depth
        record.axis[place] = axis
        record.threshold[place] = threshold
        record.left_set[place] = left_set
        # The smaller side is pushed last and done first: the stack holds at most log2(m) nodes of waiting siblings.
        for smaller in (False, True):
            first = (left <= m - left) == smaller
            size = left if first else m - left
            if size >= 2 * k:
                stack[top, 0] = start if first else start + left
                stack[top, 1] = size
                stack[top, 2] = depth + 1
                top += 1


@lean_inlined
def block_cut(block, members, start, m, k, gauge, preferred, effort, worth, guard, spare, found, others):
    """The cut of the node members[0, start:start+m], left in `found`; its axis, -1 where the node is a leaf.

    `spare`: a cut with at most so many rows beyond a multiple of k on the left is preferred; None if none is.
    """
    if effort.n_candidates == 0:
        axis = _middle_cut(block, members[0], start, m, k, gauge, preferred, found)
    else:
        n_candidates = effort.n_candidates
        axis = _best_cut(
            block, members, start, m, k, gauge, preferred, n_candidates, effort, worth, None, spare, found, others
        )
    if axis < 0:  # perhaps there are values that are only too close for a width
        axis = _most_even_cut(block, members[0], start, m, k, gauge, preferred, None, found)
    if (
        guard is not None
        and axis >= 0
        and not _has_room(block, members, start, m, k, gauge, axis, guard, found, others)
    ):
        axis = weighed_cut(block, members, start, m, k, gauge, preferred, effort, worth, guard, found, others)
    return axis


@lean_kernel
def weighed_cut(block, members, start, m, k, gauge, preferred, effort, worth, guard, found, others):
    """As `block_cut`, but of all valid cuts, by what the guard's constraint leaves to both sides."""
    if not can_be_weighed(guard.codes, members[0], start, start + m, guard.constraint, guard.tally):
        return np.int64(-1)
    n_candidates = max(effort.n_candidates, np.int64(1))
    axis = _best_cut(
        block, members, start, m, k, gauge, preferred, n_candidates, effort, worth, guard, None, found, others
    )
    if axis < 0:
        axis = _most_even_cut(block, members[0], start, m, k, gauge, preferred, guard, found)
    return axis


@lean_kernel
def _has_room(block, members, start, m, k, gauge, axis, guard, found, others):
    """Whether the cut of this axis in `found` leaves room to both sides. members[1, start:start+m] is scratch space."""
    for i in range(start, start + m):
        members[1, i] = members[0, i]
    threshold, left_set = found.threshold[axis], found.left_set[axis]
    left = divide_members(block, members[1], start, m, gauge, axis, threshold, left_set, others)
    return sides_have_room(guard.codes, members[1], start, start + left, start + m, k, guard.constraint, guard.tally)


@lean_inlined
def _middle_cut(block, members, start, m, k, gauge, preferred, found):
    """The widest axis that can be cut, cut near the middle, with a multiple of k rows on the left; -1: none can."""
    measure_axes(block, members, start, m, gauge, found)
    d = gauge.kind.shape[0]
    middle = max((m // k) // 2, 1) * k
    for favourite in (True, False):
        for _ in range(d):
            axis = np.int64(-1)
            for a in range(d):
                wider = found.width[a] > (0.0 if axis < 0 else found.width[axis])
                if preferred[a] == favourite and wider:
                    axis = np.int64(a)
            if axis < 0:
                break
            if cut_near(block, members, start, m, gauge, axis, k, middle, None, found) > 0:
                return axis
            found.width[axis] = 0.0  # not to be tried again
    return np.int64(-1)


@lean_kernel
def _most_even_cut(block, members, start, m, k, gauge, preferred, guard, found):
    """The most even cut of the axes that have no width, preferred ones first; -1 where there is none.

    For nodes that cannot be cut on any other axis.
    """
    best = np.int64(-1)
    for favourite in (True, False):
        least = np.int64(0)  # rows on the smaller side
        for a in range(gauge.kind.shape[0]):
            if preferred[a] == favourite and found.width[a] == 0.0:
                left = cut_near(block, members, start, m, gauge, np.int64(a), k, m // 2, guard, found)
                if min(left, m - left) > least:
                    least = min(left, m - left)
                    best = np.int64(a)
        if best >= 0:
            break
    return best


@lean_inlined
def _best_cut(block, members, start, m, k, gauge, preferred, n_candidates, effort, worth, guard, spare, found, others):
    """The cheapest cut, or of the cheapest few the one that proves best; -1 where there is none."""
    limit = spare
    while True:  # one call and not two: the search becomes a part of this function wherever it is called
        axis = search_cut(block, members[0], start, m, gauge, preferred, n_candidates, k, worth[0], guard, limit, found)
        if spare is None or axis >= 0 or limit == k:
            break
        limit = k  # whatever else there is
    if axis < 0 or m > effort.rollout_rows or m < 3 * k:  # below 3k both sides are leaves: the price was exact
        return axis
    # The best few cuts, each tried down to the leaves by the plain search. `found` is reused below, so keep them.
    d = gauge.kind.shape[0]
    n_tries = min(effort.n_rollouts, d)
    axes = found.axes
    n = 0
    for _ in range(n_tries):
        best = np.int64(-1)
        for a in range(d):
            taken = False
            for t in range(n):
                taken |= axes[t] == a
            if not taken and found.cost[a] < np.inf and (best < 0 or found.cost[a] < found.cost[best]):
                best = a
        if best < 0:
            break
        axes[n] = best
        n += 1
    if n < 2:
        return axis
    threshold, left_set = found.kept_threshold, found.kept_set
    for a in range(d):
        threshold[a] = found.threshold[a]
        left_set[a] = found.left_set[a]
    least = np.inf
    for t in range(n):
        a = axes[t]
        loss = 0.0
        for i in range(start, start + m):
            members[1, i] = members[0, i]
        left = divide_members(block, members[1], start, m, gauge, a, threshold[a], left_set[a], others)
        for begin, size in ((start, left), (start + left, m - left)):
            loss += _rollout(block, members[1], begin, size, k, gauge, preferred, effort, worth, guard, found, others)
        if loss < least:
            least = loss
            axis = a
    found.threshold[axis] = threshold[axis]
    found.left_set[axis] = left_set[axis]
    return axis


@lean_kernel
def _rollout(block, members, start, m, k, gauge, preferred, effort, worth, guard, found, others):
    """The certainty penalty of these members when they are cut to leaves greedily."""
    n_candidates = min(effort.n_candidates, np.int64(_ROLLOUT_CANDIDATES))
    stack = found.rollout_stack
    stack[0, 0] = start
    stack[0, 1] = m
    top = 1
    loss = 0.0
    while top > 0:
        top -= 1
        start = stack[top, 0]
        m = stack[top, 1]
        axis = np.int64(-1)
        if m >= 2 * k:
            weighed = guard is None or can_be_weighed(
                guard.codes, members, start, start + m, guard.constraint, guard.tally
            )
            if weighed:
                axis = search_cut(
                    block, members, start, m, gauge, preferred, n_candidates, k, worth[0], guard, None, found
                )
        if axis < 0:
            loss += m * members_width(block, members, start, m, gauge, found)
        elif m < 3 * k:  # two leaves: the price of the cut is their loss (g is 1 below k, and nearly so below 2k)
            left = divide_members(
                block, members, start, m, gauge, axis, found.threshold[axis], found.left_set[axis], others
            )
            loss += left * members_width(block, members, start, left, gauge, found)
            loss += (m - left) * members_width(block, members, start + left, m - left, gauge, found)
        else:
            left = divide_members(
                block, members, start, m, gauge, axis, found.threshold[axis], found.left_set[axis], others
            )
            if left < m - left:
                stack[top, 0] = start + left
                stack[top, 1] = m - left
                stack[top + 1, 0] = start
                stack[top + 1, 1] = left
            else:
                stack[top, 0] = start
                stack[top, 1] = left
                stack[top + 1, 0] = start + left
                stack[top + 1, 1] = m - left
            top += 2
    return loss
