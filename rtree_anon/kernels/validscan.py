"""The leaf scans under a privacy model: groups of whole leaves with at least k1 rows that satisfy a constraint.

Where every leaf satisfies the constraint but for numbers of rows, so does every union of leaves (see
`rtree_anon.models.demands`), and the plain scans will do. These are for the rest: a release under a stricter model than
its tree's, or one that counts people, who may have rows in several leaves.

As in leafscan.py, `order` lists the leaves in scan order and group g is order[ends[g-1]:ends[g]]. Leaf i has the rows
numbers[starts[i]:starts[i+1]]. All scans give no groups where the whole table does not satisfy the constraint. Taking
leaves until a group is valid may leave a tail that is not, and may even spoil the group that it joins; groups are then
merged from the end until the last one is valid, at worst all of them.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.constraint import add_row, clear_tally, run_holds, tally_holds
from rtree_anon.kernels.gauge import box_width
from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.leafscan import WINDOW, read_ends
from rtree_anon.kernels.unions import lanes_of_boxes, measure_unions, merge_blocks

_LONGEST = 8  # windows without a valid group are given up at so many times the rows of a typical group


@kernel
def greedy_valid_scan(order, starts, numbers, k1, constraint, tally):
    """The paper's leaf scan: close a group when it has k1 rows and is valid; the tail joins the last one."""
    n_leaves = order.shape[0]
    ends = np.empty(n_leaves, np.int64)
    n_groups = 0
    for i in range(n_leaves):
        _add_leaf(order[i], starts, numbers, constraint, tally)
        if tally.n_rows[0] >= k1 and tally_holds(constraint, tally):
            ends[n_groups] = i + 1
            n_groups += 1
            clear_tally(constraint, tally)
    # What is left in the tally is the tail.
    begin = ends[n_groups - 1] if n_groups > 0 else 0
    while begin < n_leaves:
        if tally.n_rows[0] >= k1 and tally_holds(constraint, tally):
            ends[n_groups] = n_leaves
            n_groups += 1
            break
        if begin == 0:
            break
        n_groups -= 1
        before = ends[n_groups - 1] if n_groups > 0 else 0
        for i in range(before, begin):
            _add_leaf(order[i], starts, numbers, constraint, tally)
        begin = before
    clear_tally(constraint, tally)
    return ends[:n_groups]


@kernel
def hierarchical_valid_scan(left, right, root, starts, numbers, k1, constraint, tally):
    """The paper's hierarchical algorithm: a node is divided while both of its children have k1 rows and are valid.

    Groups are runs of leaves in tree order.
    """
    n_leaves = starts.shape[0] - 1
    ends = np.empty(n_leaves, np.int64)
    n_groups = 0
    todo = np.empty((n_leaves + 2, 3), np.int64)  # node, its first leaf, the end of its leaves
    if starts[n_leaves] < k1 or not run_holds(numbers, np.int64(0), starts[n_leaves], constraint, tally):
        return ends[:0]
    todo[0, 0] = root
    todo[0, 1] = 0
    todo[0, 2] = n_leaves
    top = 1
    while top > 0:
        top -= 1
        node = todo[top, 0]
        begin = todo[top, 1]
        end = todo[top, 2]
        if (
            node >= 0
            and starts[node + 1] - starts[begin] >= k1
            and starts[end] - starts[node + 1] >= k1
            and run_holds(numbers, starts[begin], starts[node + 1], constraint, tally)
            and run_holds(numbers, starts[node + 1], starts[end], constraint, tally)
        ):
            todo[top, 0] = right[node]
            todo[top, 1] = node + 1
            todo[top, 2] = end
            todo[top + 1, 0] = left[node]
            todo[top + 1, 1] = begin
            todo[top + 1, 2] = node + 1
            top += 2
        else:
            ends[n_groups] = end
            n_groups += 1
    return ends[:n_groups]


@kernel
def optimal_valid_scan(order, sizes, starts, numbers, lo, hi, mask, gauge, k1, constraint, tally):
    """The division into valid groups with the least certainty penalty, by dynamic programming over blocks of leaves.

    A typical group of the greedy scan says how large blocks and windows must be, so that the time does not depend on
    how strict the constraint is. Windows are bounded, so there may be a better division; the result is never worse than
    the greedy one.
    """
    greedy = greedy_valid_scan(order, starts, numbers, k1, constraint, tally)
    if greedy.shape[0] < 2:
        return greedy
    typical = max(k1, starts[starts.shape[0] - 1] // greedy.shape[0])
    block_end, block_rows, block_lo, block_hi, block_mask = merge_blocks(order, sizes, lo, hi, mask, typical)
    n_blocks = block_end.shape[0]
    near, far = lanes_of_boxes(block_lo, block_hi, gauge)
    widths = np.empty(n_blocks)
    valid = np.empty(n_blocks, np.bool_)
    best = np.full(n_blocks + 1, np.inf)
    best[0] = 0.0
    previous = np.full(n_blocks + 1, -1, np.int64)
    for e in range(1, n_blocks + 1):
        first = e
        rows = 0
        largest = 0
        found = False
        while first > 0 and (rows - largest < WINDOW * typical or (not found and rows < _LONGEST * typical)):
            first -= 1
            rows += block_rows[first]
            largest = max(largest, block_rows[first])
            for i in range(block_end[first - 1] if first > 0 else 0, block_end[first]):
                _add_leaf(order[i], starts, numbers, constraint, tally)
            valid[first] = rows >= k1 and best[first] < np.inf and tally_holds(constraint, tally)
            found |= valid[first]
        clear_tally(constraint, tally)
        if not found:
            continue
        measure_unions(near, far, block_lo, block_hi, block_mask, gauge, first, e, widths)
        rows = 0
        for s in range(e - 1, first - 1, -1):
            rows += block_rows[s]
            if valid[s]:
                cost = best[s] + rows * widths[s]
                if cost < best[e]:
                    best[e] = cost
                    previous[e] = s
    if best[n_blocks] > _penalty(order, greedy, sizes, lo, hi, mask, gauge):
        return greedy
    return read_ends(previous, block_end)


@kernel
def _add_leaf(leaf, starts, numbers, constraint, tally):
    for i in range(starts[leaf], starts[leaf + 1]):
        add_row(constraint.codes, numbers[i], constraint, tally)


@kernel
def _penalty(order, ends, sizes, lo, hi, mask, gauge):
    """Rows times width of the groups."""
    total = 0.0
    begin = 0
    for g in range(ends.shape[0]):
        group_lo = lo[order[begin]].copy()
        group_hi = hi[order[begin]].copy()
        group_mask = mask[order[begin]].copy()
        rows = 0
        for i in range(begin, ends[g]):
            leaf = order[i]
            rows += sizes[leaf]
            for a in range(lo.shape[1]):
                group_lo[a] = min(group_lo[a], lo[leaf, a])
                group_hi[a] = max(group_hi[a], hi[leaf, a])
            for a in range(mask.shape[1]):
                group_mask[a] |= mask[leaf, a]
        total += rows * box_width(gauge, group_lo, group_hi, group_mask)
        begin = ends[g]
    return total
