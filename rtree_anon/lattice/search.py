"""What all lattice algorithms share: the table as counts, the condition, the corners of the lattice, and the
bookkeeping.

A node of the lattice is a tuple of levels, one per quasi-identifier. `Search` turns a node into a frequency set (from
the counted table, a *scan*, or from the set of a lower node, a *rollup*) and a frequency set into an answer: how many
rows would have to be suppressed. It counts what it does, because that is what the papers compare.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.hierarchy import BoundHierarchy
from rtree_anon.io.leaves import LeafTable
from rtree_anon.lattice.conditions import Condition
from rtree_anon.lattice.frequency import (
    DROPPED,
    FrequencySet,
    Generalizer,
    Levels,
    count_chunks,
)
from rtree_anon.lattice.graph import Family
from rtree_anon.lattice.groups import Groups
from rtree_anon.lattice.packing import Layout
from rtree_anon.lattice.samples import Samples

MAX_NODES = 1 << 26  # the answer is kept as one byte per node
MANY_KEYS = 1 << 17  # sets with more keys than these are sampled before others are made of them

Node = tuple[int, ...]  # of one family: levels relative to the lowest, one per attribute of the family


@dataclass
class Effort:
    """What a search has done. Seconds are added up over threads."""

    nodes_checked: int = 0  # as the papers count: also what is settled without counting
    nodes_counted: int = 0  # those of them that were decided by counting groups
    scans: int = 0  # passes over the counted table
    rollups: int = 0  # frequency sets made from other frequency sets
    table_seconds: float = 0.0  # counting the table
    sampling_seconds: float = 0.0  # looking at samples of large sets
    counting_seconds: float = 0.0  # everything else that makes frequency sets
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **amounts: float) -> None:
        """Add to some of the figures, from any thread."""
        with self._lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)


@dataclass(eq=False)
class Search:
    """One table, one condition, one lattice from `low` to `high` (inclusive)."""

    table: LeafTable
    condition: Condition
    max_suppressed: int
    low: Levels
    high: Levels
    weights: tuple[float, ...]  # of the quasi-identifiers, in the certainty penalty
    budget_bytes: int
    effort: Effort = field(default_factory=Effort)

    def __post_init__(self) -> None:
        n_nodes = int(np.prod([float(size) for size in self.shape]))
        if n_nodes > MAX_NODES:
            raise UsageError(
                f"the lattice has {n_nodes:,} generalizations, more than the {MAX_NODES:,} that can be searched; "
                "use fewer quasi-identifiers, hierarchies with fewer levels, or limit the levels"
            )

    @property
    def hierarchies(self) -> tuple[BoundHierarchy, ...]:
        return self.table.hierarchies

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of levels of each attribute: the shape of an array with one cell per node."""
        return tuple(hi - lo + 1 for lo, hi in zip(self.low, self.high, strict=True))

    @cached_property
    def generalizer(self) -> Generalizer:
        """Layout and hierarchies of this table."""
        sizes = [*(len(bound.leaves) for bound in self.hierarchies), *self.table.extra_sizes]
        return Generalizer(Layout.for_sizes(sizes), self.hierarchies)

    @cached_property
    def base(self) -> FrequencySet:
        """The whole table, counted once at the bottom of the lattice."""
        start = time.perf_counter()
        counted = count_chunks(self.generalizer, self.table.chunks(), self.low)
        self.effort.add(table_seconds=time.perf_counter() - start)
        return counted

    @property
    def is_large(self) -> bool:
        """Whether the table is worth samples and threads."""
        return len(self.base) >= MANY_KEYS

    @cached_property
    def samples(self) -> Samples:
        """Parts of the table."""
        return Samples(self.generalizer, self.base)

    def scan(self, levels: Levels) -> FrequencySet:
        """The frequency set of a node from the counted table."""
        return self.roll_up(self.base, levels, is_scan=True)

    def roll_up(self, source: FrequencySet, levels: Levels, *, is_scan: bool = False) -> FrequencySet:
        """The frequency set of a node from that of a lower one."""
        start = time.perf_counter()
        rolled_up = source if levels == source.levels else self.generalizer.roll_up(source, levels)
        is_rollup = not is_scan and levels != source.levels
        self.effort.add(counting_seconds=time.perf_counter() - start, scans=is_scan, rollups=is_rollup)
        return rolled_up

    def check(self, frequencies: FrequencySet) -> bool:
        """Whether the node can be released with no more than the allowed suppression."""
        self.effort.add(nodes_checked=1, nodes_counted=1)
        return self.n_suppressed(frequencies) <= self.max_suppressed

    def fails_early(self, source: FrequencySet, levels: Levels) -> bool:
        """Whether the groups of rare values, each of them complete, break the condition already.

        If so the node is decided: it need not be made from a large source to be dismissed.
        """
        if len(source) < MANY_KEYS:
            return False
        start = time.perf_counter()
        sample = self.samples.rarest(levels)
        fails = sample is not None and self.n_suppressed(sample) > self.max_suppressed
        self.effort.add(sampling_seconds=time.perf_counter() - start)
        if fails:
            self.effort.add(nodes_checked=1, nodes_counted=1)
        return fails

    def n_suppressed(self, frequencies: FrequencySet) -> int:
        """Rows of groups that break the condition: the minimal required suppression (Samarati, Definition 4.2)."""
        if self.condition.only_k:
            counts = frequencies.counts
            return int(counts[counts < self.condition.least_rows].sum())
        groups = self.groups(frequencies)
        return int(groups.sizes[~self.condition.holds(groups)].sum())

    def groups(self, frequencies: FrequencySet) -> Groups:
        """The groups of a frequency set, with the statistics that models look at."""
        return Groups(self.generalizer, frequencies, self.table.extra_names, self.shares)

    def holds_by_key(self, frequencies: FrequencySet, group_keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """For the groups of a frequency set, given by their keys in any order, whether they may be released."""
        groups = self.groups(frequencies)
        good = np.empty(group_keys.shape[1], dtype=bool)
        good[np.lexsort(group_keys)] = self.condition.holds(groups)[np.lexsort(groups.keys)]
        return good

    def columns(self) -> list[NDArray[np.integer]]:
        """The whole table in memory: leaf codes of the quasi-identifiers, then the model's columns."""
        chunks = list(self.table.chunks())
        if not chunks:
            raise PrivacyError("the table has no rows, so there is nothing to release")
        return [np.concatenate(parts) for parts in zip(*chunks, strict=True)]

    @cached_property
    def shares(self) -> dict[str, NDArray[np.float64]]:
        """The share of each value of the model's columns in the whole table, by code."""
        shares = {}
        for i, (name, size) in enumerate(zip(self.table.extra_names, self.table.extra_sizes, strict=True)):
            codes = self.generalizer.layout.column(self.base.keys, self.generalizer.n_quasi + i)
            shares[name] = np.bincount(codes, weights=self.base.counts, minlength=size) / max(self.table.n_rows, 1)
        return shares


def levels_of(search: Search, family: Family, node: Node) -> Levels:
    """The levels of a family's node: attributes outside the family are dropped."""
    levels = [DROPPED] * len(search.low)
    for attribute, step in zip(family, node, strict=True):
        levels[attribute] = search.low[attribute] + step
    return tuple(levels)
