"""A tree on pages that tests change batch by batch, beside a dictionary of what it should hold, and its whole check."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.bucket import MISSING, Cutter
from rtree_anon.index.bundle import Bundle
from rtree_anon.index.cuts import Cuts
from rtree_anon.index.rowlayout import layout_of, quasi_ranges
from rtree_anon.index.scatter import Words
from rtree_anon.index.stretch import Renewer
from rtree_anon.index.updating import Outcome, Updating
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.kernels.routing import route_batch, sort_packed
from rtree_anon.space import Axis, Kind, Space
from rtree_anon.storage.memory import MemoryStore
from rtree_anon.storage.page import payloads

MIXED = Space(
    (
        Axis("age", Kind.LINEAR, 0, 60),
        Axis("colour", Kind.SET, 0, 4, has_missing=True, n_categories=5),
        Axis("zip", Kind.LINEAR, -50, 2**40, has_missing=True),  # too wide for 32 bits: the kernels see ranks
    )
)
PLAIN = Space((Axis("x", Kind.LINEAR, 0, 1000), Axis("y", Kind.LINEAR, 0, 1000), Axis("z", Kind.LINEAR, 0, 3)))

Codes = NDArray[np.int64]


def random_rows(generator: np.random.Generator, n: int, space: Space) -> Codes:
    """Rows with ties, missing values and skew."""
    columns = []
    for axis in space.axes:
        values = axis.lo + (generator.random(n) ** 2 * (axis.hi - axis.lo + 1)).astype(np.int64)
        if axis.has_missing:
            values[generator.random(n) < 0.1] = MISSING
        columns.append(np.minimum(values, axis.hi))
    return np.stack(columns, axis=1)


class GrowingTree:
    """One tree, and the rows that it should have by id: codes of the quasi-identifiers and one carried column."""

    def __init__(self, space: Space, k: int, *, page_bytes: int = 1024, quality: str = "balanced") -> None:
        self.space, self.k = space, k
        self.store = MemoryStore(page_bytes)
        self.layout = layout_of([*quasi_ranges(space), (0, 9), (0, 1 << 30)])
        cutter = Cutter(space, self.layout, len(space) + 2, k, quality, page_bytes)
        self.renewer = Renewer(cutter)
        self.tree = UpperTree.empty(len(space), sum(axis.kind == Kind.SET for axis in space.axes))
        self.rows: dict[int, tuple[int, ...]] = {}
        self.names: dict[int, int] = {}  # of bundles: what a directory knows
        self.next_id = 0

    def change(self, codes: Codes, gone: list[int], *, threads: int = 1) -> Outcome:
        """Insert rows and delete others in one batch."""
        ids = np.arange(self.next_id, self.next_id + len(codes))
        self.next_id += len(codes)
        whole = np.column_stack((codes, ids % 10, ids))
        gone_ids = np.array(gone, np.int64)
        gone_from = np.array([self.names[row] for row in gone], np.int64)
        updating = Updating(self.store, self.tree, self.renewer, threads=threads)
        outcome = updating.run(self.packed(whole), gone_ids, gone_from)
        self.tree = outcome.tree
        self.store.free(outcome.dropped)
        for row in gone:
            del self.rows[row], self.names[row]
        self.rows.update({int(row[-1]): tuple(int(value) for value in row) for row in whole})
        for ids, names in outcome.moved:
            self.names.update(zip(ids.tolist(), names.tolist(), strict=True))
        return outcome

    def packed(self, whole: Codes) -> Words:
        words = self.layout.empty(len(whole))
        everything = np.zeros(len(whole), np.uint32)
        codes = np.ascontiguousarray(whole.T)
        assert sort_packed(codes, np.int64(MISSING), self.layout.words, everything, np.zeros(1, np.int64), words)
        return words

    def bundle(self, number: int) -> Bundle:
        tree = self.tree
        first, n = int(tree.page[number]), int(tree.n_pages[number])
        run = np.empty((n, self.store.page_bytes), np.uint8)
        lengths = self.store.read_run(np.arange(first, first + n, dtype=np.uint64), run)
        content = np.concatenate([payloads(run)[i, : int(lengths[i])] for i in range(n)])
        return Bundle(content, len(self.space) + 2, int(tree.n_rows[number]), int(tree.n_leaves[number]))

    def leaves(self) -> list[frozenset[int]]:
        """The ids in every leaf, in order."""
        found = []
        for number in range(len(self.tree)):
            bundle = self.bundle(number)
            ids, starts = bundle.ids, bundle.starts
            found += [frozenset(ids[a:b].tolist()) for a, b in itertools.pairwise(starts)]
        return found

    def check(self) -> None:
        """Everything that a tree promises."""
        tree, d = self.tree, len(self.space)
        seen: dict[int, tuple[int, ...]] = {}
        used: list[int] = []
        for number in range(len(tree)):
            bundle = self.bundle(number)
            rows = bundle.columns(0, d + 2, np.int64)
            assert int(np.diff(bundle.starts).min()) >= self.k or len(tree) == bundle.n_leaves == 1
            assert np.array_equal(rows[:, :d].min(axis=0), tree.lo[number])
            assert np.array_equal(rows[:, :d].max(axis=0), tree.hi[number])
            self._check_masks(number, rows)
            assert np.all(_routed(rows[:, :d], tree.cuts) == number), "a row is looked for in another bundle"
            own = np.repeat(np.arange(bundle.n_leaves), np.diff(bundle.starts))
            assert np.array_equal(_routed(rows[:, :d], bundle.cuts), own), "a row is looked for in another leaf"
            for row in rows.tolist():
                assert row[-1] not in seen
                seen[row[-1]] = tuple(row)
                assert self.names[row[-1]] == tree.name[number]
            used += range(int(tree.page[number]), int(tree.page[number] + tree.n_pages[number]))
        assert seen == self.rows
        assert sorted(used) == self.store.page_ids().tolist()

    def _check_masks(self, number: int, rows: Codes) -> None:
        sets = [a for a, axis in enumerate(self.space.axes) if axis.kind == Kind.SET]
        for place, axis in enumerate(sets):
            bits = np.where(rows[:, axis] == MISSING, 63, rows[:, axis]).astype(np.uint64)
            assert np.bitwise_or.reduce(np.uint64(1) << bits) == self.tree.mask[number, place]


def _routed(codes: Codes, cuts: Cuts) -> NDArray[np.uint32]:
    thing = np.empty(len(codes), np.uint32)
    counts = np.zeros(len(cuts) + 1, np.int64)
    route_batch(np.ascontiguousarray(codes.T), np.int64(MISSING), cuts.route_table, thing, counts)
    return thing
