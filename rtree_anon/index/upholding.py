"""Buckets of a bulk load that satisfy the privacy model, before any of them is cut.

Seed cuts come from a sample and know nothing of the model. A bucket that breaks it cannot be cut into valid leaves, so
it is joined to the buckets around it: the smallest subtree whose rows satisfy the model together becomes one bucket.
Valid buckets are cut into valid leaves (all models are mergeable, see `rtree_anon.models.demands`), and a subtree of
valid buckets needs no further look. Rows are never moved into a bucket that was judged without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.cuts import Cuts
from rtree_anon.index.thinning import spans_of


@dataclass(frozen=True, eq=False)
class Upheld:
    """`cuts` between new buckets, each made of old ones: members[i] is a range of them."""

    cuts: Cuts
    members: list[range]
    is_valid: bool  # False: there is one bucket, and not even all rows together satisfy the model


def upheld(cuts: Cuts, valid: Sequence[bool], judge: Callable[[range], bool]) -> Upheld:
    """Join buckets until all are valid; `judge` says whether the rows of several neighbours are, as one bucket."""
    n = len(valid)
    if all(valid):
        return Upheld(cuts, [range(i, i + 1) for i in range(n)], True)
    if n == 1:
        return Upheld(cuts, [range(1)], False)
    first, second, root = cuts.links
    begin, end = spans_of(first, second, root)
    kept = np.ones(len(cuts), np.bool_)
    good = np.array(valid, np.bool_)
    n_bad = np.concatenate(([0], np.cumsum(~good)))
    is_valid = np.ones(len(cuts), np.bool_)
    for node in _children_first(first, second, root, begin, end, n_bad):
        children = (int(first[node]), int(second[node]))
        if all(is_valid[child] if child >= 0 else good[~child] for child in children):
            continue
        whole = range(int(begin[node]), int(end[node]))
        kept[whole.start : whole.stop - 1] = False
        is_valid[node] = judge(whole)
    edges = [0, *(np.flatnonzero(kept) + 1).tolist(), n]
    members = [range(a, b) for a, b in pairwise(edges)]
    return Upheld(cuts[kept], members, bool(is_valid[root]))


def _children_first(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    root: int,
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    n_bad: NDArray[np.int64],
) -> list[int]:
    """The cuts that have an invalid bucket below them, every one behind those below it."""
    visit, todo = [], [root]
    while todo:
        node = todo.pop()
        if node >= 0 and n_bad[end[node]] > n_bad[begin[node]]:
            visit.append(node)
            todo += [int(first[node]), int(second[node])]
    return visit[::-1]
