"""Frequency sets: how many rows stand behind each combination of generalized values (Incognito, Section 1.1).

The table is packed and counted once, in chunks (`count_chunks`); everything else is rolled up from counted sets along
the hierarchies (the rollup property, Section 3) or down to fewer attributes (the cube of Section 3.3.2). A set is named
by its levels: one per quasi-identifier, `DROPPED` where the attribute is left out. Where a privacy model looks at
further columns, every set keeps them as fields of its keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtree_anon.hierarchy import BoundHierarchy
from rtree_anon.kernels.counting import (
    CHUNK,
    Fields,
    Move,
    assign_groups,
    generalize,
    sum_dense,
    sum_partitioned,
)
from rtree_anon.lattice.packing import Layout

DROPPED = -1
MAX_CELLS = 1 << 19  # counters that are still worth having one for each possible group
KEYS_PER_PARTITION = 1 << 13

Levels = tuple[int, ...]
PackedKeys = NDArray[np.uint64]  # (n_words, n_keys)


@dataclass(frozen=True, eq=False)
class FrequencySet:
    """Distinct packed keys at `levels`, with their counts."""

    levels: Levels
    keys: PackedKeys
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.keys.nbytes + self.counts.nbytes


@dataclass(frozen=True, eq=False)
class Generalizer:
    """Moves keys from one vector of levels to a higher one. Knows the layout and the hierarchies, no rows."""

    layout: Layout
    hierarchies: tuple[BoundHierarchy, ...]
    _tables: dict[tuple[int, int, int], NDArray[np.int64]] = field(default_factory=dict, repr=False)

    @property
    def n_quasi(self) -> int:
        """The number of quasi-identifiers, the first columns of the layout."""
        return len(self.hierarchies)

    @property
    def extra_positions(self) -> range:
        """The columns after the quasi-identifiers."""
        return range(self.n_quasi, len(self.layout.fields))

    def roll_up(self, source: FrequencySet, levels: Levels) -> FrequencySet:
        """The frequency set at `levels` from one at lower (or equal) levels."""
        shape = self._n_ids(levels)
        if math.prod(shape) <= min(MAX_CELLS, 2 * len(source)):
            return self._count_cells(source, levels, shape)
        groups, sums = self._room(len(source)), np.empty(len(source), dtype=np.int64)
        move = self._move(source.levels, levels, self.extra_positions)
        n_bits = (len(source) // KEYS_PER_PARTITION).bit_length()
        n_groups = sum_partitioned(
            tuple(source.keys), source.counts, move, n_bits, tuple(self._room(CHUNK)), tuple(groups), sums
        )
        return FrequencySet(levels, groups[:, :n_groups].copy(), sums[:n_groups].copy())

    def values(self, source: FrequencySet, attribute: int, level: int) -> NDArray[np.int64]:
        """The id of each key's value of one attribute, at a level."""
        levels = (*source.levels[:attribute], level, *source.levels[attribute + 1 :])
        return self._table(attribute, source.levels, levels)[self.layout.column(source.keys, attribute)]

    def assign(
        self, keys: PackedKeys, source: Levels, levels: Levels, extras: Sequence[int] = ()
    ) -> tuple[NDArray[np.int64], PackedKeys]:
        """The group of each key at `levels`, and the groups' keys, which keep the `extras` (positions) only."""
        n_keys = keys.shape[1]
        moved, groups, group_of_key = self._room(n_keys), self._room(n_keys), np.empty(n_keys, dtype=np.int64)
        generalize(tuple(keys), 0, n_keys, self._move(source, levels, extras), tuple(moved))
        n_groups = assign_groups(tuple(moved), tuple(groups), group_of_key)
        return group_of_key, groups[:, :n_groups].copy()

    def is_single(self, attribute: int, level: int) -> bool:
        """Whether an attribute has one value only at a level, and so tells no groups apart."""
        return len(self.hierarchies[attribute].labels[level]) == 1

    def _count_cells(self, source: FrequencySet, levels: Levels, shape: Sequence[int]) -> FrequencySet:
        """Rolled up with one counter for each combination of ids; those that occur become keys."""
        positions = [position for position, size in enumerate(shape) if size > 1]
        sizes = [shape[position] for position in positions]
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        tables = [self._table(position, source.levels, levels) for position in positions]
        places = [table * stride for table, stride in zip(tables, strides, strict=True)]
        totals = np.zeros(math.prod(sizes), dtype=np.int64)
        sum_dense(tuple(source.keys), source.counts, self._fields(positions, tables), _joined(places), totals)
        found = np.flatnonzero(totals)
        keys = np.zeros((self.layout.n_words, len(found)), dtype=np.uint64)
        if positions:
            for position, ids in zip(positions, np.unravel_index(found, sizes), strict=True):
                place = self.layout.fields[position]
                keys[place.word] |= ids.astype(np.uint64) << np.uint64(place.shift)
        return FrequencySet(levels, keys, totals[found])

    def _n_ids(self, levels: Levels) -> list[int]:
        """For each column how many ids it can have; 1 where it is cleared."""
        quasi = [
            1 if level == DROPPED else len(bound.labels[level])
            for level, bound in zip(levels, self.hierarchies, strict=True)
        ]
        return [*quasi, *(1 << self.layout.fields[position].bits for position in self.extra_positions)]

    def _move(self, source: Levels, levels: Levels, extras: Sequence[int]) -> Move:
        """What the kernels are told: what to keep, and tables for the fields that change."""
        kept: list[int] = list(extras)
        changed: list[int] = []
        for position, (old, new) in enumerate(zip(source, levels, strict=True)):
            if new == DROPPED or self.is_single(position, new):
                continue  # left out, or a single value, whose id is 0: the field is cleared
            (kept if new == old else changed).append(position)
        tables = [self._table(position, source, levels) for position in changed]
        shifted = [table << self.layout.fields[position].shift for position, table in zip(changed, tables, strict=True)]
        return Move(self.layout.bits_of(kept), self._fields(changed, tables), _joined(shifted).view(np.uint64))

    def _fields(self, positions: Sequence[int], tables: Sequence[NDArray[np.int64]]) -> Fields:
        fields = [self.layout.fields[position] for position in positions]
        return Fields(
            np.array([one.word for one in fields], dtype=np.int64),
            np.array([one.shift for one in fields], dtype=np.uint64),
            np.array([one.mask for one in fields], dtype=np.uint64),
            np.cumsum([0, *map(len, tables)], dtype=np.int64)[:-1],
        )

    def _table(self, position: int, source: Levels, levels: Levels) -> NDArray[np.int64]:
        """Ids of a column at `levels` by its ids at the source's; a column that is no quasi-identifier stays."""
        if position >= self.n_quasi:
            return np.arange(1 << self.layout.fields[position].bits)
        old, new = source[position], levels[position]
        known = self._tables.get((position, old, new))
        if known is None:
            ancestors = self.hierarchies[position].ancestors
            known = np.zeros(len(self.hierarchies[position].labels[old]), dtype=np.int64)
            known[ancestors[old]] = ancestors[new]
            self._tables[position, old, new] = known
        return known

    def _room(self, n_keys: int) -> PackedKeys:
        return np.empty((self.layout.n_words, n_keys), dtype=np.uint64)


