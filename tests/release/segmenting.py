"""Segments of a tree in memory, as an index would give them: whole leaves in scan order, rows next to each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rtree_anon.io.table import CodedTable
from rtree_anon.release.bounds import Regions, tree_regions
from rtree_anon.release.segments import Segment, UnreadSegment
from rtree_anon.release.streamed import StreamedRelease
from rtree_anon.tree.build import LeafTree


class SegmentedTree:
    """Calling it begins a pass; it counts passes and how many segments were given out."""

    def __init__(self, table: CodedTable, tree: LeafTree, segment_rows: int, least_rows: int = 1) -> None:
        self.table, self.tree = table, tree
        self.n_passes = self.n_given = self.n_closed = 0
        ends = np.cumsum(tree.sizes[tree.order])
        cuts, rows = [0], 0
        for leaf, size in enumerate(tree.sizes[tree.order]):
            rows += size
            if rows >= max(segment_rows, least_rows) and ends[-1] - ends[leaf] >= least_rows:
                cuts.append(leaf + 1)
                rows = 0
        self.cuts = cuts if rows == 0 else [*cuts, tree.n_leaves]
        self._regions = tree_regions(tree, table.coders)

    @property
    def n_segments(self) -> int:
        return len(self.cuts) - 1

    def __call__(self) -> Iterator[UnreadSegment]:
        self.n_passes += 1
        try:
            for begin, end in zip(self.cuts, self.cuts[1:], strict=False):
                self.n_given += 1
                leaves = self.tree.order[begin:end]
                yield UnreadSegment(int(self.tree.sizes[leaves].sum()), partial(self._segment, leaves))
        finally:
            self.n_closed += 1

    def _segment(self, leaves: Any) -> Segment:
        tree, regions = self.tree, self._regions
        rows = np.concatenate([tree.rows[tree.starts[leaf] : tree.starts[leaf + 1], -1] for leaf in leaves])
        payload = self.table.payload
        part = replace(
            self.table,
            codes=np.ascontiguousarray(self.table.codes[rows]),
            payload=payload.take(pa.array(rows)) if payload.num_columns else payload,
        )
        return Segment(
            part,
            np.concatenate(([0], np.cumsum(tree.sizes[leaves]))),
            tree.k,
            Regions(regions.lo[leaves], regions.hi[leaves], regions.mask[leaves]),
        )

    def release(self, k: int, **options: Any) -> StreamedRelease:
        options = {"base_k": self.tree.k, "source": "people", "version": 7, **options}
        return StreamedRelease(self, self.table.schema, k=k, **options)
