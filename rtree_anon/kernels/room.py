"""How much room a privacy model leaves: into how many groups the rows of a node can still be divided.

Without a model a side of n rows becomes floor(n/k) leaves, and that is what the price of a cut looks ahead to
(search.py). With one, a side may be valid and yet have no valid cut left: its most frequent value is just as frequent
as allowed, or only one of its rows has another value. Cuts that do not look ahead to that make such sides early, and
thousands of rows end in one leaf.

So a side is judged by `needed_rows`: how large a group of its rows must be to satisfy the model as a rule. A demand
bounds some mean over the rows of a group. For s rows drawn from the side, the mean scatters by sigma / sqrt(s) around
that of the side, whose distance from the bound is the slack; hence

    s = (sigma / slack) ** 2

A side whose groups need s > k rows has room for fewer leaves, and these are wider: its price rises by
(s / k) ** caution. That is a rule of thumb (rows near each other are not drawn at random) and only prices depend on it;
whether a side is valid is judged exactly. A node whose groups need many more than k rows is *tight*. The others are cut
as if there were no model, as long as that is valid.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.constraint import add_row, clear_tally, entropy_of, moved_of, moved_ordered_of, tail_of
from rtree_anon.kernels.jit import lean_kernel

NONE, LITTLE, ENOUGH = 0, 1, 2  # no valid cut; groups need many more than k rows as a rule; they do not

_LITTLE = 2  # times k rows are many more
_LOOKED_AT = 64  # rows that tell whether a node is tight, where only numbers of distinct values are bounded
_SCATTER = 0.8  # mean of |x| for a normal x: of a distance, its mean counts
_ORDERED_SIGMA = 0.31  # _SCATTER times the mean of sqrt(P (1 - P)) along evenly spread values


@lean_kernel
def needed_rows(constraint, tally):
    """How many rows a group needs to satisfy the constraint as a rule, if its rows are like those of the tally."""
    n = tally.n_rows[0]
    needed = 0.0
    for j in range(constraint.n_values.shape[0]):
        if constraint.distinct[j] > 1:  # each group has so many rows, less one, that are not of the commonest value
            others = n - tally.largest[j]
            if others == 0:
                return np.inf
            needed = max(needed, (constraint.distinct[j] - 1) * (n / others))
        if constraint.upward:
            continue
        if constraint.largest[j] < 1.0:
            share = tally.largest[j] / n
            needed = max(needed, _rows_for(share * (1.0 - share), constraint.largest[j] - share))
        if constraint.entropy[j] > 0.0:
            needed = max(needed, _rows_for_entropy(constraint, tally, j, n))
        if constraint.tail_rank[j] > 0:
            times = constraint.tail_times[j]
            tail, largest = tail_of(constraint, tally, j, n) / n, tally.largest[j] / n
            slack = times * tail - largest
            needed = max(needed, _rows_for(times * times * tail + largest - slack * slack, slack))
        if constraint.bounded[j]:
            needed = max(needed, _rows_for_bounds(constraint, tally, j, n))
        if constraint.moved[j] < np.inf:
            sigma = 0.0
            place = constraint.place[j]
            for i in range(place, place + tally.n_present[j]):
                share = tally.count[place + tally.present[i]] / n
                sigma += np.sqrt(share * (1.0 - share))
            sigma *= 0.5 * _SCATTER
            needed = max(needed, _rows_for(sigma * sigma, constraint.moved[j] - moved_of(constraint, tally, j, n)))
        if constraint.moved_ordered[j] < np.inf:
            slack = constraint.moved_ordered[j] - moved_ordered_of(constraint, tally, j, n)
            needed = max(needed, _rows_for(_ORDERED_SIGMA * _ORDERED_SIGMA, slack))
    return needed


@lean_kernel
def _rows_for(variance, slack):
    return variance / (slack * slack) if slack > 0.0 else np.inf


@lean_kernel
def _rows_for_entropy(constraint, tally, j, n):
    """s rows have an entropy that is lower by (values - 1) / 2s on average and scatters with the variance of log(p)."""
    entropy = entropy_of(constraint, tally, j, n)
    slack = entropy - constraint.entropy[j]
    if slack <= 0.0:
        return np.inf
    place = constraint.place[j]
    variance = 0.0
    for i in range(place, place + tally.n_present[j]):
        share = tally.count[place + tally.present[i]] / n
        off = np.log(share) + entropy
        variance += share * off * off
    return max((tally.n_present[j] - 1) / (2.0 * slack), _rows_for(variance, slack))


@lean_kernel
def _rows_for_bounds(constraint, tally, j, n):
    place = constraint.place[j]
    offset = constraint.offset[j]
    needed = 0.0
    for i in range(place, place + tally.n_present[j]):
        value = tally.present[i]
        share = tally.count[place + value] / n
        variance = share * (1.0 - share)
        most, least = constraint.most[offset + value], constraint.least[offset + value]
        if most < 1.0:
            needed = max(needed, _rows_for(variance, most - share))
        if least > 0.0:
            needed = max(needed, _rows_for(variance, share - least))
    return needed


@lean_kernel
def room_of(codes, members, start, m, k, constraint, tally):
    """NONE, LITTLE or ENOUGH: what the model leaves to the rows codes[members[start:start+m]].

    Where only numbers of distinct values are bounded, a few rows tell whether it is enough. The tally is empty before
    and after.
    """
    if constraint.upward and m >= 2 * _LOOKED_AT:
        for i in range(start, start + m, m // _LOOKED_AT):
            add_row(codes, members[i], constraint, tally)
        needed = needed_rows(constraint, tally)
        clear_tally(constraint, tally)
        if needed <= _LITTLE * k:
            return ENOUGH
    for i in range(start, start + m):
        add_row(codes, members[i], constraint, tally)
    room = ENOUGH
    if not _can_be_two(constraint, tally):
        room = NONE
    elif needed_rows(constraint, tally) > _LITTLE * k:
        room = LITTLE
    clear_tally(constraint, tally)
    return room


@lean_kernel
def _can_be_two(constraint, tally):
    """Whether there are values enough for two groups. A quick look that spares most leaves a search without result."""
    for j in range(constraint.n_values.shape[0]):
        if constraint.distinct[j] > 1:
            place = constraint.place[j]
            n_enough = tally.n_present[j]
            for i in range(place, place + tally.n_present[j]):
                n_enough += tally.count[place + tally.present[i]] > 1
            if n_enough < 2 * constraint.distinct[j]:
                return False
    return True


@lean_kernel
def dearer(n, k, needed, caution):
    """By what factor the model makes n rows dearer whose groups need so many."""
    if needed <= k:
        return 1.0
    return (min(needed, np.float64(n)) / k) ** caution