def _joined(tables: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(tables) if tables else np.empty(0, dtype=np.int64)


def count_chunks(
    generalizer: Generalizer, chunks: Iterable[Sequence[NDArray[np.integer]]], levels: Levels
) -> FrequencySet:
    """Count a table that comes in chunks of aligned columns of leaf codes, at `levels`.

    Chunks are merged when what waits is as large as what is merged already, so each group is handled O(log) times and
    memory stays near the size of the result.
    """
    exact = (0,) * generalizer.n_quasi
    merged: FrequencySet | None = None
    waiting: list[FrequencySet] = []
    for columns in chunks:
        keys = generalizer.layout.pack(columns)
        whole = FrequencySet(exact, keys, np.ones(keys.shape[1], dtype=np.int64))
        waiting.append(generalizer.roll_up(whole, levels))
        if merged is None or sum(map(len, waiting)) >= len(merged):
            merged = _merge(generalizer, [*([merged] if merged else []), *waiting])
            waiting = []
    return _merge(generalizer, [*([merged] if merged else []), *waiting]) if waiting or merged is None else merged


def _merge(generalizer: Generalizer, sets: list[FrequencySet]) -> FrequencySet:
    if len(sets) == 1:
        return sets[0]
    levels = sets[0].levels if sets else (0,) * generalizer.n_quasi
    keys = [one.keys for one in sets] or [np.empty((generalizer.layout.n_words, 0), dtype=np.uint64)]
    counts = [one.counts for one in sets] or [np.empty(0, dtype=np.int64)]
    return generalizer.roll_up(FrequencySet(levels, np.concatenate(keys, axis=1), np.concatenate(counts)), levels)
