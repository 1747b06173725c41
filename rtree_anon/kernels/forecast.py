"""Choice of a cut for a large node, from a sample.

High in the tree a tight box says little: one outlier on every axis and all boxes are the whole domain. What matters is
how narrow the boxes *below* will be, so a side is judged by the box that a few of its rows, SPAN_ROWS of them, would
span on average. With a histogram of an axis, that expectation is exact and cheap. Where a share F of the side's rows
lies at or below a gap between two neighbouring bins, the box covers the gap unless all s rows lie on one side of it:

    E[width] = sum over gaps of  gap * (1 - F**s - (1 - F)**s)              numbers
    E[width] = sum over categories of (1 - (1 - p)**s)  -  1, scaled        categories as sets

The price of a cut is that of the exact search (search.py) with these widths: n1 * w1 * g(n1/k) + n2 * w2 * g(n2/k).
`bench/quality.py` shows what it gains over tight boxes of samples and over median cuts.

`fast` uses `median_cut` instead: the widest axis of a small sample, cut at its median.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.gauge import MASK, MISSING, TABLE, mask_width, range_width
from rtree_anon.kernels.jit import lean_inlined, lean_kernel
from rtree_anon.kernels.ranks import ROOM, cut_few_near
from rtree_anon.kernels.sorting import sort_distinct

SPAN_ROWS = 64  # measured: 50 to 100 are equally good, 16 and 256 are worse
MAX_BINS = 64
_SHARES = 1024  # resolution of the tables of powers
_EDGE_ROWS_PER_BIN = 4
_INDEX_BITS = 20  # a sort key is (code << _INDEX_BITS) | number in the sample


class Forecast(NamedTuple):
    """Scratch space, made once per thread, and the cut that is left behind in `threshold` / `left_set`."""

    sample: NDArray[np.int32]  # (axes, rows)
    bins: NDArray[np.uint8]  # (axes, rows)
    row_bins: NDArray[np.uint8]  # (rows, axes)
    n_bins: NDArray[np.int64]
    edge: NDArray[np.int32]  # (axes, MAX_BINS): the first code of each bin; on MASK axes the category of each bin
    gap: NDArray[np.float64]  # (axes, MAX_BINS): width between a bin and the next
    total: NDArray[np.int32]  # (axes, MAX_BINS)
    left: NDArray[np.int32]  # (axes, MAX_BINS)
    price: NDArray[np.float64]  # (2, axes, MAX_BINS): of the left and the right side of the cut behind a bin
    perm: NDArray[np.int32]
    begin: NDArray[np.int64]  # [MAX_BINS + 1]
    covered: NDArray[np.float64]  # 1 - F**s - (1 - F)**s for F = 0/_SHARES .. _SHARES/_SHARES
    present: NDArray[np.float64]  # 1 - (1 - p)**s for p = 0/_SHARES .. _SHARES/_SHARES
    rank: NDArray[np.uint8]  # [MAX_BINS]
    centre: NDArray[np.float64]  # [MAX_BINS]
    keys: NDArray[np.int64]
    ordered: NDArray[np.int64]
    codes: NDArray[np.int32]  # of a sample on one axis, and what is found out about them (ranks.py)
    counts: NDArray[np.int32]
    threshold: NDArray[np.int32]  # [1]
    left_set: NDArray[np.uint64]  # [1]


def forecast(n_axes: int, n_rows: int) -> Forecast:
    """Scratch space for samples of up to n_rows rows."""
    share = np.arange(_SHARES + 1) / _SHARES
    return Forecast(
        np.empty((n_axes, n_rows), np.int32),
        np.empty((n_axes, n_rows), np.uint8),
        np.empty((n_rows, n_axes), np.uint8),
        np.zeros(n_axes, np.int64),
        np.zeros((n_axes, MAX_BINS), np.int32),
        np.zeros((n_axes, MAX_BINS)),
        np.zeros((n_axes, MAX_BINS), np.int32),
        np.zeros((n_axes, MAX_BINS), np.int32),
        np.zeros((2, n_axes, MAX_BINS)),
        np.empty(n_rows, np.int32),
        np.zeros(MAX_BINS + 1, np.int64),
        1 - share**SPAN_ROWS - (1 - share) ** SPAN_ROWS,
        1 - (1 - share) ** SPAN_ROWS,
        np.zeros(MAX_BINS, np.uint8),
        np.zeros(MAX_BINS),
        np.empty(n_rows, np.int64),
        np.empty(n_rows, np.int64),
        np.empty(n_rows + ROOM, np.int32),
        np.empty(n_rows + ROOM, np.int32),
        np.zeros(1, np.int32),
        np.zeros(1, np.uint64),
    )


@lean_kernel
def draw_numbers(start, m, n_drawn, seed, drawn):
    """Draw n_drawn of the numbers 0 .. m-1, one at random from each of n_drawn equal parts.

    They depend on the node (m rows from `start` on) and the seed alone, so that any number of threads builds the same
    tree.
    """
    state = np.uint64(start) * np.uint64(0x9E3779B97F4A7C15)
    state ^= np.uint64(m) * np.uint64(0xD1B54A32D192ED03) ^ np.uint64(seed)
    step = m / n_drawn
    for i in range(n_drawn):
        state += np.uint64(0x9E3779B97F4A7C15)  # splitmix64
        z = state
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        fraction = np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)
        drawn[i] = min(np.int64((i + fraction) * step), m - 1)


@lean_kernel
def median_cut(gauge, preferred, n_sample, work):
    """The widest axis of work.sample (preferred axes first), cut at the median; -1 where every axis has one value."""
    d = gauge.kind.shape[0]
    for favourite in (True, False):
        axis = np.int64(-1)
        widest = 0.0
        for a in range(d):
            if preferred[a] == favourite:
                width = _sample_width(gauge, a, n_sample, work)
                if width > widest:
                    widest = width
                    axis = a
        if axis >= 0:
            _cut_at_median(gauge, axis, n_sample, work)
            return axis
    return np.int64(-1)


@lean_kernel
def forecast_cut(gauge, preferred, m, n_sample, n_bins, k, growth, work):
    """The cheapest cut of a node of m rows by its sample; -1 where it shows none. `growth` is the exponent of g."""
    d = gauge.kind.shape[0]
    bin_axes(gauge, n_sample, n_bins, work)
    best_axis = np.int64(-1)
    best_bin = np.int64(0)
    for favourite in (True, False):
        best = np.inf
        for axis in range(d):
            if preferred[axis] != favourite or work.n_bins[axis] < 2:
                continue
            price_cuts(gauge, axis, m, n_sample, k, growth, work)
            for cut in range(work.n_bins[axis] - 1):
                cost = work.price[0, axis, cut] + work.price[1, axis, cut]
                if cost < best:
                    best = cost
                    best_axis = axis
                    best_bin = cut + 1
        if best_axis >= 0:
            break
    if best_axis >= 0:
        cut_before_bin(gauge, best_axis, best_bin, work)
    return best_axis


@lean_kernel
def bin_axes(gauge, n_sample, n_bins, work):
    """Distribute the sample over bins on every axis."""
    for a in range(gauge.kind.shape[0]):
        _bin_axis(gauge, a, n_sample, n_bins, work)
        for i in range(n_sample):
            work.row_bins[i, a] = work.bins[a, i]


@lean_kernel
def price_cuts(gauge, axis, m, n_sample, k, growth, work):
    """Leave the prices of both sides of every cut of an axis in work.price; inf where a side is too small."""
    d = gauge.kind.shape[0]
    rows_each = m / n_sample
    _sort_by_bin(axis, n_sample, work)
    work.left[:] = 0
    work.price[:, axis] = np.inf
    bins, left = work.row_bins, work.left
    for cut in range(work.n_bins[axis] - 1):
        for q in range(work.begin[cut], work.begin[cut + 1]):
            row = np.uint32(work.perm[q])
            for a in range(d):  # one counter after the other: each has time to be written before it is read again
                left[a, bins[row, a]] += 1
        s1 = work.begin[cut + 1]
        s2 = n_sample - s1
        if s1 == 0 or s2 == 0 or min(s1, s2) * rows_each < k:
            continue
        w1, w2 = _expected_widths(gauge, s1, s2, work)
        n1 = s1 * rows_each
        n2 = s2 * rows_each
        work.price[0, axis, cut] = n1 * w1 * max(n1 / k, 1.0) ** growth
        work.price[1, axis, cut] = n2 * w2 * max(n2 / k, 1.0) ** growth


@lean_kernel
def _expected_widths(gauge, s1, s2, work):
    """Expected widths of the boxes of SPAN_ROWS rows of the left side (work.left) and of the right side (the rest)."""
    w1 = 0.0
    w2 = 0.0
    per1 = _SHARES / s1
    per2 = _SHARES / s2
    for a in range(gauge.kind.shape[0]):
        n_bins = work.n_bins[a]
        if n_bins < 2:
            continue
        left = work.left[a]
        total = work.total[a]
        axis1 = 0.0
        axis2 = 0.0
        if gauge.kind[a] == MASK:
            for b in range(n_bins):
                axis1 += work.present[np.int64(left[b] * per1)]
                axis2 += work.present[np.int64((total[b] - left[b]) * per2)]
            axis1 = (axis1 - 1.0) * gauge.scale[a]
            axis2 = (axis2 - 1.0) * gauge.scale[a]
        else:
            gap = work.gap[a]
            c1 = 0
            c2 = 0
            for b in range(n_bins - 1):
                c1 += left[b]
                c2 += total[b] - left[b]
                axis1 += gap[b] * work.covered[np.int64(c1 * per1)]
                axis2 += gap[b] * work.covered[np.int64(c2 * per2)]
        w1 += min(max(axis1, 0.0), gauge.full[a])
        w2 += min(max(axis2, 0.0), gauge.full[a])
    return w1, w2


@lean_inlined
def _sample_width(gauge, a, n_sample, work):
    column = work.sample[a]
    if gauge.kind[a] == MASK:
        mask = np.uint64(0)
        for i in range(n_sample):
            mask |= np.uint64(1) << np.uint64(column[i])
        return mask_width(gauge, a, mask)
    lo = column[0]
    hi = lo
    for i in range(n_sample):
        lo = min(lo, column[i])
        hi = max(hi, column[i])
    return range_width(gauge, a, lo, hi)


@lean_kernel
def _bin_axis(gauge, a, n_sample, n_bins, work):
    """Distribute the sample's rows over bins of about equal counts; on a MASK axis over categories by frequency."""
    column = work.sample[a]
    bins = work.bins[a]
    total = work.total[a]
    edge = work.edge[a]
    total[:] = 0
    if gauge.kind[a] == MASK:
        for i in range(n_sample):
            total[column[i]] += 1
        n = 0
        for c in range(MAX_BINS):
            if total[c] > 0:
                at = n
                while at > 0 and total[edge[at - 1]] < total[c]:
                    edge[at] = edge[at - 1]
                    at -= 1
                edge[at] = c
                n += 1
        rank = work.rank
        for b in range(n):
            rank[edge[b]] = b
        total[:] = 0
        for i in range(n_sample):
            b = rank[column[i]]
            bins[i] = b
            total[b] += 1
        work.n_bins[a] = n
        return
    # For the edges a part of the sample will do: every n-th, since a node's rows may come sorted.
    stride = max(n_sample // (_EDGE_ROWS_PER_BIN * n_bins), 1)
    n_ordered = (n_sample + stride - 1) // stride
    ordered = work.ordered
    for i in range(n_ordered):
        work.keys[i] = (np.int64(column[i * stride]) << _INDEX_BITS) | i
    sort_distinct(work.keys, n_ordered, ordered)
    for i in range(n_ordered):
        ordered[i] >>= _INDEX_BITS
    step = n_ordered / n_bins
    edge[0] = MISSING  # the first bin begins below everything
    n = 1
    due = step
    for i in range(1, n_ordered):
        if ordered[i] != ordered[i - 1] and i >= due - 0.5 * step and n < MAX_BINS:
            edge[n] = ordered[i]
            n += 1
            while due <= i + 0.5 * step:
                due += step
    bins[:n_sample] = 0
    for b in range(1, n):  # no search per row: a plain loop over the sample that the compiler vectorizes
        first = edge[b]
        for i in range(n_sample):
            bins[i] += column[i] >= first
    centre = work.centre
    centre[:] = 0.0
    missing = False
    for i in range(n_sample):
        code = column[i]
        b = bins[i]
        total[b] += 1
        if code == MISSING:
            missing = True
        elif gauge.kind[a] == TABLE:
            centre[b] += gauge.position[gauge.offset[a] + code]
        else:
            centre[b] += code * gauge.scale[a]
    for b in range(n):
        centre[b] /= max(total[b], 1)
    for b in range(n - 1):
        work.gap[a, b] = centre[b + 1] - centre[b]
    if missing and n > 1:
        work.gap[a, 0] = gauge.full[a]  # missing values are in the first bin; a box with them is as wide as can be
    work.n_bins[a] = n


@lean_kernel
def _sort_by_bin(axis, n_sample, work):
    begin = work.begin
    bins = work.bins[axis]
    n_bins = work.n_bins[axis]
    begin[0] = 0
    for b in range(n_bins):
        begin[b + 1] = begin[b] + work.total[axis, b]
    for i in range(n_sample):
        b = bins[i]
        work.perm[begin[b]] = i
        begin[b] += 1
    for b in range(n_bins, 0, -1):  # each entry has moved to the end of its bin
        begin[b] = begin[b - 1]
    begin[0] = 0


@lean_inlined
def _cut_at_median(gauge, axis, n_sample, work):
    """The place between different values (on a MASK axis between categories) that is nearest to half of the sample."""
    at = np.int64(1)
    best = n_sample + 1
    if gauge.kind[axis] == MASK:
        _bin_axis(gauge, axis, n_sample, np.int64(MAX_BINS), work)
        count = 0
        for b in range(work.n_bins[axis] - 1):
            count += work.total[axis, b]
            off = abs(2 * count - n_sample)
            if off < best:
                best = off
                at = b + 1
        cut_before_bin(gauge, axis, at, work)
        return
    column = work.sample[axis]
    for i in range(n_sample):
        work.codes[i] = column[i]
    _, work.threshold[0] = cut_few_near(work.codes, n_sample, np.int64(1), n_sample, work.counts)


@lean_kernel
def cut_before_bin(gauge, axis, at, work):
    if gauge.kind[axis] == MASK:
        left_set = np.uint64(0)
        for b in range(at):
            left_set |= np.uint64(1) << np.uint64(work.edge[axis, b])
        work.left_set[0] = left_set
    else:
        work.threshold[0] = work.edge[axis, at]
