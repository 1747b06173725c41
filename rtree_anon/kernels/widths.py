"""Widths of the intervals of groups, as the measures of a release add them up: one pass instead of one for each."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from rtree_anon.kernels.jit import kernel


@kernel
def weigh_widths(first, last, n_rows, cells):
    """The sum over groups of (last - first) * n_rows, and the largest of `cells` afterwards.

    Every group's `cells` are multiplied by how many whole numbers there are from first to last. Ends are int32, so that
    a sum is exact below 2**53.
    """
    total = 0.0
    most = 0.0
    for g in range(first.shape[0]):
        width = float(last[g]) - float(first[g])
        total += width * n_rows[g]
        cells[g] *= width + 1.0
        most = max(most, cells[g])
    return total, most
