"""Sorting ids together with what belongs to them: as one number each where that fits, many times faster."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.radix import sort_by_bits, sort_in_place

_FEW = 4096

Numbers = NDArray[np.int64]
Part = tuple[NDArray[np.integer], NDArray[np.integer]]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Ids and their other numbers as one number each: (id - lowest) << bits | (other - least)."""

    both: Numbers
    lowest: int
    least: int
    bits: int
    span: int  # bits of ids

    @classmethod
    def of(cls, parts: list[Part]) -> _Pairs | None:
        """Those of `parts`, of which none is empty, and which are used up; None where both do not fit one number."""
        lowest, least = min(int(ids.min()) for ids, _ in parts), min(int(others.min()) for _, others in parts)
        bits = (max(int(others.max()) for _, others in parts) - least).bit_length()
        span = (max(int(ids.max()) for ids, _ in parts) - lowest).bit_length()
        if span + bits >= 64:
            return None
        end = sum(len(ids) for ids, _ in parts)
        both = np.empty(end, np.int64)
        while parts:  # what was taken over needs no memory any more
            ids, others = parts.pop()
            here = both[end - len(ids) : end]
            np.subtract(ids, lowest, out=here)
            here <<= bits
            here |= others.astype(np.int64) - least
            end -= len(ids)
        return cls(both, lowest, least, bits, span)

    def apart(self, both: Numbers) -> tuple[Numbers, Numbers]:
        """Ids and other numbers of some of them."""
        return (both >> self.bits) + self.lowest, (both & ((1 << self.bits) - 1)) + self.least


def sorted_slices(parts: list[Part], most: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Ids ascending, each with its other number, at most so many at a time. `parts` have both, and are used up.

    There can be millions: they wait as one number each, and are sorted where they are. Each id must come once.
    """
    parts[:] = [part for part in parts if len(part[0])]
    if not parts:
        return
    pairs = _Pairs.of(parts)
    if pairs is None:
        ids, others = _sorted_by_order(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        parts.clear()
        for begin in range(0, len(ids), most):
            yield ids[begin : begin + most], others[begin : begin + most]
        return
    _sort(pairs.both, pairs.bits, pairs.bits + pairs.span)
    for begin in range(0, len(pairs.both), most):
        yield pairs.apart(pairs.both[begin : begin + most])


def sorted_pairs(ids: Numbers, others: Numbers) -> tuple[Numbers, Numbers]:
    """The same, all at once. Equal ids stay in their order where their other numbers ascend."""
    if not len(ids):
        return ids, others
    pairs = _Pairs.of([(ids, others)])
    if pairs is None:
        return _sorted_by_order(ids, others)
    both = pairs.both
    if len(both) < _FEW:
        both.sort()
    else:
        both = sort_by_bits(both.view(np.uint64), np.empty(len(both), np.uint64), pairs.bits, pairs.bits + pairs.span)
    return pairs.apart(both.view(np.int64))


def sorted_ids(ids: Numbers) -> Numbers:
    """Ids ascending, in no more memory than their copy."""
    if not len(ids):
        return ids
    lowest, highest = int(ids.min()), int(ids.max())
    if highest - lowest >= 2**63:
        return np.sort(ids)
    ids = ids - lowest
    _sort(ids, 0, (highest - lowest).bit_length())
    ids += lowest
    return ids


def ordered(ids: Numbers) -> tuple[Numbers, Numbers]:
    """Ids ascending, and the place that each had; equal ones in the order in which they were."""
    return sorted_pairs(ids, np.arange(len(ids)))


def is_distinct(ids: Numbers) -> bool:
    """Whether no id comes twice."""
    ascending = sorted_ids(ids)
    return not bool((ascending[1:] == ascending[:-1]).any())


def _sort(numbers: Numbers, low: int, high: int) -> None:
    """Sort numbers that are not negative in place, by their bits low .. high-1 (a few of them by all)."""
    if len(numbers) < _FEW:
        numbers.sort()
    else:
        sort_in_place(numbers.view(np.uint64), low, high)


def _sorted_by_order(ids: NDArray[np.integer], others: NDArray[np.integer]) -> tuple[Numbers, Numbers]:
    order = np.argsort(ids, kind="stable")
    return ids[order].astype(np.int64), others[order].astype(np.int64)
