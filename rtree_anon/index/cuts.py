"""The cuts between neighbours: a binary tree over things in a row (buckets, bundles, leaves), as flat arrays.

Between two neighbours there is exactly one inner node whose cut separates them, so a tree over n things is n - 1 cuts
with their depths, in order. That form survives everything that is done to it: a part of it is a subtree's cuts, two
trees are joined by putting one cut between them, and dropping a cut with all on one side of it leaves a tree.

Cuts are in codes of the space (`rtree_anon.space`), not in kernel codes: rows with a smaller code than the threshold,
or with a category of the set, are on the left side, which comes second where the cut is `flipped`.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.kernels.leaforder import link_nodes, number_depths
from rtree_anon.kernels.routing import RouteTable
from rtree_anon.kernels.storedcuts import (
    WRONG_AXIS,
    WRONG_DEPTH,
    WRONG_KIND,
    WRONG_PLACE,
    looks_of_cuts,
    problem_of_cuts,
    take_apart,
)
from rtree_anon.space import Kind, Space
from rtree_anon.tree.build import Boxes, LeafTree
from rtree_anon.tree.grid import Grid

_PROBLEMS = {
    WRONG_DEPTH: "its depth",
    WRONG_AXIS: "the attribute that it looks at",
    WRONG_KIND: "the way in which it divides",
    WRONG_PLACE: "its place in the tree",
}


@dataclass(frozen=True, eq=False)
class Cuts:
    """n - 1 cuts between n things."""

    depth: NDArray[np.int32]
    axis: NDArray[np.int16]
    is_set: NDArray[np.bool_]
    flipped: NDArray[np.bool_]
    threshold: NDArray[np.int64]
    left_set: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.depth)

    @classmethod
    def none(cls) -> Cuts:
        """The tree over a single thing."""
        return cls.empty(0)

    @classmethod
    def empty(cls, n: int) -> Cuts:
        """Room for n cuts."""
        kinds = (np.int32, np.int16, np.bool_, np.bool_, np.int64, np.uint64)
        return cls(*(np.empty(n, dtype) for dtype in kinds))  # type: ignore[arg-type]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What it is made of, for kernels."""
        return self.depth, self.axis, self.is_set, self.flipped, self.threshold, self.left_set

    def put(self, places: NDArray[np.int64], others: Cuts) -> None:
        """Write other cuts to these places, as they are."""
        for own, other in zip(self.arrays, others.arrays, strict=True):
            own[places] = other

    def __getitem__(self, which: slice | NDArray[np.int64] | NDArray[np.bool_]) -> Cuts:
        return Cuts(*(getattr(self, field.name)[which] for field in fields(self)))

    def deeper_by(self, depth: int) -> Cuts:
        """The same tree, as a subtree at this depth."""
        return Cuts(self.depth + np.int32(depth), *(getattr(self, field.name) for field in fields(self)[1:]))

    def renumbered(self) -> Cuts:
        """The same tree with depths from 0 on and without gaps, which dropped cuts and joined trees leave."""
        depth = np.empty(len(self), np.int32)
        number_depths(*self.links, depth)
        same = Cuts(depth, *(getattr(self, field.name) for field in fields(self)[1:]))
        same.__dict__["links"] = self.links  # where a cached property keeps them
        return same

    @cached_property
    def looks_at(self) -> NDArray[np.uint64]:
        """Axis, kind and turn of every cut as one number (kernels/bundles.py)."""
        looks_at = np.empty(len(self), np.uint64)
        looks_of_cuts(self.axis, self.is_set, self.flipped, looks_at)
        return looks_at

    @classmethod
    def from_vectors(
        cls,
        depth: NDArray[np.int64],
        looks_at: NDArray[np.int64],
        threshold: NDArray[np.int64],
        left_set: NDArray[np.int64],
    ) -> Cuts:
        """Cuts as bundles and the upper tree store them."""
        n = len(depth)
        parts = np.empty(n, np.int32), np.empty(n, np.int16), np.empty(n, np.bool_), np.empty(n, np.bool_)
        take_apart(depth, looks_at, *parts)
        return cls(*parts, threshold, left_set.view(np.uint64))

    @cached_property
    def links(self) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """First and second child of every cut (a cut, or ~thing), and the root."""
        first, second = np.empty(len(self), np.int64), np.empty(len(self), np.int64)
        return first, second, int(link_nodes(self.depth, first, second))

    @cached_property
    def depth_of_things(self) -> NDArray[np.int32]:
        """How deep each thing hangs: one below the deeper of its two neighbouring cuts."""
        edge = np.full(1, -1, np.int32)
        return np.maximum(np.concatenate((edge, self.depth)), np.concatenate((self.depth, edge))) + np.int32(1)

    @cached_property
    def route_table(self) -> RouteTable:
        """For kernels that find the thing that a row belongs to. Cuts come first, then things."""
        n_cuts, n = len(self), 2 * len(self) + 1
        first, second, root = self.links
        children = np.empty((n, 2), np.int64)
        children[n_cuts:] = np.arange(n_cuts, n)[:, None]  # a thing leads to itself
        numbers = [np.where(child >= 0, child, n_cuts + ~child) for child in (first, second)]
        children[:n_cuts, 1] = np.where(self.flipped, numbers[1], numbers[0])
        children[:n_cuts, 0] = np.where(self.flipped, numbers[0], numbers[1])
        # Routing begins at node 0: the root changes places with whatever is there.
        place = np.arange(n)
        if n_cuts:
            place[0], place[root] = root, 0

        def placed(values: NDArray[Any], filler: object) -> NDArray[Any]:
            whole: NDArray[Any] = np.full(n, filler, values.dtype)
            whole[:n_cuts] = values
            return whole[place]

        bucket = np.full(n, -1, np.int32)
        bucket[n_cuts:] = np.arange(n_cuts + 1)
        return RouteTable(
            int(self.depth_of_things.max()),
            placed(self.axis.astype(np.int32), 0),
            placed(self.threshold, 0),
            placed(self.left_set, 0),
            placed(self.is_set, False),
            place[children[place]].astype(np.int32),
            bucket[place],
        )


