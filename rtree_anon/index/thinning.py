"""Cuts that turned out to leave too few rows on one side are taken back before anything is cut further.

Seed cuts come from a sample (or from the beginning of a stream), and what they leave on each side is only known when
all rows have been seen. The privacy model is not to depend on luck: a cut with too few rows on one side is dropped, and
those rows go down the other side; where both sides are too small, they become one bucket.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.cuts import Cuts


@dataclass(frozen=True, eq=False)
class Thinned:
    """`cuts` between new buckets, each made of old ones; rows of `dissolved` old buckets are to be routed again."""

    cuts: Cuts
    members: list[list[int]]
    dissolved: list[int]


def thinned(cuts: Cuts, counts: NDArray[np.int64], enough: Callable[[int, int], bool]) -> Thinned:
    """Keep the cuts that leave enough on both sides.

    `enough(begin, end)` says whether the old buckets begin .. end-1 together can stand alone.
    """
    if not len(cuts):
        return Thinned(cuts, [[0]], [])
    first, second, root = cuts.links
    begin, end = spans_of(first, second, root)
    kept: list[int] = []
    members: dict[int, list[int]] = {}
    dissolved: list[int] = []
    todo = [root]
    while todo:
        node = todo.pop()
        if node < 0:
            members[~node] = [~node]
            continue
        children = (int(first[node]), int(second[node]))
        spans = [(~child, ~child + 1) if child < 0 else (int(begin[child]), int(end[child])) for child in children]
        stands = [enough(*span) for span in spans]
        if all(stands):
            kept.append(node)
            todo += children
        elif any(stands):
            keep = stands.index(True)
            dissolved += [b for b in range(*spans[1 - keep]) if counts[b]]
            todo.append(children[keep])
        else:
            members[int(begin[node])] = list(range(int(begin[node]), int(end[node])))
    return Thinned(cuts[np.array(sorted(kept), np.int64)], [members[b] for b in sorted(members)], sorted(dissolved))


def spans_of(
    first: NDArray[np.int64], second: NDArray[np.int64], root: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every cut the buckets below it, begin:end."""
    begin, end = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
    visit, todo = [], [root]
    while todo:
        node = todo.pop()
        if node >= 0:
            visit.append(node)
            todo += [int(first[node]), int(second[node])]
    for node in reversed(visit):
        one, other = int(first[node]), int(second[node])
        begin[node] = begin[one] if one >= 0 else ~one
        end[node] = end[other] if other >= 0 else ~other + 1
    return begin, end
