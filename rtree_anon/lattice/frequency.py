"""Frequency sets: how many rows stand behind each combination of generalized values (Incognito, Section 1.1).

The table is packed and counted once, in chunks (`count_chunks`); everything else is rolled up from counted sets along
the hierarchies (the rollup property, Section 3) or down to fewer attributes (the cube of Section 3.3.2). A set is named
by its levels: one per quasi-identifier, `DROPPED` where the attribute is left out. Where a privacy model looks at
further columns, every set keeps them as fields of its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.hierarchy import BoundHierarchy
from rtree_anon.kernels.counting import assign_groups, choose_partition, generalize, sum_groups, sum_partitioned
from rtree_anon.lattice.packing import Layout

DROPPED = -1
MANY_KEYS = 1 << 17  # more keys than these are sampled before they are counted, and partitioned where they have
MANY_GROUPS = 1 << 16  # more groups than these: their hash table leaves the cache
KEYS_PER_PARTITION = 1 << 14
SAMPLED_SHARE = 64  # a power of two

Levels = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FrequencySet:
    """Distinct packed keys at `levels`, with their counts."""

    levels: Levels
    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.keys.nbytes + self.counts.nbytes


class _Plan(NamedTuple):
    """What the counting kernels are told about fields, see there."""

    keep: NDArray[np.uint64]
    words: NDArray[np.int64]
    shifts: NDArray[np.uint64]
    masks: NDArray[np.uint64]
    starts: NDArray[np.int64]
    tables: NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Generalizer:
    """Moves keys from one vector of levels to a higher one. Knows the layout and the hierarchies, no rows."""

    layout: Layout
    hierarchies: tuple[BoundHierarchy, ...]

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
        return _summed(levels, self._move(source, levels), source.counts)

    def sample(self, source: FrequencySet, levels: Levels) -> FrequencySet:
        """About one group in `SAMPLED_SHARE` of what `roll_up` gives, each of them complete; much cheaper."""
        keys = self._move(source, levels)
        rows = choose_partition(keys, self.layout.bits_of(range(self.n_quasi)), SAMPLED_SHARE.bit_length() - 1)
        return _summed(levels, keys[rows], source.counts[rows])

    def assign(
        self, keys: NDArray[np.uint64], source: Levels, levels: Levels, extras: Sequence[int] = ()
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """The group of each key at `levels`, and the groups' keys, which keep the `extras` (positions) only."""
        return assign_groups(generalize(keys, *self._plan(source, levels, extras)))

    def _move(self, source: FrequencySet, levels: Levels) -> NDArray[np.uint64]:
        """The keys of a frequency set at other levels."""
        return generalize(source.keys, *self._plan(source.levels, levels, self.extra_positions))

    def _plan(self, source: Levels, levels: Levels, extras: Sequence[int]) -> _Plan:
        """The kernel's arguments: what to keep, and tables for the fields that change."""
        kept = list(extras)
        changed: list[tuple[int, NDArray[np.int32]]] = []
        for position, (old, new) in enumerate(zip(source, levels, strict=True)):
            if new == DROPPED or new == self.hierarchies[position].height:
                continue  # left out, or the single top value, whose id is 0: the field is cleared
            if new == old:
                kept.append(position)
            else:
                changed.append((position, self._table(position, old, new)))
        fields = [self.layout.fields[position] for position, _ in changed]
        sizes = [len(table) for _, table in changed]
        return _Plan(
            self.layout.bits_of(kept),
            np.array([field.word for field in fields], dtype=np.int64),
            np.array([field.shift for field in fields], dtype=np.uint64),
            np.array([field.mask for field in fields], dtype=np.uint64),
            np.cumsum([0, *sizes], dtype=np.int64)[:-1],
            np.concatenate([table for _, table in changed]).astype(np.uint64) if changed else np.empty(0, np.uint64),
        )

    def _table(self, position: int, old: int, new: int) -> NDArray[np.int32]:
        """Ancestor ids on level `new` by id on level `old`."""
        ancestors = self.hierarchies[position].ancestors
        table = np.zeros(len(self.hierarchies[position].labels[old]), dtype=np.int32)
        table[ancestors[old]] = ancestors[new]
        return table


def _summed(levels: Levels, keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> FrequencySet:
    """Equal keys together, with or without partitions, whichever is faster."""
    are_many = len(keys) >= MANY_KEYS
    group_keys, group_counts, done = sum_groups(keys, counts, MANY_GROUPS if are_many else len(keys))
    if not done:
        n_bits = (len(keys) // KEYS_PER_PARTITION).bit_length()
        group_keys, group_counts = sum_partitioned(keys, counts, n_bits)
    return FrequencySet(levels, group_keys, group_counts)


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
        whole = FrequencySet(exact, keys, np.ones(len(keys), dtype=np.int64))
        waiting.append(generalizer.roll_up(whole, levels))
        if merged is None or sum(map(len, waiting)) >= len(merged):
            merged = _merge(generalizer, [*([merged] if merged else []), *waiting])
            waiting = []
    return _merge(generalizer, [*([merged] if merged else []), *waiting]) if waiting or merged is None else merged


def _merge(generalizer: Generalizer, sets: list[FrequencySet]) -> FrequencySet:
    if len(sets) == 1:
        return sets[0]
    levels = sets[0].levels if sets else (0,) * generalizer.n_quasi
    keys = [one.keys for one in sets] or [np.empty((0, generalizer.layout.n_words), dtype=np.uint64)]
    counts = [one.counts for one in sets] or [np.empty(0, dtype=np.int64)]
    return generalizer.roll_up(FrequencySet(levels, np.concatenate(keys), np.concatenate(counts)), levels)
