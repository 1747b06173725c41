"""Leaves whose rows lie in scan order already: a part of an index, read from disk.

Nothing is cut here. The tree above the leaves is known only where its depths are given, which the hierarchical
algorithm alone needs.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import UsageError
from rtree_anon.space import Space
from rtree_anon.tree.build import LeafTree, linked
from rtree_anon.tree.grid import Codes, make_grid


class OrderedLeaves(LeafTree):
    """A `LeafTree` that is scanned in the order of its rows."""

    @cached_property
    def order(self) -> NDArray[np.int64]:
        return np.arange(self.n_leaves, dtype=np.int64)

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        return np.arange(len(self.rows), dtype=np.int64)

    @cached_property
    def links(self) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        if len(self.depth) != self.n_leaves - 1:
            raise UsageError('method="hierarchical" needs the tree above the leaves, which is not known here.')
        return linked(self.depth)


def ordered_leaves(
    codes: Codes, space: Space, k: int, starts: NDArray[np.int64], depth: NDArray[np.int32] | None = None
) -> OrderedLeaves:
    """The leaves codes[starts[i]:starts[i+1]] of a tree at k; `depth` is that of the cuts between neighbours."""
    grid, rows = make_grid(codes, space)
    unknown = np.empty(0, np.int32)
    depth = unknown if depth is None else depth
    return OrderedLeaves(k, grid, rows, starts, depth, unknown.astype(np.int16), unknown, unknown.astype(np.uint64))
