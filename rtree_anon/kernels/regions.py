"""Regions in codes of the space: what a tree of cuts leaves of a box for each of the things that it separates."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.jit import kernel


@kernel
def restrict_regions(first, second, root, axis, is_set, flipped, threshold, left_set, lo, hi, mask):
    """Narrow lo[thing, axis], hi and mask, which hold the box of the whole tree for every thing, to its region.

    Cut i lies between thing i and thing i + 1, so the things below a cut are a range that it divides at i.
    """
    n_cuts = axis.shape[0]
    node = np.empty(n_cuts + 1, np.int64)
    begin = np.empty(n_cuts + 1, np.int64)
    end = np.empty(n_cuts + 1, np.int64)
    node[0], begin[0], end[0] = root, 0, n_cuts + 1
    top = 1
    while top > 0:
        top -= 1
        i = node[top]
        if i < 0:
            continue
        from_thing, to_thing = begin[top], end[top]
        a = axis[i]
        for thing in range(from_thing, to_thing):
            is_left = (thing <= i) != flipped[i]
            if is_set[i]:
                mask[thing, a] &= left_set[i] if is_left else ~left_set[i]
            elif is_left:
                hi[thing, a] = min(hi[thing, a], threshold[i] - 1)
            else:
                lo[thing, a] = max(lo[thing, a], threshold[i])
        node[top], begin[top], end[top] = first[i], from_thing, i + 1
        node[top + 1], begin[top + 1], end[top + 1] = second[i], i + 1, to_thing
        top += 2
