"""Privacy models for kernels: flat arrays of bounds, and running statistics of a group of rows.

A constraint is a list of *clauses*. A clause looks at one column, given as codes 0 .. n_values - 1 by row number, and
bounds what the group's values may look like; people are a column like any other (so many distinct ones, none with too
large a share). `rtree_anon.models.demands` has the formulas.

Statistics of a group are kept in a `Tally`: how often each value occurs, which values occur, and the largest count.
Rows are only ever added; `clear_tally` walks the values that occur, so that a group of m rows costs O(m) however many
values or people there are. `tally_holds` looks at O(1) numbers per clause where only distinct values are counted, and
at the values that occur otherwise. What is called for every row is compiled into its callers: to hand over all these
arrays takes longer than to count a row.

Rounding: shares may exceed their bound by a relative 1e-12, which is what a bound like 0.1 is worth in binary. Bounds
that are strict are missed by as much instead.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.jit import lean_inlined, lean_kernel

ROUNDING = 1e-12
ENTROPY, TAIL, MOVED, MOVED_ORDERED = range(4)  # what is measured of a group: columns of tally.measured
_LOGS = 1024  # counts whose c * log(c) is looked up


class Constraint(NamedTuple):
    """What every group must satisfy. Arrays have one entry per clause unless said otherwise."""

    least_rows: int
    upward: bool  # every group that contains a valid one is valid: nothing but numbers of distinct values is bounded
    codes: NDArray[np.int32]  # (rows, clauses): the value of each row, by row number
    n_values: NDArray[np.int64]
    place: NDArray[np.int64]  # where the clause's values begin in the arrays of a tally
    distinct: NDArray[np.int64]  # at least so many distinct values
    largest: NDArray[np.float64]  # at most this share for the most frequent value
    entropy: NDArray[np.float64]  # at least; 0 where not asked for
    tail_rank: NDArray[np.int64]  # l of recursive (c,l); 0 where not asked for
    tail_times: NDArray[np.float64]  # c
    moved: NDArray[np.float64]  # earth mover's distance, equal, at most; inf where not asked for
    moved_ordered: NDArray[np.float64]
    bounded: NDArray[np.bool_]  # whether single values have bounds of their own
    offset: NDArray[np.int64]  # where the clause's values begin in the next four arrays; used where something asks
    share: NDArray[np.float64]  # [values] in the whole table
    above: NDArray[np.float64]  # [values] the sum of the shares of this value and those before
    area: NDArray[np.float64]  # [values] the sum of `above` over the values before this one
    most: NDArray[np.float64]  # [values] at most this share in a group
    least: NDArray[np.float64]  # [values] at least


class Tally(NamedTuple):
    """Statistics of a group, and scratch space. One for each thread, made by `tally_for`."""

    n_rows: NDArray[np.int64]  # [1]
    n_present: NDArray[np.int64]  # [clauses] distinct values
    largest: NDArray[np.int64]  # [clauses] rows of the most frequent value
    count: NDArray[np.int32]  # [values of all clauses]
    present: NDArray[np.int32]  # [values of all clauses] the first n_present of a clause: the values that occur
    top: NDArray[np.int64]  # [largest l] the largest counts, for recursive (c,l)
    logs: NDArray[np.float64]  # c * log(c)
    measured: NDArray[np.float64]  # (clauses, 4) of a group that `tally_holds` has found valid: what was asked for
    variance: NDArray[np.float64]  # (clauses, 4) see `learn_variance` in room.py


def tally_for(constraint: Constraint) -> Tally:
    """An empty tally."""
    n_clauses = len(constraint.n_values)
    n_values = int(constraint.n_values.sum())
    numbers = np.arange(_LOGS, dtype=np.float64)
    numbers[0] = 1.0
    return Tally(
        np.zeros(1, np.int64),
        np.zeros(n_clauses, np.int64),
        np.zeros(n_clauses, np.int64),
        np.zeros(n_values, np.int32),
        np.empty(n_values, np.int32),
        np.zeros(max(int(constraint.tail_rank.max(initial=0)), 1), np.int64),
        numbers * np.log(numbers),
        np.zeros((n_clauses, 4)),
        np.zeros((n_clauses, 4)),
    )


@lean_kernel
def satisfied_runs(row_numbers, starts, constraint, tally, satisfied):
    """For each run of rows row_numbers[starts[i]:starts[i+1]], whether it satisfies the constraint.

    `satisfied` is a bool array of as many runs; `tally` is empty before and after.
    """
    for run in range(starts.shape[0] - 1):
        satisfied[run] = run_holds(row_numbers, starts[run], starts[run + 1], constraint, tally)


@lean_kernel
def run_holds(row_numbers, begin, end, constraint, tally):
    """Whether the rows row_numbers[begin:end] satisfy the constraint. Leaves the tally empty."""
    valid = False
    if end - begin >= constraint.least_rows:
        for i in range(begin, end):
            add_row(constraint.codes, row_numbers[i], constraint, tally)
            if constraint.upward and has_distinct(constraint, tally):
                break
        valid = tally_holds(constraint, tally)
    clear_tally(constraint, tally)
    return valid


@lean_inlined
def add_row(codes, row, constraint, tally):
    """Count one row of `codes`, which is constraint.codes or some rows of it."""
    tally.n_rows[0] += 1
    for j in range(codes.shape[1]):
        value = codes[row, j]
        at = constraint.place[j] + value
        count = tally.count[at] + 1
        tally.count[at] = count
        if count == 1:
            tally.present[constraint.place[j] + tally.n_present[j]] = value
            tally.n_present[j] += 1
        if count > tally.largest[j]:
            tally.largest[j] = count


@lean_inlined
def clear_tally(constraint, tally):
    """Make the tally that of no rows."""
    tally.n_rows[0] = 0
    for j in range(tally.n_present.shape[0]):
        place = constraint.place[j]
        for i in range(place, place + tally.n_present[j]):
            tally.count[place + tally.present[i]] = 0
        tally.n_present[j] = 0
        tally.largest[j] = 0


@lean_kernel
def tally_holds(constraint, tally):
    """Whether the rows that were counted satisfy the constraint. If so, tally.measured has what had to be measured."""
    return holds_inlined(constraint, tally)


@lean_inlined
def has_distinct(constraint, tally):
    """Whether there are rows and distinct values enough: all that a constraint that is `upward` asks for."""
    enough = tally.n_rows[0] >= constraint.least_rows
    for j in range(constraint.n_values.shape[0]):
        enough &= tally.n_present[j] >= constraint.distinct[j]
    return enough


@lean_inlined
def holds_inlined(constraint, tally):
    """`tally_holds`, compiled into its caller."""
    if not has_distinct(constraint, tally):
        return False
    if constraint.upward:
        return True
    n_rows = tally.n_rows[0]
    for j in range(constraint.n_values.shape[0]):
        if tally.largest[j] > constraint.largest[j] * n_rows * (1.0 + ROUNDING):
            return False
        if constraint.entropy[j] > 0.0:
            tally.measured[j, ENTROPY] = entropy_of(constraint, tally, j, n_rows)
            if tally.measured[j, ENTROPY] < constraint.entropy[j] - ROUNDING:
                return False
        if constraint.tail_rank[j] > 0:
            tally.measured[j, TAIL] = tail_of(constraint, tally, j, n_rows)
            if tally.largest[j] >= constraint.tail_times[j] * tally.measured[j, TAIL] * (1.0 - ROUNDING):
                return False
        if constraint.bounded[j] and not _bounds_hold(constraint, tally, j, n_rows):
            return False
        if constraint.moved[j] < np.inf:
            tally.measured[j, MOVED] = moved_of(constraint, tally, j, n_rows)
            if tally.measured[j, MOVED] > constraint.moved[j] + ROUNDING:
                return False
        if constraint.moved_ordered[j] < np.inf:
            tally.measured[j, MOVED_ORDERED] = moved_ordered_of(constraint, tally, j, n_rows)
            if tally.measured[j, MOVED_ORDERED] > constraint.moved_ordered[j] + ROUNDING:
                return False
    return True


@lean_inlined
def entropy_of(constraint, tally, j, n_rows):
    """-sum (c/n) log(c/n) = log(n) - sum c log(c) / n"""
    place = constraint.place[j]
    total = 0.0
    for i in range(place, place + tally.n_present[j]):
        count = tally.count[place + tally.present[i]]
        total += tally.logs[count] if count < _LOGS else count * np.log(count)
    whole = tally.logs[n_rows] if n_rows < _LOGS else n_rows * np.log(n_rows)
    return (whole - total) / n_rows


@lean_inlined
def tail_of(constraint, tally, j, n_rows):
    """r_l + ... + r_m: the rows that are not of the l - 1 most frequent values."""
    place = constraint.place[j]
    n_top = constraint.tail_rank[j] - 1
    top = tally.top
    for r in range(n_top):
        top[r] = 0
    for i in range(place, place + tally.n_present[j]):
        count = np.int64(tally.count[place + tally.present[i]])
        if n_top > 0 and count > top[n_top - 1]:
            r = n_top - 1
            while r > 0 and top[r - 1] < count:
                top[r] = top[r - 1]
                r -= 1
            top[r] = count
    tail = n_rows
    for r in range(n_top):
        tail -= top[r]
    return tail


@lean_inlined
def _bounds_hold(constraint, tally, j, n_rows):
    """Every value of the table within its own bounds. Those that do not occur break a lower bound above 0: `distinct`
    says how many may be missing."""
    place = constraint.place[j]
    offset = constraint.offset[j]
    for i in range(place, place + tally.n_present[j]):
        value = tally.present[i]
        count = tally.count[place + value]
        if count > constraint.most[offset + value] * n_rows or count < constraint.least[offset + value] * n_rows:
            return False
    return True


@lean_inlined
def moved_of(constraint, tally, j, n_rows):
    """sum |p - q| / 2 is the sum of the surpluses p - q > 0, and only values that occur have one."""
    place = constraint.place[j]
    offset = constraint.offset[j]
    n_values = constraint.n_values[j]
    n = np.float64(n_rows)
    moved = 0.0
    if n_values <= 4 * tally.n_present[j]:
        # Four sums that do not wait for each other, in an order that no compiler may change.
        count = tally.count[place : place + n_values]
        share = constraint.share[offset : offset + n_values]
        moved1 = moved2 = moved3 = 0.0
        value = 0
        while value + 3 < n_values:
            moved += max(count[value] - n * share[value], 0.0)
            moved1 += max(count[value + 1] - n * share[value + 1], 0.0)
            moved2 += max(count[value + 2] - n * share[value + 2], 0.0)
            moved3 += max(count[value + 3] - n * share[value + 3], 0.0)
            value += 4
        while value < n_values:
            moved += max(count[value] - n * share[value], 0.0)
            value += 1
        moved = (moved + moved1) + (moved2 + moved3)
    else:
        for i in range(place, place + tally.n_present[j]):
            value = tally.present[i]
            moved += max(tally.count[place + value] - n * constraint.share[offset + value], 0.0)
    return moved / n


@lean_inlined
def moved_ordered_of(constraint, tally, j, n_rows):
    """sum_i |P_i - Q_i| / (m - 1), P and Q the cumulative shares of the group and of the table."""
    n_values = constraint.n_values[j]
    if n_values == 1:
        return 0.0
    place = constraint.place[j]
    offset = constraint.offset[j]
    n_present = tally.n_present[j]
    moved = 0.0
    if n_values <= 4 * n_present:
        below = 0
        for value in range(n_values):
            below += tally.count[place + value]
            moved += abs(below - n_rows * constraint.above[offset + value])
        moved /= n_rows
    else:
        # Between two values that occur P stays the same while Q rises: each such stretch adds P - Q up to where Q
        # passes P, and Q - P from there on.
        present = tally.present[place : place + n_present]
        _sort_values(present)
        above = constraint.above[offset : offset + n_values]
        area = constraint.area[offset : offset + n_values]
        whole = area[n_values - 1] + above[n_values - 1]
        moved = area[present[0]]
        below = 0
        for i in range(n_present):
            begin = present[i]
            below += tally.count[place + begin]
            at_end = area[present[i + 1]] if i + 1 < n_present else whole
            end = present[i + 1] if i + 1 < n_present else n_values
            level = below / n_rows
            lo = np.int64(begin)
            hi = np.int64(end)
            while lo < hi:
                middle = (lo + hi) >> 1
                if above[middle] <= level:
                    lo = middle + 1
                else:
                    hi = middle
            at_crossing = area[lo] if lo < n_values else whole
            moved += level * (lo - begin) - (at_crossing - area[begin])
            moved += (at_end - at_crossing) - level * (end - lo)
    return moved / (n_values - 1)


@lean_kernel
def _sort_values(values):
    """Ascending. Nearly sorted already while a group grows: what was sorted before comes first."""
    # Shell's sort (gaps of 3h + 1): in place, quick for many values and for nearly sorted ones.
    n = values.shape[0]
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            value = values[i]
            at = i
            while at >= gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value
        gap //= 3
