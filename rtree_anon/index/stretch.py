"""Renewing a stretch of the index: neighbouring bundles, a whole subtree, with rows that come and rows that go.

    bundles, rows that come, ids that go
      │ read     packed rows, sizes of leaves, cuts (one kernel call for each bundle)
      │ settle   leaves that would have fewer than k rows are joined to the subtree beside them      `_settled`
      │          or, where there is a privacy model, leaves that would break it                      `_upheld`
      │ choose   subtrees that are cut again: a leaf of 2k rows, or leaves with rows to spare        `_regions`
      │ recut    only rows of these subtrees are unpacked, cut and put in order
      ▼ bundles  all rows gathered once, packed into pages
    new bundles, and the rows that are in another bundle than before

Everything that decides about leaves is in two places: `_settled` (or `_upheld`) says which cuts are dropped because a
side cannot stand alone, `_regions` which subtrees are cut again (kernels/upkeep.py). Leaves that neither names keep
their rows, their cuts and their place in the order. Boxes are tight, because they are made anew with the pages.

Under a privacy model every leaf of the stretch is judged, touched or not, with the rows that it is going to have.
Around one that breaks the model, the smallest subtree whose rows satisfy it together becomes one leaf, which is cut
again; both sides of every new cut satisfy the model.

Invariant: a stretch that gets k rows or more comes out with at least k rows in every leaf; one whose rows satisfy the
model together, with leaves that all satisfy it.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.index.bucket import MISSING, Bundles, Cutter
from rtree_anon.index.cuts import Cuts, checked, in_values
from rtree_anon.index.scatter import Words
from rtree_anon.index.upholding import upheld
from rtree_anon.io.stored_values import CarriedCodes
from rtree_anon.kernels import gauge as g
from rtree_anon.kernels.blocks import CutRecord
from rtree_anon.kernels.constraint import Constraint
from rtree_anon.kernels.cutting import MAX_SAMPLE_FACTOR, workspace
from rtree_anon.kernels.forecast import forecast
from rtree_anon.kernels.guard import guard_for
from rtree_anon.kernels.rowwords import unpack_rows
from rtree_anon.kernels.search import MAX_BLOCK_ROWS, finding, worth_table
from rtree_anon.kernels.stretches import (
    WRONG_VALUE,
    count_leaves,
    count_origins,
    gather_by_word,
    gather_words,
    leaf_of_rows,
    mark_deleted,
    moved_rows,
    read_bundles,
    renumber_leaves,
    route_rows,
    sort_by_leaf,
    unpack_picked,
)
from rtree_anon.kernels.upkeep import (
    CutArrays,
    arrange_leaves,
    choose_regions,
    mix_cuts,
    pick_rows,
    recut_regions,
    settle_leaves,
)
from rtree_anon.models.compiling import groups_satisfy
from rtree_anon.space import Kind
from rtree_anon.tree.build import CACHED_ROWS, SEARCHED_ROWS
from rtree_anon.tree.effort import effort_for
from rtree_anon.tree.grid import Grid, make_grid

_REGION_ROWS = 8  # that a subtree which is cut again may have, in units of k: time against leaves that are not full
_LEAF_FILL = 1.4  # rows of an average leaf under a privacy model, in units of the k that would give it without one

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StoredBundles:
    """Bundles as they were read, at words begins[b] .. ends[b]-1 of `content`, and what the upper tree says of them."""

    content: NDArray[np.uint64]
    begins: Ids
    ends: Ids
    n_rows: Ids
    n_leaves: Ids


@dataclass(frozen=True, eq=False)
class Stretch:
    """Rows of neighbouring bundles, packed, with the leaves and the cuts between them."""

    words: Words
    sizes: Ids  # of leaves
    cuts: Cuts
    ends: Ids  # of bundles, in rows


@dataclass(frozen=True, eq=False)
class Renewed:
    """What takes the place of a stretch.

    Bundle b takes the place, and the name, of the old bundle kept[b], or is a new one (-1): the one that has most of
    its rows, so that few rows change bundles. Those that do: row moved[i] is in moved_to[i] now.
    """

    bundles: Bundles
    kept: Ids
    moved: Ids
    moved_to: NDArray[np.int32]
    n_recut: int  # rows in regions that were cut again


@dataclass(frozen=True, eq=False)
class _Regions:
    """Subtrees that are cut again: leaves begin[i] .. end[i]-1."""

    begin: Ids
    end: Ids

    def with_leaves(self, leaves: Ids) -> _Regions:
        """Further leaves that are cut again, unless they are in a region already."""
        behind = np.searchsorted(self.begin, leaves, "right") - 1
        inside = (behind >= 0) & (leaves < np.append(self.end, 0)[behind])
        begin, end = np.append(self.begin, leaves[~inside]), np.append(self.end, leaves[~inside] + 1)
        order = np.argsort(begin)
        return _Regions(begin[order], end[order])


class Renewer:
    """How stretches of one index are renewed; may be used by many threads at once."""

    def __init__(self, cutter: Cutter, leaf_rows: float = 0.0) -> None:
        """`leaf_rows` is what a leaf has on average, where a privacy model may need more than k rows."""
        self.cutter = cutter
        self.usual_k = max(cutter.k, int(leaf_rows / _LEAF_FILL))
        self.region_rows = _REGION_ROWS * self.usual_k
        self._set_axes = np.array([axis.kind == Kind.SET for axis in cutter.space.axes], np.bool_)
        self._local = threading.local()

    @property
    def nothing(self) -> Stretch:
        """A stretch without rows, for the first ones of an index."""
        return Stretch(self.cutter.layout.empty(0), np.zeros(1, np.int64), Cuts.none(), np.zeros(1, np.int64))

    def stretch_of(self, bundles: StoredBundles, between: Cuts) -> Stretch:
        """Bundles as they were read, with the upper tree's cuts between them."""
        n_leaves = int(bundles.n_leaves.sum())
        words = self.cutter.layout.empty(int(bundles.n_rows.sum()))
        sizes = np.empty(n_leaves, np.int64)
        vectors = np.empty((4, n_leaves), np.int64)
        problem = read_bundles(
            bundles.content,
            bundles.begins,
            bundles.ends,
            bundles.n_rows,
            bundles.n_leaves,
            between.depth_of_things,
            self.cutter.layout.words,
            self._room("scratch", int(bundles.n_rows.max()), np.uint64),
            words,
            sizes,
            vectors,
        )
        if problem:
            raise _damaged(problem)
        cuts = Cuts.from_vectors(*vectors[:, :-1])
        if len(between):
            cuts.put(np.cumsum(bundles.n_leaves[:-1]) - 1, between)
        return Stretch(words, sizes, checked(cuts, self.cutter.space).renumbered(), np.cumsum(bundles.n_rows))

    def rows_left(self, stretch: Stretch, gone: Ids) -> Words:
        """The rows of a stretch that is dissolved, without those that are deleted."""
        leaf = np.zeros(len(stretch.words), np.int32)
        self._delete(stretch, gone, leaf)
        return stretch.words[leaf >= 0]

    def renew(self, stretch: Stretch, added: Words, gone: Ids, seed: int) -> Renewed:
        """Work packed rows and deleted ids into a stretch. At least one row must be left."""
        n_old, n_leaves, cuts = len(stretch.words), len(stretch.sizes), stretch.cuts
        leaf = self._room("leaf", n_old + len(added), np.int32)
        leaf_of_rows(stretch.sizes, leaf)
        if len(gone):
            self._delete(stretch, gone, leaf[:n_old])
        if len(added):
            self._route(added, cuts, leaf[n_old:])
        changed = np.zeros(n_leaves, np.bool_)
        changed[leaf[n_old:]] = True
        if len(gone) and self.cutter.model is None:
            counts = np.empty(n_leaves, np.int64)
            if count_leaves(leaf, counts) < self.cutter.k and len(cuts):
                cuts, changed = self._settled(stretch.words, added, leaf, counts, changed, cuts)
        starts = np.empty(len(cuts) + 2, np.int64)
        source = self._room("source", len(leaf), np.int64)
        sort_by_leaf(leaf, len(cuts) + 1, starts, source)
        source = source[: starts[-1]]
        constraint = None
        if self.cutter.model is not None:
            carried = self._carried(stretch.words, added)
            constraint = self.cutter.model.constraint(n_old + len(added), carried, source)
            starts, cuts, changed, joined = self._upheld(source, starts, cuts, changed, constraint)
            regions = self._regions(starts, cuts, changed).with_leaves(joined)
        else:
            regions = self._regions(starts, cuts, changed)
        sizes, order, cuts = self._recut(stretch.words, added, source, starts, cuts, regions, seed, constraint)
        emitted = self._room("emitted", (stretch.words.shape[1], len(order)), np.uint64)
        gather_by_word(stretch.words, added, order, emitted)
        bundles = self.cutter.bundles(emitted, np.concatenate(([0], np.cumsum(sizes))), cuts)
        n_recut = int((starts[regions.end] - starts[regions.begin]).sum())
        return self._named(bundles, emitted, order, stretch.ends, n_recut)

    def _settled(
        self,
        old: Words,
        added: Words,
        leaf: NDArray[np.int32],
        counts: Ids,
        changed: NDArray[np.bool_],
        cuts: Cuts,
    ) -> tuple[Cuts, NDArray[np.bool_]]:
        """Drop the cuts that leave too few rows on a side; `leaf` is brought up to date. What is left, and changed."""
        first, second, root = cuts.links
        kept, orphan = np.empty(len(cuts), np.bool_), np.empty(len(counts), np.bool_)
        settle_leaves(first, second, root, counts, self.cutter.k, kept, orphan)
        number = np.concatenate(([0], np.cumsum(kept))).astype(np.int32)
        changed = np.logical_or.reduceat(changed, np.concatenate(([0], np.flatnonzero(kept) + 1)))
        cuts = cuts[kept]
        homeless = self._room("homeless", len(leaf) + 1, np.int64)
        homeless = homeless[: renumber_leaves(leaf, orphan, number, homeless)]
        if len(homeless):
            words = self.cutter.layout.empty(len(homeless))
            gather_words(old, added, homeless, words)
            found = np.empty(len(homeless), np.int32)
            self._route(words, cuts, found)
            leaf[homeless] = found
            changed[found] = True
        return cuts, changed

    def _upheld(
        self, source: Ids, starts: Ids, cuts: Cuts, changed: NDArray[np.bool_], constraint: Constraint
    ) -> tuple[Ids, Cuts, NDArray[np.bool_], Ids]:
        """Join leaves until all satisfy the model: their starts and cuts, which have changed, and which are joined."""

        def judge(leaves: range) -> bool:
            return bool(groups_satisfy(constraint, source, starts[[leaves.start, leaves.stop]])[0])

        found = upheld(cuts, groups_satisfy(constraint, source, starts).tolist(), judge)
        begins = np.array([members.start for members in found.members], np.int64)
        joined = np.array([len(members) > 1 for members in found.members], np.bool_)
        # A single leaf is what an index has whose rows break the model in any division; now they may satisfy it.
        joined |= len(found.members) == 1
        changed = np.logical_or.reduceat(changed, begins) | joined
        return np.append(starts[begins], starts[-1]), found.cuts, changed, np.flatnonzero(joined)

    def _carried(self, old: Words, added: Words) -> CarriedCodes:
        """The carried columns of old and added rows."""
        parts = [self.cutter.carried(words) for words in (old, added)]
        return lambda place: np.concatenate([part(place) for part in parts])

    def _regions(self, starts: Ids, cuts: Cuts, changed: NDArray[np.bool_]) -> _Regions:
        """Which subtrees are cut again."""
        first, second, root = cuts.links
        begin, end = np.empty((2, len(cuts) + 1), np.int64)
        k = self.usual_k
        n = choose_regions(first, second, root, starts, changed, k, self.region_rows, begin, end)
        return _Regions(begin[:n], end[:n])

    def _recut(
        self,
        old: Words,
        added: Words,
        source: Ids,
        starts: Ids,
        cuts: Cuts,
        regions: _Regions,
        seed: int,
        constraint: Constraint | None,
    ) -> tuple[Ids, Ids, Cuts]:
        """Cut regions again: the sizes of all leaves in their new order, the numbers of their rows, their cuts."""
        begin, end = regions.begin, regions.end
        if not len(begin):
            return np.diff(starts), source, cuts
        picked = self._room("picked", 2 * len(source), np.int64)
        place = np.empty((len(begin), 3), np.int64)
        picked = picked[: pick_rows(starts, source, begin, end, picked, place)]
        grid, rows = self._kernel_rows(old, added, picked)
        n = len(picked) + 1
        depth = self._room("depth", n, np.int32)
        depth[:] = -1
        record = CutRecord(
            depth,
            self._room("axis", n, np.int16),
            self._room("threshold", n, np.int32),
            self._room("left_set", n, np.uint64),
        )
        edge = np.concatenate((np.full(1, -1, np.int32), cuts.depth, np.full(1, -1, np.int32)))
        hangs = np.maximum(edge[begin], edge[end]).astype(np.int64) + 1
        recut: Any = recut_regions
        k = self.cutter.k if constraint is None else max(self.cutter.k, constraint.least_rows)
        recut(rows, place, hangs, k, grid.gauge, *self._effort(grid, seed, k, constraint), record)
        n_most = len(starts) + int((depth >= 0).sum())
        sizes, cut_from = np.empty((2, n_most), np.int64)
        flipped, order = np.empty(n_most, np.bool_), self._room("order", len(source), np.int64)
        n_leaves = arrange_leaves(
            rows, source, starts, begin, end, place, record, grid.gauge, sizes, cut_from, flipped, order
        )
        cut_from = cut_from[: n_leaves - 1]
        new = Cuts.empty(n_leaves - 1, flipped[: n_leaves - 1])
        axes = np.array(grid.axis_of_column, np.int64)
        mix_cuts(cut_from, CutArrays(*cuts.arrays), record, axes, self._set_axes, CutArrays(*new.arrays))
        in_values(grid, new, cut_from < 0)
        return sizes[:n_leaves], order, new

    def _named(self, bundles: Bundles, words: Words, order: Ids, old_ends: Ids, n_recut: int) -> Renewed:
        """Find out what became of the old bundles, and which rows are in another one now."""
        ends = np.cumsum(bundles.n_rows)
        shared = np.zeros((len(ends), len(old_ends)), np.int64)
        count_origins(order, old_ends, ends, shared)
        kept = np.full(len(ends), -1)
        taken = np.zeros(len(old_ends), np.bool_)
        for number in np.argsort(-shared.max(axis=1), kind="stable").tolist():
            best = int(shared[number].argmax())
            if shared[number, best] and not taken[best]:
                taken[best] = True
                kept[number] = best
        n_most = len(order) - int(shared[kept >= 0, kept[kept >= 0]].sum())
        moved, moved_to = np.empty(n_most, np.int64), np.empty(n_most, np.int32)
        n = moved_rows(words, self.cutter.layout.words, order, old_ends, ends, kept, moved, moved_to)
        return Renewed(bundles, kept, moved[:n], moved_to[:n], n_recut)

    def _kernel_rows(self, old: Words, added: Words, picked: Ids) -> tuple[Grid, NDArray[np.int32]]:
        """Rows as the kernels want them, with their numbers in the last column."""
        cutter, d = self.cutter, len(self.cutter.space)
        if cutter.grid is None:
            words = cutter.layout.empty(len(picked))
            gather_words(old, added, picked, words)
            codes = np.empty((len(picked), d), np.int64)
            unpack_rows(words, cutter.layout.words, 0, np.arange(d), np.full(d, MISSING, np.int64), codes)
            grid, rows = make_grid(codes, cutter.space)
            rows[:, d] = picked
            return grid, rows
        rows = self._room("rows", (len(picked), d + 1), np.int32)
        kinds = cutter.grid.gauge.kind[list(cutter.grid.column_of_axis)]
        missing = np.where(kinds == g.MASK, 63, int(g.MISSING))
        columns = np.array(cutter.grid.column_of_axis)
        unpack_picked(old, added, picked, cutter.layout.words, columns, missing, rows)
        return cutter.grid, rows

    def _route(self, words: Words, cuts: Cuts, leaf: NDArray[np.int32]) -> None:
        """The leaf that each row belongs to."""
        first, second, root = cuts.links
        layout = self.cutter.layout.words
        route_rows(
            words,
            layout,
            first,
            second,
            root,
            cuts.axis,
            cuts.threshold,
            cuts.left_set,
            cuts.is_set,
            cuts.flipped,
            leaf,
        )

    def _delete(self, stretch: Stretch, gone: Ids, leaf: NDArray[np.int32]) -> None:
        if mark_deleted(stretch.words, self.cutter.layout.words, gone, leaf) != len(gone):
            raise CorruptionError("A row is not where the directory of the index says; the index is damaged.")

    def _room(self, name: str, shape: int | tuple[int, int], dtype: Any) -> NDArray[Any]:
        """An array that is used again for the next stretch of the same thread; its content is whatever was there."""
        made: dict[str, NDArray[Any]] = self._local.__dict__.setdefault("rooms", {})
        n = shape if isinstance(shape, int) else shape[0] * shape[1]
        room = made.get(name)
        if room is None or len(room) < n:
            room = made[name] = np.empty(n + n // 4, dtype)
        return room[:n].reshape(shape)

    def _effort(self, grid: Grid, seed: int, k: int, constraint: Constraint | None) -> tuple[Any, ...]:
        """What the cutting kernels want besides rows, k and gauge; scratch space is made once for each thread."""
        d = len(grid.space)
        n_axes = int((grid.gauge.scale > 0).sum())
        made: dict[tuple[int, int], tuple[Any, ...]] = self._local.__dict__.setdefault("made", {})
        if (n_axes, k) not in made:
            effort = effort_for(self.cutter.quality, k, n_axes)
            # Most regions are searched exactly from the top; under a model they can be much larger.
            exact_rows = max(effort.exact_rows, self.region_rows if constraint is None else 0)
            effort = effort._replace(exact_rows=min(exact_rows, MAX_BLOCK_ROWS))
            small = max(effort.exact_rows, effort.probe_rows, 0 if constraint is None else SEARCHED_ROWS)
            n_sample = effort.sample_rows * MAX_SAMPLE_FACTOR
            made[n_axes, k] = (
                effort,
                worth_table(k, small, effort.growth),
                forecast(d, n_sample),
                finding(d, small),
                workspace(d, max(CACHED_ROWS, effort.exact_rows), small, n_sample),
            )
        effort, worth, *scratch = made[n_axes, k]
        guard = None if constraint is None else guard_for(constraint, SEARCHED_ROWS)
        return (np.zeros(d, np.bool_), effort, worth, seed, *scratch, guard)


def _damaged(problem: int) -> CorruptionError:
    if problem == WRONG_VALUE:
        return CorruptionError("A row of the index has a value outside its column's domain; it is damaged.")
    return CorruptionError("A bundle does not have the rows and leaves that the tree says; the index is damaged.")
