"""A constraint at work in the search for cuts: which positions of a sorted node leave two valid sides.

A guard is a constraint with the scratch space of one thread. Kernels that take one also take None, which is another
type and so another compiled copy: without a model nothing of this is there.

All positions of a sorted node are judged in two sweeps, one from each end, that add row by row to a tally. Where valid
groups can only be spoilt by losing rows (`upward`), a sweep ends as soon as its side is valid, after a few rows.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.constraint import Constraint, Tally, add_row, clear_tally, run_holds, tally_for, tally_holds
from rtree_anon.kernels.jit import lean_kernel
from rtree_anon.kernels.room import needed_rows

CAUTION = 0.3  # mean over models: 0.1 to 0.4 differ by 3 %, Adult favours the larger, patients the smaller ones


class Guard(NamedTuple):
    """A constraint, and scratch space for nodes of so many rows."""

    constraint: Constraint
    tally: Tally
    caution: float  # how much dearer sides become to which the constraint leaves little room: see room.py
    codes: NDArray[np.int32]  # (rows, clauses) those of the node that is searched, in the order of its block
    valid: NDArray[np.bool_]  # [rows + 1] what was found out about cuts; so are the next two
    left_needed: NDArray[np.float64]  # [rows + 1]
    right_needed: NDArray[np.float64]  # [rows + 1]


def guard_for(constraint: Constraint, n_rows: int, caution: float = CAUTION) -> Guard:
    """Scratch space for nodes of up to n_rows rows."""
    n_clauses = len(constraint.n_values)
    return Guard(
        constraint,
        tally_for(constraint),
        caution,
        np.empty((n_rows, n_clauses), np.int32),
        np.empty(n_rows + 1, np.bool_),
        np.empty(n_rows + 1),
        np.empty(n_rows + 1),
    )


@lean_kernel
def load_codes(rows, start, m, guard):
    """Copy what the constraint looks at, for rows[start:start+m], to guard.codes: the search reads it many times."""
    number = rows.shape[1] - 1
    codes = guard.constraint.codes
    for i in range(m):
        row = rows[start + i, number]
        for j in range(codes.shape[1]):
            guard.codes[i, j] = codes[row, j]


@lean_kernel
def sides_hold(rows, start, m, left, guard):
    """Whether both rows[start:start+left] and rows[start+left:start+m] satisfy the constraint."""
    numbers = rows[:, rows.shape[1] - 1]
    if not run_holds(numbers, start, start + left, guard.constraint, guard.tally):
        return False
    return run_holds(numbers, start + left, start + m, guard.constraint, guard.tally)


@lean_kernel
def mark_cuts(codes, order, keys, m, k, constraint, tally, valid):
    """Judge the cuts of m sorted rows: before position i, order[:i] on the left, wherever keys[i - 1] != keys[i].

    Returns the first and the last valid position (first > last: there is none). Between them, valid[i] says which are,
    unless the constraint is upward: then all are, and `valid` is not touched.
    """
    if constraint.upward:
        return _valid_range(codes, order, m, k, constraint, tally)
    for i in range(m - k):
        add_row(codes, order[i], constraint, tally)
        at = i + 1
        valid[at] = at >= k and keys[at] != keys[at - 1] and tally_holds(constraint, tally)
    clear_tally(constraint, tally)
    first = m
    last = 0
    for at in range(m - 1, k - 1, -1):
        add_row(codes, order[at], constraint, tally)
        if at <= m - k and valid[at]:
            valid[at] = tally_holds(constraint, tally)
            if valid[at]:
                first = at
                last = max(last, at)
    clear_tally(constraint, tally)
    return first, last


@lean_kernel
def weigh_cuts(codes, order, keys, m, k, constraint, tally, valid, left_needed, right_needed):
    """Judge the cuts as `mark_cuts` does, but always one by one, and measure the room of both sides of the valid ones.

    left_needed[i] and right_needed[i] become the rows that groups of the left and of the right side need (room.py).
    """
    for i in range(m - k):
        add_row(codes, order[i], constraint, tally)
        at = i + 1
        valid[at] = at >= k and keys[at] != keys[at - 1] and tally_holds(constraint, tally)
        if valid[at]:
            left_needed[at] = needed_rows(constraint, tally)
    clear_tally(constraint, tally)
    first = m
    last = 0
    for at in range(m - 1, k - 1, -1):
        add_row(codes, order[at], constraint, tally)
        if at <= m - k and valid[at]:
            valid[at] = tally_holds(constraint, tally)
            if valid[at]:
                right_needed[at] = needed_rows(constraint, tally)
                first = at
                last = max(last, at)
    clear_tally(constraint, tally)
    return first, last


@lean_kernel
def _valid_range(codes, order, m, k, constraint, tally):
    first = m
    for i in range(m - k):
        add_row(codes, order[i], constraint, tally)
        if i + 1 >= k and tally_holds(constraint, tally):
            first = i + 1
            break
    clear_tally(constraint, tally)
    last = 0
    for at in range(m - 1, first - 1, -1):
        add_row(codes, order[at], constraint, tally)
        if at <= m - k and tally_holds(constraint, tally):
            last = at
            break
    clear_tally(constraint, tally)
    return first, last
