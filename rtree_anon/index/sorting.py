"""Sorting ids together with what belongs to them: as one number each where that fits, many times faster."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.radix import sort_by_bits

_FEW = 4096

Numbers = NDArray[np.int64]
Part = tuple[NDArray[np.integer], NDArray[np.integer]]


def sorted_slices(parts: list[Part], most: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Ids ascending, each with its other number, at most so many at a time. `parts` have both, and are used up.

    There can be millions: they wait as one number each. Equal ids stay in their order where their other
    numbers ascend.
    """
    parts[:] = [part for part in parts if len(part[0])]
    if not parts:
        return
    lowest, least = min(int(ids.min()) for ids, _ in parts), min(int(others.min()) for _, others in parts)
    bits = (max(int(others.max()) for _, others in parts) - least).bit_length()
    span = (max(int(ids.max()) for ids, _ in parts) - lowest).bit_length()
    if span + bits >= 64:
        every_id, every_other = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        parts.clear()
        order = np.argsort(every_id, kind="stable")
        for begin in range(0, len(order), most):
            here = order[begin : begin + most]
            yield every_id[here].astype(np.int64), every_other[here].astype(np.int64)
        return
    n = end = sum(len(ids) for ids, _ in parts)
    both = np.empty(n, np.int64)
    while parts:
        ids, others = parts.pop()
        here = both[end - len(ids) : end]
        np.subtract(ids, lowest, out=here)
        here <<= bits
        here |= others.astype(np.int64) - least
        end -= len(ids)
    del ids, others
    if n < _FEW:
        both.sort()
    else:
        both = sort_by_bits(both.view(np.uint64), np.empty(n, np.uint64), bits, bits + span).view(np.int64)
    for begin in range(0, n, most):
        some = both[begin : begin + most]
        yield (some >> bits) + lowest, (some & ((1 << bits) - 1)) + least


def sorted_pairs(ids: Numbers, others: Numbers) -> tuple[Numbers, Numbers]:
    """The same, all at once."""
    return next(sorted_slices([(ids, others)], len(ids)), (ids, others))


def ordered(ids: Numbers) -> tuple[Numbers, Numbers]:
    """Ids ascending, and the place that each had; equal ones in the order in which they were."""
    return sorted_pairs(ids, np.arange(len(ids)))


def is_distinct(ids: Numbers) -> bool:
    """Whether no id comes twice."""
    ascending, _ = sorted_pairs(ids, np.zeros(len(ids), np.int64))
    return not bool((ascending[1:] == ascending[:-1]).any())
