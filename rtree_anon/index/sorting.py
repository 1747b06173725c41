"""Sorting ids together with what belongs to them: as one number each where that fits, many times faster."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.radix import sort_by_bits

_FEW = 4096

Numbers = NDArray[np.int64]


def sorted_slices(ids: Numbers, others: Numbers, most: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Ids ascending, each with its other number, at most so many at a time; the rest waits as one number each.

    Equal ids stay in their order where their other numbers ascend.
    """
    n = len(ids)
    if not n:
        return
    lowest, least = int(ids.min()), int(others.min())
    bits = (int(others.max()) - least).bit_length()
    span = (int(ids.max()) - lowest).bit_length()
    if span + bits >= 64:
        order = np.argsort(ids, kind="stable")
        for begin in range(0, n, most):
            here = order[begin : begin + most]
            yield ids[here], others[here]
        return
    both = ids - lowest
    both <<= bits
    both |= others - least
    if n < _FEW:
        both.sort()
    else:
        both = sort_by_bits(both.view(np.uint64), np.empty(n, np.uint64), bits, bits + span).view(np.int64)
    for begin in range(0, n, most):
        some = both[begin : begin + most]
        yield (some >> bits) + lowest, (some & ((1 << bits) - 1)) + least


def sorted_pairs(ids: Numbers, others: Numbers) -> tuple[Numbers, Numbers]:
    """The same, all at once."""
    return next(sorted_slices(ids, others, len(ids)), (ids, others))


def ordered(ids: Numbers) -> tuple[Numbers, Numbers]:
    """Ids ascending, and the place that each had; equal ones in the order in which they were."""
    return sorted_pairs(ids, np.arange(len(ids)))


def is_distinct(ids: Numbers) -> bool:
    """Whether no id comes twice."""
    ascending, _ = sorted_pairs(ids, np.zeros(len(ids), np.int64))
    return not bool((ascending[1:] == ascending[:-1]).any())
