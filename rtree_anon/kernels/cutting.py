"""Cutting rows into leaves: the top-down build of the tree over an array of rows.

`rows` is an int32 (n, axes + 1) array, row-major; the last column names the row and is not looked at. A node is a
contiguous range of rows. Cutting it moves the rows of the left side to its front, in place, so that every level works
on smaller and smaller contiguous blocks. A cut is *clean*: a threshold or a set of categories on one axis, at least k
rows on both sides; regions never overlap. A node that has 2k rows or more is cut wherever such a cut exists; what
remains is a leaf.

The tree is recorded by position. Between two neighbouring leaves there is exactly one inner node whose cut separates
them, so entry p of the record is the inner node whose right side begins at row p:

    depth[p]      its depth, -1 where no cut is (row p is inside a leaf)
    axis[p], threshold[p], left_set[p]   its cut

Which node is processed when, and by which thread, cannot be seen in the result.

How a node is cut depends on its size (see `Effort`): large ones from a sample (forecast.py), small ones exactly
(search.py), the smallest, where asked, by trying the best few cuts down to the leaves and keeping the one that really
turned out best.

Where there is a privacy model, both sides of a cut must also satisfy it (paper, section 6: the definition of an
allowable group is given). Exact searches judge every position (guard.py); a cut that a sample suggests is judged
afterwards, and where it fails, a valid one is searched for among all rows. A node without a valid cut is a leaf.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.evencut import even_cut, even_valid_cut
from rtree_anon.kernels.forecast import draw_sample, forecast_cut, median_cut
from rtree_anon.kernels.gauge import MASK, mask_width, range_width
from rtree_anon.kernels.guard import load_codes, sides_hold
from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.search import cut_near, divide_members, is_left, members_width, search_cut

_ROLLOUT_CANDIDATES = 4  # axes priced inside a rollout: as good as all nine on Agrawal's data, and less work
_ROWS_PER_SAMPLED = 4  # larger nodes afford larger samples: they are few
MAX_SAMPLE_FACTOR = 8
_MOST_BINS = 32
_MEDIAN_ROWS = 32


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


@kernel
def grow(rows, start, m, depth, k, gauge, preferred, effort, worth, seed, work, found, block, members, guard, record):
    """Cut rows[start:start+m], a node at this depth, down to leaves.

    `block` int32 (axes, s) and `members` int32 (2, s) are scratch space, s at least exact_rows and probe_rows. `guard`
    has a privacy model that both sides of every cut must satisfy, or is None.
    """
    stack = np.empty((256, 3), np.int64)
    stack[0, 0] = start
    stack[0, 1] = m
    stack[0, 2] = depth
    top = 1
    while top > 0:
        top -= 1
        start = stack[top, 0]
        m = stack[top, 1]
        depth = stack[top, 2]
        left = cut_node(
            rows, start, m, depth, k, gauge, preferred, effort, worth, seed, work, found, block, members, guard, record
        )
        if left == 0:
            continue
        # The smaller side is pushed last and done first: the stack holds at most log2(n) nodes of waiting siblings.
        first, second = left, m - left
        at_first, at_second = start, start + left
        if first < second:
            first, second = second, first
            at_first, at_second = at_second, at_first
        stack[top, 0] = at_first
        stack[top, 1] = first
        stack[top, 2] = depth + 1
        stack[top + 1, 0] = at_second
        stack[top + 1, 1] = second
        stack[top + 1, 2] = depth + 1
        top += 2


@kernel
def cut_node(
    rows, start, m, depth, k, gauge, preferred, effort, worth, seed, work, found, block, members, guard, record
):
    """Cut one node, record the cut and return the size of its left side; 0 where the node is a leaf."""
    if m < 2 * k:
        return 0
    axis = np.int64(-1)
    threshold = np.int32(0)
    left_set = np.uint64(0)
    if m <= effort.exact_rows:
        if effort.n_candidates == 0:
            axis = _middle_cut(rows, start, m, k, gauge, preferred, guard, found, block, members)
        else:
            axis = _small_cut(rows, start, m, k, gauge, preferred, effort, worth, guard, found, block, members)
        if axis >= 0:  # otherwise only values too close for a width are left to cut: see below
            threshold = found.threshold[axis]
            left_set = found.left_set[axis]
    else:
        if m > effort.probe_nodes:
            factor = min(max(m // (_ROWS_PER_SAMPLED * effort.sample_rows), 1), MAX_SAMPLE_FACTOR)
            n_sample = min(m, effort.sample_rows * factor)
            draw_sample(rows, start, m, n_sample, seed, work.sample)
            n_bins = min(effort.n_bins * factor, np.int64(_MOST_BINS))
            axis = forecast_cut(gauge, preferred, m, n_sample, n_bins, k, effort.growth, work)
        elif effort.probe_rows == 0:
            draw_sample(rows, start, m, np.int64(_MEDIAN_ROWS), seed, work.sample)
            axis = median_cut(gauge, preferred, np.int64(_MEDIAN_ROWS), work)
        else:
            axis = _probe_cut(rows, start, m, k, gauge, preferred, effort, worth, seed, work, found, block, members)
        if axis >= 0:
            threshold = work.threshold[0]
            left_set = work.left_set[0]
    if (
        m > effort.exact_rows and axis >= 0 and not preferred[axis] and preferred.any()
    ):  # a sample can miss the only cut of a preferred axis
        sure_axis, sure_threshold, sure_set = even_cut(rows, start, m, k, gauge, preferred, True)
        if sure_axis >= 0:
            axis, threshold, left_set = sure_axis, sure_threshold, sure_set
    left = 0
    if axis >= 0:
        left = partition_rows(rows, start, m, gauge, axis, threshold, left_set)
    if guard is None:
        if left < k or m - left < k:
            for favourite in (True, False):
                axis, threshold, left_set = even_cut(rows, start, m, k, gauge, preferred, favourite)
                if axis >= 0:
                    break
            if axis < 0:
                return 0
            left = partition_rows(rows, start, m, gauge, axis, threshold, left_set)
    elif m <= effort.exact_rows:
        if axis < 0:
            return 0
    elif left < k or m - left < k or not sides_hold(rows, start, m, left, guard):
        axis, threshold, left_set = _searched_cut(
            rows, start, m, k, gauge, preferred, effort, worth, guard, found, block, members
        )
        if axis < 0:
            return 0
        left = partition_rows(rows, start, m, gauge, axis, threshold, left_set)
    record.depth[start + left] = depth
    record.axis[start + left] = axis
    record.threshold[start + left] = threshold
    record.left_set[start + left] = left_set
    return left


@kernel
def _searched_cut(rows, start, m, k, gauge, preferred, effort, worth, guard, found, block, members):
    """A cut that satisfies the guard, of a node whose sampled cut does not: (axis, threshold, left_set), axis -1: none.

    Searched like a small node as long as the scratch space suffices; of larger ones the most even cut.
    """
    if m > block.shape[1]:
        axis, threshold, left_set = even_valid_cut(rows, start, m, k, gauge, preferred, True, guard)
        if axis < 0:
            axis, threshold, left_set = even_valid_cut(rows, start, m, k, gauge, preferred, False, guard)
        return axis, threshold, left_set
    if effort.n_candidates == 0:
        axis = _middle_cut(rows, start, m, k, gauge, preferred, guard, found, block, members)
    else:
        axis = _small_cut(rows, start, m, k, gauge, preferred, effort, worth, guard, found, block, members)
    return axis, found.threshold[axis], found.left_set[axis]


@kernel
def _probe_cut(rows, start, m, k, gauge, preferred, effort, worth, seed, work, found, block, members):
    """The cut that is best for a probe of the node's rows; left in `work`, -1 where the probe shows none."""
    n = min(m, effort.probe_rows)
    draw_sample(rows, start, m, n, seed, block)
    for i in range(n):
        members[0, i] = i
    least = max((k * n) // m, np.int64(1))  # rows of the probe that stand for k rows
    axis = search_cut(
        block, members[0], np.int64(0), n, gauge, preferred, effort.n_candidates, least, worth[1], None, found
    )
    if axis >= 0:
        work.threshold[0] = found.threshold[axis]
        work.left_set[0] = found.left_set[axis]
    return axis


@kernel
def _middle_cut(rows, start, m, k, gauge, preferred, guard, found, block, members):
    """The widest axis that can be cut, cut near the middle, with a multiple of k rows on the left; -1: none can."""
    d = gauge.kind.shape[0]
    for a in range(d):
        if gauge.kind[a] == MASK:
            mask = np.uint64(0)
            for i in range(start, start + m):
                mask |= np.uint64(1) << np.uint64(rows[i, a])
            found.width[a] = mask_width(gauge, a, mask)
        else:
            lo = rows[start, a]
            hi = lo
            for i in range(start, start + m):
                lo = min(lo, rows[i, a])
                hi = max(hi, rows[i, a])
            found.width[a] = range_width(gauge, a, lo, hi)
    if guard is not None:
        load_codes(rows, start, m, guard)
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
            for i in range(m):
                block[axis, i] = rows[start + i, axis]
                members[0, i] = i
            if cut_near(block, members[0], np.int64(0), m, gauge, axis, k, middle, guard, found):
                return axis
            found.width[axis] = 0.0  # not to be tried again
    return np.int64(-1)


@kernel
def _small_cut(rows, start, m, k, gauge, preferred, effort, worth, guard, found, block, members):
    for i in range(m):
        for a in range(block.shape[0]):
            block[a, i] = rows[start + i, a]
        members[0, i] = i
    if guard is not None:
        load_codes(rows, start, m, guard)
    axis = search_cut(
        block, members[0], np.int64(0), m, gauge, preferred, effort.n_candidates, k, worth[0], guard, found
    )
    if axis < 0 or m > effort.rollout_rows or m < 3 * k:  # below 3k both sides are leaves: the price was exact
        return axis
    # The best few cuts, each tried down to the leaves by the plain search. `found` is reused below, so keep them.
    d = gauge.kind.shape[0]
    n_tries = min(effort.n_rollouts, d)
    axes = np.empty(n_tries, np.int64)
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
    threshold = found.threshold.copy()
    left_set = found.left_set.copy()
    least = np.inf
    for t in range(n):
        a = axes[t]
        found.threshold[a] = threshold[a]
        found.left_set[a] = left_set[a]
        for i in range(m):
            members[1, i] = i
        left = divide_members(block, members[1], np.int64(0), m, gauge, a, found)
        loss = _rollout(block, members[1], np.int64(0), left, k, gauge, preferred, effort, worth, guard, found)
        loss += _rollout(block, members[1], left, m - left, k, gauge, preferred, effort, worth, guard, found)
        if loss < least:
            least = loss
            axis = a
    found.threshold[axis] = threshold[axis]
    found.left_set[axis] = left_set[axis]
    return axis


@kernel
def _rollout(block, members, start, m, k, gauge, preferred, effort, worth, guard, found):
    """The certainty penalty of these members when they are cut to leaves greedily."""
    n_candidates = min(effort.n_candidates, np.int64(_ROLLOUT_CANDIDATES))
    stack = np.empty((64, 2), np.int64)
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
            axis = search_cut(block, members, start, m, gauge, preferred, n_candidates, k, worth[0], guard, found)
        if axis < 0:
            loss += m * members_width(block, members, start, m, gauge, found.width)
        elif m < 3 * k:  # two leaves: the price of the cut is their loss (g is 1 below k, and nearly so below 2k)
            left = divide_members(block, members, start, m, gauge, axis, found)
            loss += left * members_width(block, members, start, left, gauge, found.width)
            loss += (m - left) * members_width(block, members, start + left, m - left, gauge, found.width)
        else:
            left = divide_members(block, members, start, m, gauge, axis, found)
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
