"""Segments: the parts in which an index hands its rows to a release.

A segment is a whole subtree: its leaves in scan order, with the rows of each next to each other. Groups never cross a
segment, so that a release needs the memory of a few segments, and a change of the index changes the groups of the
segments that it touches and no others. Whoever cuts an index into segments sees to it that each has as many rows as
the largest k that is asked for, by joining a smaller one to its neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rtree_anon.io.table import CodedTable
from rtree_anon.models import Model
from rtree_anon.release.bounds import Regions
from rtree_anon.release.from_tree import release_tree, verified_leaves
from rtree_anon.release.guarantee import Guarantee
from rtree_anon.release.release import Release
from rtree_anon.release.verifying import VerifiedLeaves
from rtree_anon.tree.ordered import OrderedLeaves, ordered_leaves


@dataclass(frozen=True, eq=False)
class Segment:
    """Leaves of a tree at `base_k`: leaf i is rows[leaf_starts[i]:leaf_starts[i+1]] of the table.

    Space, coders and schema of the tables are the same for all segments of an index, and the space speaks of all of
    it: its domains, and which axes have missing values anywhere. `regions` are needed for uncompacted releases only,
    `depths` (of the cuts between neighbouring leaves) for the hierarchical algorithm only. `guarantee` says what a
    privacy model means for these rows, where there are models. `shared` is whether there will be several releases.
    """

    table: CodedTable
    leaf_starts: NDArray[np.int64]
    base_k: int
    regions: Regions | None = None
    depths: NDArray[np.int32] | None = None
    guarantee: Callable[[Model], Guarantee] | None = None
    shared: bool = False

    @cached_property
    def leaves(self) -> OrderedLeaves:
        return ordered_leaves(self.table.codes, self.table.space, self.base_k, self.leaf_starts, self.depths)

    @cached_property
    def _verified(self) -> VerifiedLeaves:
        return verified_leaves(self.table, self.leaves)

    def release(self, k: int, method: str, compact: bool, model: Model | None = None) -> Release:
        """The release of this segment alone, verified. Several share the boxes of the leaves and the look at the rows.

        `model` is what every group satisfies, where that is more than k rows.
        """
        guarantee = None
        if model is not None:
            assert self.guarantee is not None
            guarantee = self.guarantee(model)
        return release_tree(
            self.table,
            self.leaves,
            k,
            method=method,
            compact=compact,
            regions=self.regions,
            guarantee=guarantee,
            verified=self._verified if self.shared else None,
        )


@dataclass(frozen=True, eq=False)
class UnreadSegment:
    """A segment that is read where it is used: by one of many threads."""

    n_rows: int
    read: Callable[[], Segment]


SegmentGiver = Callable[[], Iterator[UnreadSegment]]
