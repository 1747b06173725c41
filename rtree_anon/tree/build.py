"""Building the tree in memory, with any number of threads, and reading groups off it.

The kernels work in place on one matrix of rows; a node is a range of rows that only its own thread touches, so threads
share nothing. Large nodes near the root are cut one by one, their halves going to whichever thread is free; once a node
is small enough its whole subtree is one kernel call. The result depends on the rows, the seed and the effort alone.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import UsageError
from rtree_anon.kernels.blocks import CutRecord, Effort
from rtree_anon.kernels.boxes import boxes_of_runs, unions_of_boxes
from rtree_anon.kernels.constraint import Constraint, satisfied_runs, tally_for
from rtree_anon.kernels.cutting import MAX_SAMPLE_FACTOR, cut_node, grow, workspace
from rtree_anon.kernels.forecast import forecast
from rtree_anon.kernels.guard import guard_for
from rtree_anon.kernels.leaforder import leaf_regions, link_nodes, order_leaves
from rtree_anon.kernels.leafscan import greedy_scan, hierarchical_scan
from rtree_anon.kernels.mondrian import grow_mondrian
from rtree_anon.kernels.multiplicity import log_multiplicities
from rtree_anon.kernels.search import MAX_BLOCK_ROWS, finding, worth_table
from rtree_anon.kernels.validscan import greedy_valid_scan, hierarchical_valid_scan, optimal_valid_scan
from rtree_anon.space import Space
from rtree_anon.tree.effort import effort_for
from rtree_anon.tree.grid import Codes, Grid, make_grid
from rtree_anon.tree.scanning import optimal_ends

METHODS = ("optimal", "greedy", "hierarchical")
SEARCHED_ROWS = 1 << 14  # nodes whose sampled cut breaks the model are searched exactly up to this size
CACHED_ROWS = 1 << 14  # nodes up to this size are cut by moving numbers of rows: they fit the processor's second cache
_SUBTREES_PER_THREAD = 16  # nodes smaller than this share of the table are grown in one call
_ROWS_FOR_THREADS = 1 << 18  # boxes of the groups of fewer rows are not worth a second thread


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes in kernel codes, one row each."""

    lo: NDArray[np.int32]
    hi: NDArray[np.int32]
    mask: NDArray[np.uint64]

    @classmethod
    def empty(cls, n: int, grid: Grid) -> Boxes:
        d = len(grid.space)
        return cls(np.empty((n, d), np.int32), np.empty((n, d), np.int32), np.empty((n, grid.n_masks), np.uint64))

    @classmethod
    def by_axis(cls, n: int, grid: Grid) -> Boxes:
        """Empty boxes of which one axis is one stretch of memory: for boxes that become columns."""
        d = len(grid.space)
        lo, hi = np.empty((d, n), np.int32), np.empty((d, n), np.int32)
        return cls(lo.T, hi.T, np.empty((grid.n_masks, n), np.uint64).T)

    def followed_by(self, others: Boxes) -> Boxes:
        """These boxes and behind them the others."""
        pairs = ((self.lo, others.lo), (self.hi, others.hi), (self.mask, others.mask))
        return Boxes(*(np.concatenate(pair) for pair in pairs))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Grouping:
    """Groups of whole leaves: group g has the leaves order[ends[g-1]:ends[g]]."""

    order: NDArray[np.int64]
    ends: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LeafTree:
    """Rows cut into leaves: leaf i is rows[starts[i]:starts[i+1]], inner node i separates leaf i from leaf i + 1."""

    k: int
    grid: Grid
    rows: NDArray[np.int32]  # (n, axes + 1) kernel codes; the last column is the row's number in the input
    starts: NDArray[np.int64]
    depth: NDArray[np.int32]  # of the inner nodes; so are the next three
    axis: NDArray[np.int16]
    threshold: NDArray[np.int32]
    left_set: NDArray[np.uint64]

    @property
    def n_leaves(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def places(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the rows of the leaves are, leaf after leaf in this order."""
        return self._places if order is self.order else self._places_in(order)

    def numbers(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the rows, leaf after leaf in this order."""
        return self._numbers if order is self.order else self.rows[:, -1][self._places_in(order)].astype(np.int64)

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """In scan order, which releases at all k have in common."""
        return self._places_in(self.order)

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        return self.rows[:, -1][self._places].astype(np.int64)

    def _places_in(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        sizes = self.sizes[order]
        return np.repeat(self.starts[order] - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(self.rows))

    @cached_property
    def boxes(self) -> Boxes:
        """The tight box of every leaf."""
        boxes = Boxes.empty(self.n_leaves, self.grid)
        boxes_of_runs(self.rows, self.starts, self.grid.gauge, boxes.lo, boxes.hi, boxes.mask)
        return boxes

    @cached_property
    def log_multiplicity(self) -> float:
        """The sum over all rows of log(rows equal to it), which the KL divergence of every release needs."""
        return float(log_multiplicities(self.rows, self.starts))

    @cached_property
    def links(self) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Children of the inner nodes (an inner node, or ~leaf), and the root."""
        return linked(self.depth)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The leaves in scan order: at each inner node the child nearer to the leaf just passed comes first."""
        return self.walk(None)[0]

    def walk(self, entry: Boxes | None) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """The leaves in scan order, as if the box `entry` had been passed before; the cuts between them; their turn.

        See `order_leaves`: which inner node separates neighbours, and whether its right side comes first.
        """
        left, right, root = self.links
        n = self.n_leaves
        order, between, flipped = np.empty(n, np.int64), np.empty(n - 1, np.int64), np.empty(n - 1, np.bool_)
        boxes = self.boxes if entry is None else self.boxes.followed_by(entry)
        before = -1 if entry is None else n
        gauge = self.grid.gauge
        order_leaves(left, right, root, gauge, boxes.lo, boxes.hi, boxes.mask, before, order, between, flipped)
        return order, between, flipped

    @cached_property
    def regions(self) -> Boxes:
        """The region of every leaf: what the cuts above it leave of the domain. Disjoint, and together all of it."""
        boxes = Boxes.empty(self.n_leaves, self.grid)
        boxes.lo[:], boxes.hi[:], boxes.mask[:] = self.grid.domain()
        left, right, root = self.links
        leaf_regions(
            left, right, root, self.grid.gauge, self.axis, self.threshold, self.left_set, boxes.lo, boxes.hi, boxes.mask
        )
        return boxes

    def group(self, k: int, method: str = "optimal", constraint: Constraint | None = None) -> Grouping:
        """Groups of whole leaves with at least k rows each; no groups where there are fewer than k rows in all.

        With a constraint, every group satisfies it; no groups where not even all rows together do. `leaves` makes every
        leaf a group of its own, for trees that were built at this k and constraint.
        """
        in_tree_order = np.arange(self.n_leaves, dtype=np.int64)
        if method == "leaves":
            return Grouping(in_tree_order, in_tree_order + 1)
        if method not in METHODS:
            raise UsageError(f"method={method!r} is not known; choose one of {', '.join(METHODS)}.")
        k = k if constraint is None else max(k, constraint.least_rows)
        order = in_tree_order if method == "hierarchical" else self.order
        if constraint is None or self._satisfy(constraint._replace(least_rows=1)):
            return Grouping(order, self._plain_scan(k, method))
        return Grouping(order, self._valid_scan(k, method, constraint))

    def _plain_scan(self, k: int, method: str) -> NDArray[np.int64]:
        if method == "greedy":
            return np.asarray(greedy_scan(self.order, self.sizes, k))
        if method == "hierarchical":
            return np.asarray(hierarchical_scan(*self.links, self.sizes, k))
        return optimal_ends(self.order, self.sizes, self.boxes, self.grid.gauge, k)

    def _valid_scan(self, k: int, method: str, constraint: Constraint) -> NDArray[np.int64]:
        boxes, numbers, tally = self.boxes, np.ascontiguousarray(self.rows[:, -1]), tally_for(constraint)
        if method == "greedy":
            ends = greedy_valid_scan(self.order, self.starts, numbers, k, constraint, tally)
        elif method == "hierarchical":
            ends = hierarchical_valid_scan(*self.links, self.starts, numbers, k, constraint, tally)
        else:
            ends = optimal_valid_scan(
                self.order,
                self.sizes,
                self.starts,
                numbers,
                boxes.lo,
                boxes.hi,
                boxes.mask,
                self.grid.gauge,
                k,
                constraint,
                tally,
            )
        return ends  # type: ignore[no-any-return]

    def _satisfy(self, constraint: Constraint) -> bool:
        """Whether every leaf satisfies the constraint; then so does every union of leaves."""
        satisfied = np.empty(self.n_leaves, np.bool_)
        numbers = np.ascontiguousarray(self.rows[:, -1])
        satisfied_runs(numbers, self.starts, constraint, tally_for(constraint), satisfied)
        return bool(satisfied.all())

    def group_boxes(self, grouping: Grouping, compact: bool = True) -> Boxes:
        """The box of every group: tight around its rows (compact), or the union of its leaves' regions."""
        leaves = self.boxes if compact else self.regions
        n_groups = len(grouping.ends)
        boxes = Boxes.by_axis(n_groups, self.grid)
        about = leaves.lo, leaves.hi, leaves.mask, boxes.lo, boxes.hi, boxes.mask
        middle = n_groups // 2 if len(self.rows) >= _ROWS_FOR_THREADS else 0
        with ThreadPoolExecutor(1) as pool:  # its thread starts when it is given something to do
            ahead = pool.submit(unions_of_boxes, grouping.order, grouping.ends, 0, middle, *about) if middle else None
            unions_of_boxes(grouping.order, grouping.ends, middle, n_groups, *about)
            if ahead is not None:
                ahead.result()
        return boxes


def linked(depth: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Children of the inner nodes from the depths of the cuts between neighbouring leaves, and the root."""
    left, right = np.empty(len(depth), np.int64), np.empty(len(depth), np.int64)
    return left, right, int(link_nodes(depth, left, right))


def build_tree(
    codes: Codes,
    space: Space,
    k: int,
    *,
    quality: str = "balanced",
    threads: int | None = None,
    seed: int = 0,
    bias: tuple[int, ...] = (),
    constraint: Constraint | None = None,
) -> LeafTree:
    """Cut coded rows into leaves of at least k rows. There must be a row; with fewer than 2k there is one leaf.

    `bias` names axes that are cut in preference: while one of them can be cut, no other is (paper, section 2.4).
    `constraint` is a privacy model in its compiled form, about the rows by their numbers in `codes`: every leaf
    satisfies it, provided that all rows together do.
    """
    grid, rows = make_grid(codes, space)
    return cut_rows(rows, grid, k, quality, threads=threads, seed=seed, bias=bias, constraint=constraint)


def cut_rows(
    rows: NDArray[np.int32],
    grid: Grid,
    k: int,
    quality: str,
    *,
    threads: int | None,
    seed: int,
    bias: tuple[int, ...] = (),
    constraint: Constraint | None = None,
) -> LeafTree:
    """Cut rows in kernel codes (see `make_grid`) into leaves, in place; otherwise as `build_tree`."""
    if threads is not None and threads < 1:
        raise UsageError(f"threads={threads} is not possible; use 1 or more, or None for all cores.")
    least_rows = k if constraint is None else max(k, constraint.least_rows)
    effort = effort_for(quality, least_rows, int((grid.gauge.scale > 0).sum()))
    preferred = np.zeros(len(grid.space), np.bool_)
    preferred[[grid.column_of_axis[a] for a in bias]] = True
    if constraint is not None and not len(constraint.n_values):
        constraint = None  # it was about numbers of rows only
    record = _cut_all(rows, grid, least_rows, effort, preferred, threads or os.cpu_count() or 1, seed, constraint)
    return _recorded_tree(k, grid, rows, record)


def build_mondrian(codes: Codes, space: Space, k: int, constraint: Constraint | None = None) -> LeafTree:
    """Cut coded rows with strict Mondrian; its groups are the leaves."""
    grid, rows = make_grid(codes, space)
    record = _empty_record(len(rows))
    guard = None
    if constraint is not None and len(constraint.n_values):
        guard = guard_for(constraint, 0)
    least_rows = k if constraint is None else max(k, constraint.least_rows)
    grow_mondrian(rows, 0, len(rows), 0, least_rows, grid.gauge, guard, record)
    return _recorded_tree(k, grid, rows, record)


def _recorded_tree(k: int, grid: Grid, rows: NDArray[np.int32], record: CutRecord) -> LeafTree:
    cuts = np.flatnonzero(record.depth >= 0)
    starts = np.concatenate(([0], cuts, [len(rows)])).astype(np.int64)
    return LeafTree(
        k, grid, rows, starts, record.depth[cuts], record.axis[cuts], record.threshold[cuts], record.left_set[cuts]
    )


def _empty_record(n: int) -> CutRecord:
    return CutRecord(
        np.full(n + 1, -1, np.int32), np.empty(n + 1, np.int16), np.empty(n + 1, np.int32), np.empty(n + 1, np.uint64)
    )


def _cut_all(
    rows: NDArray[np.int32],
    grid: Grid,
    k: int,
    effort: Effort,
    preferred: NDArray[np.bool_],
    threads: int,
    seed: int,
    constraint: Constraint | None,
) -> CutRecord:
    n, d = len(rows), len(grid.space)
    record = _empty_record(n)
    effort = effort._replace(exact_rows=min(effort.exact_rows, n, MAX_BLOCK_ROWS))
    small = max(effort.exact_rows, effort.probe_rows)
    if constraint is not None:
        small = max(small, min(SEARCHED_ROWS, n))
    cached_rows = max(min(CACHED_ROWS, n), effort.exact_rows)
    n_sample = effort.sample_rows * MAX_SAMPLE_FACTOR
    worth = worth_table(k, small, effort.growth)

    def call(whole: bool, start: int, size: int, depth: int) -> int:
        # Scratch space per call: a few hundred KB, not worth sharing between threads.
        function = grow if whole else cut_node
        result = function(
            rows,
            start,
            size,
            depth,
            k,
            grid.gauge,
            preferred,
            effort,
            worth,
            seed,
            forecast(d, n_sample),
            finding(d, small),
            workspace(d, cached_rows, small, n_sample),
            None if constraint is None else guard_for(constraint, small),
            record,
        )
        return int(result or 0)

    if threads == 1 or n <= cached_rows:
        call(True, 0, n, 0)
        return record
    whole_rows = max(n // (_SUBTREES_PER_THREAD * threads), cached_rows)
    with ThreadPoolExecutor(threads) as pool:
        running: dict[Future[int], tuple[bool, int, int, int]] = {}

        def submit(start: int, size: int, depth: int) -> None:
            task = (size <= whole_rows, start, size, depth)
            running[pool.submit(call, *task)] = task

        submit(0, n, 0)
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                whole, start, size, depth = running.pop(future)
                left = future.result()
                if not whole and left > 0:
                    submit(start, left, depth + 1)
                    submit(start + left, size - left, depth + 1)
    return record
