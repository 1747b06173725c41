"""What all lattice algorithms share: the table as counts, the condition, the corners of the lattice, and the
bookkeeping.

A node of the lattice is a tuple of levels, one per quasi-identifier. `Search` turns a node into a frequency set (from
the counted table, a *scan*, or from the set of a lower node, a *rollup*) and a frequency set into an answer: how many
rows would have to be suppressed. It counts what it does, because that is what the papers compare.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.hierarchy import BoundHierarchy
from rtree_anon.io.leaves import LeafTable
from rtree_anon.lattice.conditions import Condition
from rtree_anon.lattice.frequency import MANY_KEYS, FrequencySet, Generalizer, Levels, count_chunks
from rtree_anon.lattice.groups import Groups
from rtree_anon.lattice.packing import Layout

MAX_NODES = 1 << 26  # the answer is kept as one byte per node


@dataclass
class Effort:
    """What a search has done."""

    nodes_checked: int = 0
    scans: int = 0  # passes over the counted table
    rollups: int = 0  # frequency sets made from other frequency sets


@dataclass(eq=False)
class Search:
    """One table, one condition, one lattice from `low` to `high` (inclusive)."""

    table: LeafTable
    condition: Condition
    max_suppressed: int
    low: Levels
    high: Levels
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
        return count_chunks(self.generalizer, self.table.chunks(), self.low)

    def scan(self, levels: Levels) -> FrequencySet:
        """The frequency set of a node from the counted table."""
        return self.roll_up(self.base, levels, is_scan=True)

    def roll_up(self, source: FrequencySet, levels: Levels, *, is_scan: bool = False) -> FrequencySet:
        """The frequency set of a node from that of a lower one."""
        self.note(source, levels, is_scan=is_scan)
        return source if levels == source.levels else self.generalizer.roll_up(source, levels)

    def note(self, source: FrequencySet, levels: Levels, *, is_scan: bool) -> None:
        """Count one pass over a frequency set."""
        if is_scan:
            self.effort.scans += 1
        elif levels != source.levels:
            self.effort.rollups += 1

    def check(self, frequencies: FrequencySet) -> bool:
        """Whether the node can be released with no more than the allowed suppression."""
        self.effort.nodes_checked += 1
        return self.n_suppressed(frequencies) <= self.max_suppressed

    def fails_early(self, source: FrequencySet, levels: Levels) -> bool:
        """Whether a sample of the node's groups, each of them complete, breaks the condition already.

        If so the node is decided: large sets near the bottom of the lattice need not be made to be dismissed.
        """
        if len(source) < MANY_KEYS:
            return False
        if self.n_suppressed(self.generalizer.sample(source, levels)) <= self.max_suppressed:
            return False
        self.effort.nodes_checked += 1
        return True

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
        good = np.empty(len(group_keys), dtype=bool)
        good[np.lexsort(group_keys.T)] = self.condition.holds(groups)[np.lexsort(groups.keys.T)]
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
