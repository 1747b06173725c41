"""How much room a privacy model leaves: into how many groups the rows of a node can still be divided.

Without a model a side of n rows becomes floor(n/k) leaves, and that is what the price of a cut looks ahead to
(search.py). With one, a side may be valid and yet have no valid cut left: its most frequent value is just as frequent
as allowed, or only one of its rows has another value. Cuts that do not look ahead to that make such sides early, and
thousands of rows end in one leaf.

So a side is judged by `needed_rows`: how large a group of its rows must be to satisfy the model as a rule. A demand
bounds some mean over the rows of a group. For s of the side's n rows, drawn at random, the mean scatters around that of
the side by sigma * sqrt(1/s - 1/n); the distance from there to the bound is the slack. Both are equal at

    1/s = (slack / sigma) ** 2 + 1/n

A side whose groups need s > k rows has room for fewer leaves, and these are wider: its price rises by
(s / k) ** caution. That is a rule of thumb (rows near each other are not drawn at random) and only prices depend on it;
whether a side is valid is judged exactly.

The cut that k alone would make stands wherever both of its sides are valid and have room (`sides_have_room`). So a
model that asks for little leaves the tree as it is without one, and only where a model binds are cuts weighed.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.constraint import (
    ENTROPY,
    MOVED,
    MOVED_ORDERED,
    TAIL,
    add_row,
    clear_tally,
    entropy_of,
    has_distinct,
    holds_inlined,
)
from rtree_anon.kernels.jit import lean_inlined, lean_kernel

LITTLE = 3  # a side has little room if its groups need more than so many times k rows
_LOOKED_AT = 64  # rows that tell whether a side has room, where only numbers of distinct values are bounded
_SCATTER = 0.8  # mean of |x| for a normal x: of a distance, its mean counts
_ORDERED_SIGMA = 0.31  # _SCATTER times the mean of sqrt(P (1 - P)) along evenly spread values


@lean_kernel
def sides_have_room(codes, numbers, begin, middle, end, k, constraint, tally):
    """Whether both sides of the cut of codes[numbers[begin:end]] at `middle` are valid, and have room for more cuts or
    are too few rows for any.

    The tally is empty before and after.
    """
    for side in range(2):
        if side == 1:
            begin, middle = middle, end
        if not _has_room(codes, numbers, begin, middle, k, constraint, tally):
            return False
    return True


@lean_inlined
def _has_room(codes, numbers, begin, end, k, constraint, tally):
    n = end - begin
    # Where only numbers of distinct values are bounded, a few rows tell whether there is room.
    step = n // _LOOKED_AT if constraint.upward and n >= 2 * max(k, _LOOKED_AT) else 1
    while True:
        for i in range(begin, end, step):
            add_row(codes, numbers[i], constraint, tally)
            if constraint.upward and n < 2 * k and has_distinct(constraint, tally):
                break
        roomy = holds_inlined(constraint, tally)
        if roomy and n >= 2 * k:
            learn_variance(constraint, tally)
            roomy = needed_rows(constraint, tally) <= LITTLE * k
        clear_tally(constraint, tally)
        if roomy or step == 1:
            return roomy
        step = 1


@lean_kernel
def can_be_weighed(codes, numbers, begin, end, constraint, tally):
    """Whether the rows have values enough for two groups; if so, the tally has learned how they vary.

    A quick look that spares most leaves a search without result. The tally is empty before and after.
    """
    for i in range(begin, end):
        add_row(codes, numbers[i], constraint, tally)
    enough = True
    for j in range(constraint.n_values.shape[0]):
        if constraint.distinct[j] > 1:
            place = constraint.place[j]
            n_enough = tally.n_present[j]
            for i in range(place, place + tally.n_present[j]):
                n_enough += tally.count[place + tally.present[i]] > 1
            enough = enough and n_enough >= 2 * constraint.distinct[j]
    if enough:
        learn_variance(constraint, tally)
    clear_tally(constraint, tally)
    return enough


@lean_kernel
def learn_variance(constraint, tally):
    """Leave in tally.variance how much what is measured varies from row to row, by the rows that were counted.

    It is the same for all parts of a node, as a rule: learned once, it serves for all cuts of the node.
    """
    if constraint.upward:
        return
    n = tally.n_rows[0]
    for j in range(constraint.n_values.shape[0]):
        place = constraint.place[j]
        present = tally.present[place : place + tally.n_present[j]]
        if constraint.entropy[j] > 0.0:
            entropy = entropy_of(constraint, tally, j, n)
            variance = 0.0
            for value in present:
                share = tally.count[place + value] / n
                off = np.log(share) + entropy
                variance += share * off * off
            tally.variance[j, ENTROPY] = variance
        if constraint.moved[j] < np.inf:
            sigma = 0.0
            for value in present:
                share = tally.count[place + value] / n
                sigma += np.sqrt(share * (1.0 - share))
            sigma *= 0.5 * _SCATTER
            tally.variance[j, MOVED] = sigma * sigma


@lean_inlined
def needed_rows(constraint, tally):
    """How many rows a group needs to satisfy the constraint as a rule, if its rows are like those of the tally.

    The rows of the tally satisfy it: `tally_holds` said so just before. `learn_variance` has seen these rows, or those
    of the node that they are a part of.
    """
    n = tally.n_rows[0]
    needed = 0.0
    for j in range(constraint.n_values.shape[0]):
        if constraint.distinct[j] > 1:  # each group has so many rows, less one, that are not of the commonest value
            needed = max(needed, (constraint.distinct[j] - 1) * (n / (n - tally.largest[j])))
        if constraint.upward:
            continue
        largest = tally.largest[j] / n
        if constraint.largest[j] < 1.0:
            needed = max(needed, _rows_for(largest * (1.0 - largest), constraint.largest[j] - largest, n))
        if constraint.entropy[j] > 0.0:
            # s rows have an entropy that is lower by (values - 1) / 2s on average
            slack = tally.measured[j, ENTROPY] - constraint.entropy[j]
            if slack > 0.0:
                needed = max(needed, (tally.n_present[j] - 1) / (2.0 * slack))
            needed = max(needed, _rows_for(tally.variance[j, ENTROPY], slack, n))
        if constraint.tail_rank[j] > 0:
            times = constraint.tail_times[j]
            tail = tally.measured[j, TAIL] / n
            slack = times * tail - largest
            needed = max(needed, _rows_for(times * times * tail + largest - slack * slack, slack, n))
        if constraint.bounded[j]:
            needed = max(needed, _rows_for_bounds(constraint, tally, j, n))
        if constraint.moved[j] < np.inf:
            slack = constraint.moved[j] - tally.measured[j, MOVED]
            needed = max(needed, _rows_for(tally.variance[j, MOVED], slack, n))
        if constraint.moved_ordered[j] < np.inf:
            slack = constraint.moved_ordered[j] - tally.measured[j, MOVED_ORDERED]
            needed = max(needed, _rows_for(_ORDERED_SIGMA * _ORDERED_SIGMA, slack, n))
    return min(needed, np.float64(n))


@lean_inlined
def _rows_for(variance, slack, n):
    if slack <= 0.0:
        return np.float64(n)
    return n * variance / (n * slack * slack + variance)


@lean_inlined
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
            needed = max(needed, _rows_for(variance, most - share, n))
        if least > 0.0:
            needed = max(needed, _rows_for(variance, share - least, n))
    return needed


@lean_kernel
def dearer(k, needed, caution):
    """By what factor the model makes rows dearer whose groups need so many."""
    if needed <= k:
        return 1.0
    return (needed / k) ** caution
