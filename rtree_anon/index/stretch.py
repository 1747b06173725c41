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
from rtree_anon.kernels.constraint import Constraint
from rtree_anon.kernels.cutting import MAX_SAMPLE_FACTOR, workspace
from rtree_anon.kernels.forecast import forecast
from rtree_anon.kernels.guard import guard_for
from rtree_anon.kernels.lines import LineLayout
from rtree_anon.kernels.recutting import CutArrays, RecutRoom, recut_regions, recut_room
from rtree_anon.kernels.routing import route_rows
from rtree_anon.kernels.rowwords import limit_mask, unpack_rows
from rtree_anon.kernels.search import MAX_BLOCK_ROWS, finding, worth_table
from rtree_anon.kernels.stretches import (
    WRONG_VALUE,
    count_leaves,
    count_origins,
    gather_by_word,
    gather_words,
    leaf_of_rows,
    mark_deleted,
    merge_by_leaf,
    moved_rows,
    read_bundles,
    renumber_leaves,
    roots_of_bundles,
    sort_by_leaf,
    successors,
)
from rtree_anon.kernels.upkeep import choose_regions, settle_leaves
from rtree_anon.models.compiling import groups_satisfy
from rtree_anon.space import Kind
from rtree_anon.tree.build import CACHED_ROWS, SEARCHED_ROWS
from rtree_anon.tree.effort import effort_for, upkeep_for
from rtree_anon.tree.grid import Grid, make_grid

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
    roots: Ids  # of bundles: their uppermost cuts, or ~leaf


