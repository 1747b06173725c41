"""Choice of a cut for a large node under a privacy model that leaves little room.

A sample says how narrow the boxes below a cut will be (forecast.py), but not whether both sides satisfy the model, and
still less how much room it leaves them. So the cuts that the sample suggests, up to 63 on each axis, are judged by all
rows of the node: these are sorted into the bins of the axis, and two sweeps over the bins, one from each end, count
what the model looks at. The price of a side is then that of the forecast, made dearer where it has little room
(room.py). A model only ever makes a cut dearer, so that the axes are looked at from the cheapest forecast on, as long
as one could still win.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.constraint import add_row, clear_tally, tally_holds
from rtree_anon.kernels.forecast import MAX_BINS, bin_axes, cut_before_bin, price_cuts
from rtree_anon.kernels.gauge import MASK
from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.room import dearer, learn_variance, needed_rows


@kernel
def roomy_cut(rows, start, m, k, gauge, preferred, n_sample, n_bins, growth, work, guard):
    """The cheapest valid cut of rows[start:start+m] that work.sample suggests, left in `work`; its axis, -1: none."""
    d = gauge.kind.shape[0]
    bin_axes(gauge, n_sample, n_bins, work)
    cheapest = np.empty(d)
    order = np.empty(m, np.uint32)
    begin = np.zeros(MAX_BINS + 1, np.int64)
    factor = np.empty((2, MAX_BINS))
    best = np.inf
    best_axis = np.int64(-1)
    best_bin = np.int64(0)
    for favourite in (True, False):
        for a in range(d):
            cheapest[a] = np.inf
            if preferred[a] == favourite and work.n_bins[a] >= 2:
                price_cuts(gauge, a, m, n_sample, k, growth, work)
                cheapest[a] = (work.price[0, a] + work.price[1, a]).min()
        while True:
            axis = np.int64(np.argmin(cheapest))
            if cheapest[axis] >= best:
                break
            cheapest[axis] = np.inf
            _sort_rows(rows, start, m, gauge, axis, work, order, begin)
            _judge_sides(work.n_bins[axis], k, order, begin, guard, factor)
            for cut in range(work.n_bins[axis] - 1):
                cost = work.price[0, axis, cut] * factor[0, cut] + work.price[1, axis, cut] * factor[1, cut]
                if cost < best:
                    best = cost
                    best_axis = axis
                    best_bin = np.int64(cut + 1)
        if best_axis >= 0:
            cut_before_bin(gauge, best_axis, best_bin, work)
            break
    return best_axis


@kernel
def _sort_rows(rows, start, m, gauge, axis, work, order, begin):
    """order[begin[b]:begin[b+1]] are the numbers of the node's rows in bin b of the axis."""
    n_bins = work.n_bins[axis]
    edge = work.edge[axis]
    number = rows.shape[1] - 1
    masked = gauge.kind[axis] == MASK
    rank = np.full(64, n_bins - 1)  # categories that the sample has not seen are right of every cut
    if masked:
        for b in range(n_bins):
            rank[edge[b]] = b
    bins = np.empty(m, np.uint8)
    begin[:] = 0
    for i in range(m):
        code = rows[start + i, axis]
        b = np.int64(0)
        if masked:
            b = rank[code]
        else:
            above = n_bins  # edge[b] <= code < edge[above]
            while above - b > 1:
                middle = (b + above) >> 1
                if code >= edge[middle]:
                    b = middle
                else:
                    above = middle
        bins[i] = b
        begin[b + 1] += 1
    for b in range(n_bins):
        begin[b + 1] += begin[b]
    at = begin.copy()
    for i in range(m):
        order[at[bins[i]]] = rows[start + i, number]
        at[bins[i]] += 1


@kernel
def _judge_sides(n_bins, k, order, begin, guard, factor):
    """How much dearer the model makes the left (factor[0]) and the right side of the cut behind a bin; inf: invalid."""
    constraint, tally = guard.constraint, guard.tally
    m = begin[n_bins]
    factor[:] = np.inf
    for b in range(n_bins - 1):
        for i in range(begin[b], begin[b + 1]):
            add_row(constraint.codes, order[i], constraint, tally)
        n = begin[b + 1]
        if k <= n <= m - k and tally_holds(constraint, tally):
            learn_variance(constraint, tally)
            factor[0, b] = dearer(k, needed_rows(constraint, tally), guard.caution)
    clear_tally(constraint, tally)
    for b in range(n_bins - 1, 0, -1):
        for i in range(begin[b], begin[b + 1]):
            add_row(constraint.codes, order[i], constraint, tally)
        if factor[0, b - 1] < np.inf and tally_holds(constraint, tally):
            learn_variance(constraint, tally)
            factor[1, b - 1] = dearer(k, needed_rows(constraint, tally), guard.caution)
    clear_tally(constraint, tally)
