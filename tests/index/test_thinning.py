"""Thinning: cuts that leave too little are dropped, every row keeps a place, and what is left is still a tree."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.index.cuts import Cuts
from rtree_anon.index.thinning import thinned
from tests.index.test_segments import random_cuts


def naive_spans(cuts: Cuts) -> dict[int, tuple[int, int]]:
    """The things below every cut."""
    spans: dict[int, tuple[int, int]] = {}

    def walk(begin: int, end: int) -> None:
        if end - begin > 1:
            cut = begin + int(np.argmin(cuts.depth[begin : end - 1]))
            spans[cut] = (begin, end)
            walk(begin, cut + 1)
            walk(cut + 1, end)

    walk(0, len(cuts) + 1)
    return spans


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 2**32))
def test_what_is_kept_has_enough_on_both_sides(n: int, least: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cuts = random_cuts(rng, n) if n > 1 else Cuts.none()
    counts = rng.integers(0, 12, n)
    sums = np.concatenate(([0], np.cumsum(counts)))
    found = thinned(cuts, counts, lambda begin, end: bool(sums[end] - sums[begin] >= least))
    placed = sorted(bucket for members in found.members for bucket in members)
    assert len(found.cuts) == len(found.members) - 1
    assert not set(placed) & set(found.dissolved)
    lost = set(range(n)) - set(placed) - set(found.dissolved)
    assert not counts[sorted(lost)].any()
    if len(found.members) > 1:
        assert min(int(counts[members].sum()) for members in found.members) >= least
        for begin, end in naive_spans(found.cuts).values():
            assert sum(int(counts[members].sum()) for members in found.members[begin:end]) >= 2 * least
    if sums[-1] >= least and n > 1 and not lost and not found.dissolved:
        assert sorted(placed) == list(range(n))
