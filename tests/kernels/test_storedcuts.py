"""Stored cuts: whatever numbers a page holds, they become cuts of the space or are found to be impossible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import CorruptionError
from rtree_anon.index.cuts import Cuts, checked
from rtree_anon.kernels.storedcuts import bits_of_cuts
from rtree_anon.space import Axis, Kind, Space
from tests.kernels.test_upkeep import TREES, Tree, depths

SPACE = Space((Axis("a", Kind.LINEAR, 0, 9), Axis("b", Kind.SET, 0, 5), Axis("c", Kind.LINEAR, 0, 9)))
SET_AXES = [False, True, False]


def stored(depth: list[int], looks_at: list[int]) -> Cuts:
    nothing = np.zeros(len(depth), np.int64)
    return Cuts.from_vectors(np.array(depth, np.int64), np.array(looks_at, np.int64), nothing, nothing)


@settings(max_examples=100, deadline=None)
@given(TREES, st.data())
def test_sound_cuts_are_taken_apart(tree: Tree, data: st.DataObject) -> None:
    depth = depths(tree)
    axes = data.draw(st.lists(st.integers(0, 2), min_size=len(depth), max_size=len(depth)))
    flipped = data.draw(st.lists(st.booleans(), min_size=len(depth), max_size=len(depth)))
    cuts = stored(depth, [4 * axis + 2 * SET_AXES[axis] + turn for axis, turn in zip(axes, flipped, strict=True)])
    assert checked(cuts, SPACE) is cuts
    assert cuts.looks_at.tolist() == [
        4 * axis + 2 * SET_AXES[axis] + turn for axis, turn in zip(axes, flipped, strict=True)
    ]
    assert cuts.depth.tolist() == depth and cuts.axis.tolist() == axes and cuts.flipped.tolist() == flipped
    assert cuts.is_set.tolist() == [SET_AXES[axis] for axis in axes]
    same = cuts.deeper_by(7).renumbered()
    assert same.depth.tolist() == depth
    assert [links.tolist() for links in same.links[:2]] == [links.tolist() for links in cuts.links[:2]]


@pytest.mark.parametrize(
    ("depth", "looks_at", "what"),
    [
        ([-1], [0], "its depth"),
        ([2**20], [0], "its depth"),
        ([2**32], [0], "its depth"),
        ([0], [-4], "attribute"),
        ([0], [12], "attribute"),
        ([0], [4 * 2**16], "attribute"),  # would be axis 0 in 16 bits
        ([0], [2], "divides"),
        ([0], [4], "divides"),
        ([0, 0], [0, 0], "place"),  # both above the other
    ],
)
def test_impossible_cuts(depth: list[int], looks_at: list[int], what: str) -> None:
    with pytest.raises(CorruptionError, match=what):
        checked(stored(depth, looks_at), SPACE)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 2**10)] * 2, *[st.integers(-(2**63), 2**63 - 1)] * 2), max_size=6))
def test_the_bits_of_cuts(rows: list[tuple[int, ...]]) -> None:
    columns = [np.array([row[number] for row in rows], np.int64) for number in range(4)]
    left_set = columns[3].view(np.uint64)
    expected = sum(
        (max(numbers) - min(numbers)).bit_length()
        for numbers in ([int(x) for x in column] for column in (*columns[:3], left_set))
        if numbers
    )
    found = bits_of_cuts(columns[0].astype(np.int32), columns[1].view(np.uint64), columns[2], left_set)
    assert found == expected
