"""A constraint at work in the search for cuts: which positions of a sorted node leave two valid sides.

A guard is a constraint with the scratch space of one thread. Kernels that take one also take None, which is another
type and so another compiled copy: without a model nothing of this is there.

All positions of a sorted node are judged in two sweeps, one from each end, that add row by row to a tally.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.constraint import (
    Constraint,
    Tally,
    add_row,
    clear_tally,
    holds_inlined,
    run_holds,
    tally_for,
)
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
def weigh_cuts(codes, order, keys, m, k, constraint, tally, valid, left_needed, right_needed):
    """Judge the cuts of m sorted rows: before position i, order[:i] on the left, wherever keys[i - 1] != keys[i].

    Returns the first and the last valid position (first > last: there is none). Between them valid[i] says which are,
    and left_needed[i] and right_needed[i] how many rows groups of the left and of the right side need (room.py).
    """
    for at in range(k, m - k + 1):
        valid[at] = keys[at] != keys[at - 1]
    _weigh_sides(codes, order, np.int64(0), m - k, np.int64(1), np.int64(1), k, constraint, tally, valid, left_needed)
    first = k
    while first <= m - k and not valid[first]:
        first += 1
    if first <= m - k:
        end = first - 1
        _weigh_sides(codes, order, m - 1, end, np.int64(-1), np.int64(0), k, constraint, tally, valid, right_needed)
    while first <= m - k and not valid[first]:
        first += 1
    last = m - k
    while last > first and not valid[last]:
        last -= 1
    return first, last


@lean_kernel
def _weigh_sides(codes, order, begin, end, step, beyond, k, constraint, tally, valid, needed):
    """Add order[begin], order[begin + step], ... before `end`, and judge all rows so far: one side of the cut before
    position i + beyond, where order[i] was the last. Cuts that are not valid already are passed over."""
    for i in range(begin, end, step):
        add_row(codes, order[i], constraint, tally)
        at = i + beyond
        if tally.n_rows[0] >= k and valid[at]:
            valid[at] = holds_inlined(constraint, tally)
            if valid[at]:
                needed[at] = needed_rows(constraint, tally)
    clear_tally(constraint, tally)