@dataclass(frozen=True, eq=False)
class Renewed:
    """What takes the place of a stretch.

    Bundle b takes the place, and the name, of the old bundle kept[b], or is a new one (-1): the one that has most of
    its rows, so that few rows change bundles. Those that do: row moved[i] is in moved_to[i] now.
    """

    bundles: Bundles
    kept: Ids
    moved: NDArray[np.integer]
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
        self.region_rows, self._rows_per_leaf = upkeep_for(cutter.quality, self.usual_k)
        self._set_axes = np.array([axis.kind == Kind.SET for axis in cutter.space.axes], np.bool_)
        self._local = threading.local()
        self._line_layout: LineLayout | None = None

    @property
    def nothing(self) -> Stretch:
        """A stretch without rows, for the first ones of an index."""
        nobody = np.zeros(1, np.int64)
        return Stretch(self.cutter.layout.empty(0), nobody, Cuts.none(), nobody, ~nobody)

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
        cuts = checked(cuts, self.cutter.space).renumbered()
        roots = np.empty(len(bundles.n_leaves), np.int64)
        roots_of_bundles(cuts.depth, np.cumsum(bundles.n_leaves), roots)
        return Stretch(words, sizes, cuts, np.cumsum(bundles.n_rows), roots)

    def rows_left(self, stretch: Stretch, gone: Ids) -> Words:
        """The rows of a bundle that is dissolved, without those that are deleted."""
        leaf = np.zeros(len(stretch.words), np.int32)
        self._delete(stretch, gone, np.array([len(gone)]), leaf)
        return stretch.words[leaf >= 0]

    def renew(self, stretch: Stretch, added: Words, ends: Ids, gone: Ids, gone_ends: Ids, seed: int) -> Renewed:
        """Work packed rows and deleted ids into a stretch. At least one row must be left.

        Both come bundle by bundle: added rows of bundle b up to ends[b], ids of rows that it loses up to gone_ends[b].
        """
        n_old, n_leaves, cuts = len(stretch.words), len(stretch.sizes), stretch.cuts
        leaf = self._room("leaf", n_old + len(added), np.int32)
        if len(added):
            self._route(added, ends, stretch.roots, cuts, leaf[n_old:])
        changed = np.zeros(n_leaves, np.bool_)
        changed[leaf[n_old:]] = True
        source = self._room("source", len(leaf), np.int64)
        if len(gone):
            leaf_of_rows(stretch.sizes, leaf)
            self._delete(stretch, gone, gone_ends, leaf[:n_old])
            counts = np.empty(n_leaves, np.int64)
            if count_leaves(leaf, counts) < self.cutter.k and len(cuts) and self.cutter.model is None:
                cuts, changed = self._settled(stretch, added, ends, leaf, counts, changed)
            starts = np.empty(len(cuts) + 2, np.int64)
            sort_by_leaf(leaf, len(cuts) + 1, starts, source)
        else:
            starts = np.empty(n_leaves + 1, np.int64)
            merge_by_leaf(stretch.sizes, leaf[n_old:], starts, source)
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
        stretch: Stretch,
        added: Words,
        ends: Ids,
        leaf: NDArray[np.int32],
        counts: Ids,
        changed: NDArray[np.bool_],
    ) -> tuple[Cuts, NDArray[np.bool_]]:
        """Drop the cuts that leave too few rows on a side; `leaf` is brought up to date. What is left, and changed."""
        first, second, root = stretch.cuts.links
        kept, orphan = np.empty(len(stretch.cuts), np.bool_), np.empty(len(counts), np.bool_)
        settle_leaves(first, second, root, counts, self.cutter.k, kept, orphan)
        number = np.concatenate(([0], np.cumsum(kept))).astype(np.int32)
        changed = np.logical_or.reduceat(changed, np.concatenate(([0], np.flatnonzero(kept) + 1)))
        cuts = stretch.cuts[kept]
        homeless = self._room("homeless", len(leaf) + 1, np.int64)
        homeless = homeless[: renumber_leaves(leaf, orphan, number, homeless)]
        if len(homeless):
            words = self.cutter.layout.empty(len(homeless))
            gather_words(stretch.words, added, homeless, words)
            found = np.empty(len(homeless), np.int32)
            last = np.searchsorted(np.cumsum(stretch.sizes), stretch.ends)  # leaves of bundles
            if int(np.add.reduceat(counts, np.append(0, last[:-1] + 1)).min()) >= self.cutter.k:
                # Cuts between bundles are kept, so that rows stay in theirs: old ones, then added ones.
                roots = np.empty(len(last), np.int64)
                roots_of_bundles(cuts.depth, number[last].astype(np.int64) + 1, roots)
                behind = np.concatenate((stretch.ends, len(stretch.words) + (ends if len(added) else ends[:0])))
                roots = np.tile(roots, len(behind) // len(roots))
                self._route(words, np.searchsorted(homeless, behind), roots, cuts, found)
            else:
                self._route(words, np.array([len(words)]), np.array([cuts.links[2]]), cuts, found)
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
        begin, end = np.empty((2, len(cuts) + 1), np.int64)
        n = choose_regions(cuts.depth, starts, changed, self.usual_k, self.region_rows, self._rows_per_leaf, begin, end)
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
        grid, ranked = self.cutter.grid, None
        if grid is None:
            grid, ranked = self._ranked(old, added)
        k = self.cutter.k if constraint is None else max(self.cutter.k, constraint.least_rows)
        edge = np.concatenate((np.full(1, -1, np.int32), cuts.depth, np.full(1, -1, np.int32)))
        hangs = np.maximum(edge[begin], edge[end]).astype(np.int64) + 1
        n_rows = starts[end] - starts[begin]
        n_most = len(starts) - 1 + int((n_rows // k + 1).sum())  # leaves
        sizes, order = np.empty(n_most, np.int64), self._room("order", len(source), np.int64)
        is_new, new = np.empty(n_most, np.bool_), Cuts.empty(n_most)
        recut: Any = recut_regions
        n_leaves = recut(
            old,
            added,
            source,
            starts,
            begin,
            end,
            hangs,
            k,
            self._lines(grid),
            ranked,
            grid.gauge,
            *self._effort(grid, seed, k, constraint),
            self._recut_room(grid, int(n_rows.max()), k),
            np.array(grid.axis_of_column, np.int64),
            self._set_axes,
            CutArrays(*cuts.arrays),
            sizes,
            order,
            is_new,
            CutArrays(*new.arrays),
        )
        new = new[: n_leaves - 1]
        in_values(grid, new, is_new[: n_leaves - 1])
        return sizes[:n_leaves], order, new

    def _named(self, bundles: Bundles, words: Words, order: Ids, old_ends: Ids, n_recut: int) -> Renewed:
        """Find out what became of the old bundles, and which rows are in another one now."""
        ends = np.cumsum(bundles.n_rows)
        shared = np.zeros((len(ends), len(old_ends)), np.int64)
        count_origins(order, old_ends, ends, shared)
        kept = np.empty(len(ends), np.int64)
        n_moved = len(order) - successors(shared, kept)
        moved, moved_to = np.empty(n_moved + 1, np.int64), np.empty(n_moved + 1, np.int32)
        n = moved_rows(words, self.cutter.layout.words, order, old_ends, ends, kept, moved, moved_to)
        return Renewed(bundles, kept, _short(moved[:n]), moved_to[:n], n_recut)

    def _ranked(self, old: Words, added: Words) -> tuple[Grid, NDArray[np.int32]]:
        """All rows as lines, where their codes are too wide for the kernels: these get ranks among the stretch's."""
        cutter, d = self.cutter, len(self.cutter.space)
        codes = np.empty((len(old) + len(added), d), np.int64)
        missing = np.full(d, MISSING, np.int64)
        for words, part in ((old, codes[: len(old)]), (added, codes[len(old) :])):
            unpack_rows(words, cutter.layout.words, 0, np.arange(d), missing, part)
        return make_grid(codes, cutter.space)

    def _lines(self, grid: Grid) -> LineLayout:
        """Where the kernels find the columns of lines in packed rows."""
        if self._line_layout is None:
            kinds, axes, layout = grid.gauge.kind, list(grid.axis_of_column), self.cutter.layout.words
            self._line_layout = LineLayout(
                layout.word[axes],
                layout.shift[axes],
                np.array([limit_mask(limit) for limit in layout.limit[axes]], np.uint64),
                layout.below[axes],
                np.where(kinds == g.MASK, 63, int(g.MISSING)).astype(np.int64),
            )
        return self._line_layout

    def _recut_room(self, grid: Grid, n_rows: int, k: int) -> RecutRoom:
        """Scratch space for regions of that many rows, made once for each thread."""
        made: dict[int, RecutRoom] = self._local.__dict__.setdefault("recut_rooms", {})
        if k not in made or len(made[k].members) < n_rows:
            n_most = max(n_rows + n_rows // 4, self.region_rows)
            made[k] = recut_room(n_most, k, len(grid.space), grid.gauge.n_masked - grid.gauge.n_linear)
        return made[k]

    def _route(self, words: Words, ends: Ids, roots: Ids, cuts: Cuts, leaf: NDArray[np.int32]) -> None:
        """The leaf that each row belongs to; those up to ends[g] are below the cut roots[g]."""
        first, second, _ = cuts.links
        layout = self.cutter.layout.words
        route_rows(
            words,
            layout,
            ends,
            roots,
            first,
            second,
            cuts.axis,
            cuts.threshold,
            cuts.left_set,
            cuts.is_set,
            cuts.flipped,
            leaf,
        )

    def _delete(self, stretch: Stretch, gone: Ids, gone_ends: Ids, leaf: NDArray[np.int32]) -> None:
        if mark_deleted(stretch.words, self.cutter.layout.words, stretch.ends, gone, gone_ends, leaf) != len(gone):
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


def _short(ids: Ids) -> NDArray[np.integer]:
    """Ids in half the memory, where none is too large."""
    return ids.astype(np.uint32) if len(ids) and int(ids.max()) < 1 << 32 else ids


def _damaged(problem: int) -> CorruptionError:
    if problem == WRONG_VALUE:
        return CorruptionError("A row of the index has a value outside its column's domain; it is damaged.")
    return CorruptionError("A bundle does not have the rows and leaves that the tree says; the index is damaged.")
