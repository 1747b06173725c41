"""Renewing a stretch of the index: neighbouring bundles, a whole subtree, with rows that come and rows that go.

Leaves that the batch does not touch keep their rows, their cuts and their place in the order. A leaf that would have
fewer than k rows is joined to the subtree beside it; one that has 2k or more is cut again, together with the smallest
subtrees around it up to `region_rows` (kernels/upkeep.py). Boxes are tight, because they are made anew with the pages.

Invariant: a stretch that gets k rows or more comes out with at least k rows in every leaf.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.index.bucket import MISSING, Bundles, Cutter
from rtree_anon.index.bundle import Bundle
from rtree_anon.index.cuts import Cuts, checked, in_space, joined
from rtree_anon.index.scatter import Words
from rtree_anon.kernels.blocks import CutRecord
from rtree_anon.kernels.cutting import MAX_SAMPLE_FACTOR, workspace
from rtree_anon.kernels.forecast import forecast
from rtree_anon.kernels.routing import route_batch
from rtree_anon.kernels.rowwords import unpack_column, unpack_rows
from rtree_anon.kernels.search import MAX_BLOCK_ROWS, finding, worth_table
from rtree_anon.kernels.upkeep import (
    add_bundle_rows,
    arrange_leaves,
    choose_regions,
    gather_leaves,
    mark_deleted,
    recut_regions,
    settle_leaves,
    sort_by_leaf,
)
from rtree_anon.tree.build import COLUMN_ROWS
from rtree_anon.tree.effort import effort_for
from rtree_anon.tree.grid import Grid

_REGION_LEAVES = 16  # rows of a subtree that is cut again, in units of k
_SLACK = 1.1  # rows of a further leaf that make cutting again worth while, in units of k


@dataclass(frozen=True, eq=False)
class Stretch:
    """Rows of neighbouring bundles, packed, with the leaves and the cuts between them."""

    words: Words
    starts: NDArray[np.int64]  # of leaves
    cuts: Cuts
    ends: NDArray[np.int64]  # of bundles, in rows


@dataclass(frozen=True, eq=False)
class Renewed:
    """What takes the place of a stretch: bundles, and for each of their rows its id and the old bundle (-1: new)."""

    bundles: Bundles
    ids: NDArray[np.int64]
    origin: NDArray[np.int64]
    n_recut: int  # rows in regions that were cut again


class Renewer:
    """How stretches of one index are renewed; may be used by many threads at once."""

    def __init__(self, cutter: Cutter) -> None:
        self.cutter = cutter
        self.region_rows, self.slack = _REGION_LEAVES * cutter.k, _SLACK
        self._local = threading.local()

    @property
    def nothing(self) -> Stretch:
        """A stretch without rows, for the first ones of an index."""
        return Stretch(self.cutter.layout.empty(0), np.zeros(2, np.int64), Cuts.none(), np.zeros(1, np.int64))

    def stretch_of(self, bundles: Sequence[Bundle], between: Cuts) -> Stretch:
        """Bundles as they were read, with the upper tree's cuts between them."""
        ends = np.cumsum([bundle.n_rows for bundle in bundles])
        words = self.cutter.layout.empty(int(ends[-1]))
        scratch = np.empty(max(bundle.n_rows for bundle in bundles), np.int64)
        starts = [np.zeros(1, np.int64)]
        for bundle, end in zip(bundles, ends.tolist(), strict=True):
            begin = end - bundle.n_rows
            if not add_bundle_rows(bundle.words, bundle.n_rows, self.cutter.layout.words, scratch, words[begin:end]):
                raise CorruptionError("A row of the index has a value outside its column's domain; it is damaged.")
            starts.append(bundle.starts[1:] + begin)
        parts = [bundle.cuts for bundle in bundles]
        cuts = checked(parts[0] if len(bundles) == 1 else joined(parts, between), self.cutter.space)
        return Stretch(words, np.concatenate(starts), cuts.renumbered(), ends)

    def rows_left(self, stretch: Stretch, gone: NDArray[np.int64]) -> Words:
        """The rows of a stretch that is dissolved, without those that are deleted."""
        leaf = np.zeros(len(stretch.words), np.int32)
        self._delete(stretch, gone, leaf)
        return stretch.words[leaf >= 0]

    def renew(self, stretch: Stretch, added: Words, gone: NDArray[np.int64], seed: int) -> Renewed:
        """Work packed rows and deleted ids (ascending) into a stretch. At least one row must be left."""
        k = self.cutter.k
        n_old = len(stretch.words)
        words = np.concatenate((stretch.words, added)) if len(added) else stretch.words
        leaf = np.empty(len(words), np.int32)
        sizes = np.diff(stretch.starts)
        leaf[:n_old] = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        if len(gone):
            self._delete(stretch, gone, leaf[:n_old])
        if len(added):
            leaf[n_old:] = self._routed(added, stretch.cuts)
        cuts = stretch.cuts
        changed = np.zeros(len(sizes), np.bool_)
        changed[leaf[n_old:]] = True
        if len(gone):
            counts = np.bincount(leaf[leaf >= 0], minlength=len(sizes))
            if int(counts.min()) < k and len(cuts):
                cuts, changed = self._settled(words, leaf, counts, changed, cuts)
        starts = np.empty(len(cuts) + 2, np.int64)
        source = np.empty(int((leaf >= 0).sum()), np.int64)
        sort_by_leaf(leaf, len(cuts) + 1, starts, source)
        return self._recut(words[source], source, starts, cuts, changed, stretch.ends, seed)

    def _settled(
        self, words: Words, leaf: NDArray[np.int32], counts: NDArray[np.int64], changed: NDArray[np.bool_], cuts: Cuts
    ) -> tuple[Cuts, NDArray[np.bool_]]:
        """Drop the cuts that leave too few rows on a side; `leaf` is brought up to date. What is left, and changed."""
        first, second, root = cuts.links
        kept, orphan = np.empty(len(cuts), np.bool_), np.empty(len(counts), np.bool_)
        settle_leaves(first, second, root, counts, self.cutter.k, kept, orphan)
        number = np.concatenate(([0], np.cumsum(kept))).astype(np.int32)
        changed = np.logical_or.reduceat(changed, np.concatenate(([0], np.flatnonzero(kept) + 1)))
        cuts = cuts[kept]
        alive = np.flatnonzero(leaf >= 0)
        homeless = alive[orphan[leaf[alive]]]
        leaf[alive] = number[leaf[alive]]
        if len(homeless):
            leaf[homeless] = self._routed(words[homeless], cuts)
            changed[leaf[homeless]] = True
        return cuts, changed

    def _recut(
        self,
        words: Words,
        source: NDArray[np.int64],
        starts: NDArray[np.int64],
        cuts: Cuts,
        changed: NDArray[np.bool_],
        bundle_ends: NDArray[np.int64],
        seed: int,
    ) -> Renewed:
        n, k = len(words), self.cutter.k
        first, second, root = cuts.links
        begin, end = np.empty(len(cuts) + 1, np.int64), np.empty(len(cuts) + 1, np.int64)
        n_regions = choose_regions(first, second, root, starts, changed, k, self.slack, self.region_rows, begin, end)
        begin, end = begin[:n_regions], end[:n_regions]
        grid, rows = self.cutter.kernel_rows(words)
        depth = np.full(n + 1, -1, np.int32)
        record = CutRecord(depth, np.empty(n + 1, np.int16), np.empty(n + 1, np.int32), np.empty(n + 1, np.uint64))
        if n_regions:
            edge = np.concatenate((np.full(1, -1, np.int32), cuts.depth, np.full(1, -1, np.int32)))
            hangs = np.maximum(edge[begin], edge[end]).astype(np.int64) + 1
            recut: Any = recut_regions
            recut(rows, starts, begin, end, hangs, k, grid.gauge, *self._effort(grid, seed), record)
        n_most = len(starts) + int((depth >= 0).sum())
        leaf_first, leaf_size = np.empty(n_most, np.int64), np.empty(n_most, np.int64)
        cut_from, flipped = np.empty(n_most, np.int64), np.empty(n_most, np.bool_)
        masks = np.empty((n_most, grid.n_masks), np.uint64)
        n_leaves = arrange_leaves(
            rows, starts, begin, end, record, grid.gauge, leaf_first, leaf_size, cut_from, flipped, masks
        )
        leaf_first, leaf_size = leaf_first[:n_leaves], leaf_size[:n_leaves]
        emitted, came_from = np.empty_like(words), np.empty(n, np.int64)
        gather_leaves(words, rows, leaf_first, leaf_size, source, emitted, came_from)
        new_cuts = _mixed(cuts, record, cut_from[: n_leaves - 1], flipped[: n_leaves - 1], grid)
        new_starts = np.concatenate(([0], np.cumsum(leaf_size)))
        bundles = self.cutter.bundles(emitted, new_starts, masks[:n_leaves], new_cuts)
        origin = np.searchsorted(bundle_ends, came_from, "right")
        origin[came_from >= bundle_ends[-1]] = -1
        n_recut = int((starts[end] - starts[begin]).sum())
        return Renewed(bundles, self._ids(emitted), origin, n_recut)

    def _routed(self, words: Words, cuts: Cuts) -> NDArray[np.uint32]:
        """The leaf that each row belongs to."""
        d = len(self.cutter.space)
        codes = np.empty((d, len(words)), np.int64)
        unpack_rows(words, self.cutter.layout.words, 0, np.arange(d), np.full(d, MISSING, np.int64), codes.T)
        leaf = np.empty(len(words), np.uint32)
        route_batch(codes, np.int64(MISSING), cuts.route_table, leaf, np.zeros(len(cuts) + 1, np.int64))
        return leaf

    def _delete(self, stretch: Stretch, gone: NDArray[np.int64], leaf: NDArray[np.int32]) -> None:
        if mark_deleted(self._ids(stretch.words), gone, leaf) != len(gone):
            raise CorruptionError("A row is not where the directory of the index says; the index is damaged.")

    def _ids(self, words: Words) -> NDArray[np.int64]:
        ids = np.empty(len(words), np.int64)
        unpack_column(words, self.cutter.layout.words, self.cutter.n_columns - 1, np.int64(MISSING), ids)
        return ids

    def _effort(self, grid: Grid, seed: int) -> tuple[Any, ...]:
        """What the cutting kernels want besides rows, k and gauge; scratch space is made once for each thread."""
        d, k = len(grid.space), self.cutter.k
        n_axes = int((grid.gauge.scale > 0).sum())
        made: dict[int, tuple[Any, ...]] = self._local.__dict__.setdefault("made", {})
        if n_axes not in made:
            effort = effort_for(self.cutter.quality, k, n_axes)
            effort = effort._replace(exact_rows=min(effort.exact_rows, MAX_BLOCK_ROWS))
            small = max(effort.exact_rows, effort.probe_rows)
            n_sample = effort.sample_rows * MAX_SAMPLE_FACTOR
            made[n_axes] = (
                effort,
                worth_table(k, small, effort.growth),
                forecast(d, n_sample),
                finding(d, small),
                workspace(d, max(COLUMN_ROWS, effort.exact_rows), small, n_sample),
            )
        effort, worth, *scratch = made[n_axes]
        return (np.zeros(d, np.bool_), effort, worth, seed, *scratch)


def _mixed(old: Cuts, record: CutRecord, cut_from: NDArray[np.int64], flipped: NDArray[np.bool_], grid: Grid) -> Cuts:
    """Cuts that stayed and new ones, as `arrange_leaves` lists them."""
    is_new = cut_from < 0
    if not is_new.any():
        return old[cut_from]
    place = ~cut_from[is_new]
    axis, is_set, threshold, left_set = in_space(
        grid, record.axis[place], record.threshold[place], record.left_set[place]
    )
    new = Cuts(record.depth[place], axis, is_set, flipped[is_new], threshold, left_set)
    both = Cuts(*(np.concatenate((getattr(old, name), getattr(new, name))) for name in Cuts.__dataclass_fields__))
    which = cut_from.copy()
    which[is_new] = len(old) + np.arange(len(place))
    return both[which]