def checked(cuts: Cuts, space: Space) -> Cuts:
    """Cuts that were read from a file: CorruptionError unless they can be cuts of this space."""
    if not len(cuts):
        return cuts
    set_axes = np.array([axis.kind == Kind.SET for axis in space.axes])
    problem = problem_of_cuts(cuts.depth, cuts.axis, cuts.is_set, cuts.links[1], set_axes)
    if problem:
        raise CorruptionError(
            f"A cut of the index is impossible ({_PROBLEMS[problem]}); the index is damaged. Restore it from a copy."
        )
    return cuts


def joined(parts: Sequence[Cuts], between: Cuts) -> Cuts:
    """One tree from trees, one for each thing of `between`."""
    pieces = []
    for number, (part, depth) in enumerate(zip(parts, between.depth_of_things.tolist(), strict=True)):
        pieces.append(part.deeper_by(depth))
        if number < len(between):
            pieces.append(between[number : number + 1])
    return Cuts(*(np.concatenate([getattr(piece, field.name) for piece in pieces]) for field in fields(Cuts)))


def walked(tree: LeafTree, entry: Boxes | None) -> tuple[NDArray[np.int64], Cuts]:
    """The leaves of a tree in scan order, coming from the box `entry`, and the cuts between them."""
    order, between, flipped = tree.walk(entry)
    axis, is_set, threshold, left_set = in_space(
        tree.grid, tree.axis[between], tree.threshold[between], tree.left_set[between]
    )
    return order, Cuts(tree.depth[between], axis, is_set, flipped, threshold, left_set)


def in_space(
    grid: Grid, column: NDArray[np.int16], kernel_threshold: NDArray[np.int32], kernel_set: NDArray[np.uint64]
) -> tuple[NDArray[np.int16], NDArray[np.bool_], NDArray[np.int64], NDArray[np.uint64]]:
    """Cuts that kernels have recorded, in codes of the space: axis, is_set, threshold, left_set."""
    axis = np.array(grid.axis_of_column, np.int16)[column]
    threshold = kernel_threshold.astype(np.int64)
    for number, ranks in enumerate(grid.ranks):
        if ranks is not None:  # a rank separates what lies below its value from what does not
            here = axis == number
            threshold[here] = ranks[threshold[here]]
    is_set = np.array([a.kind == Kind.SET for a in grid.space.axes])[axis] if len(axis) else np.empty(0, np.bool_)
    threshold[is_set] = 0
    return axis, is_set, threshold, np.where(is_set, kernel_set, np.uint64(0))


def in_values(grid: Grid, cuts: Cuts, which: NDArray[np.bool_]) -> None:
    """Thresholds of these cuts, where kernels have recorded ranks, become codes of the space, in place."""
    for number, ranks in enumerate(grid.ranks):
        if ranks is not None:
            here = which & (cuts.axis == number)
            cuts.threshold[here] = ranks[cuts.threshold[here]]
