"""Where the first frequency sets of a family of attributes come from: the variants of Incognito.

* `FromTable` (basic, and bottom-up): from the counted table, every time.
* `FromSuperRoot` (LeFevre, DeWitt and Ramakrishnan, Section 3.3.1): from one set at the greatest lower bound of the
  family's roots, counted from the table when it is first needed. A large table is looked at first: where that bound is
  so low that its set is hardly smaller than the table, going by it would be a detour.
* `FromCube` (Section 3.3.2): from the family's set at the lowest levels, made from those of larger families; of a large
  table, only those that are much smaller.

An origin belongs to the walk through one family, hence to one thread; a cube is shared and does not change.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np

from rtree_anon.lattice.frequency import FrequencySet, Levels
from rtree_anon.lattice.graph import Family, Mask, roots
from rtree_anon.lattice.search import Search, levels_of


class Source(NamedTuple):
    """A frequency set that others are made from."""

    frequencies: FrequencySet
    is_table: bool  # a pass over it is a scan, not a rollup


class Origin(Protocol):
    """The source for nodes of a family none of whose lower neighbours has left its set behind."""

    def source(self) -> Source:
        """The source, made now if need be."""


class FromTable:
    """The counted table itself."""

    def __init__(self, search: Search) -> None:
        self._table = Source(search.base, is_table=True)

    def source(self) -> Source:
        """The table."""
        return self._table


class FromSuperRoot:
    """One set below all roots of `candidates`, where it is worth making."""

    def __init__(self, search: Search, family: Family, candidates: Mask) -> None:
        self._search, self._family, self._candidates = search, family, candidates
        self._source: Source | None = None

    def source(self) -> Source:
        """The super-root's set, or the table."""
        if self._source is None:
            nodes = np.argwhere(roots(self._candidates))
            lowest = levels_of(self._search, self._family, tuple(nodes.min(axis=0).tolist()))
            if not self._search.is_large or self._is_worth_it(lowest, len(nodes)):
                self._source = Source(self._search.scan(lowest), is_table=False)
            else:
                self._source = Source(self._search.base, is_table=True)
        return self._source

    def _is_worth_it(self, lowest: Levels, n_roots: int) -> bool:
        """Whether one pass over the table and one over the set for each root is less than one over the table each."""
        n_groups = self._search.samples.n_groups(lowest) or 0
        n_keys = len(self._search.base)
        return n_keys + n_roots * n_groups < n_roots * n_keys


class Cube:
    """Frequency sets of families at the lowest levels, each made from the smallest larger one that is there.

    Built from the whole quasi-identifier downward, as a data cube is. Sets that do not fit the memory are left out, and
    so are those of a large table that are hardly smaller than what they would be made from.
    """

    def __init__(self, search: Search, budget_bytes: int) -> None:
        self._search = search
        self._everything = tuple(range(len(search.low)))
        self._sets: dict[Family, FrequencySet] = {self._everything: search.scan(search.low)}
        for size in range(len(self._everything) - 1, 0, -1):
            for family in combinations(self._everything, size):
                smallest = self._smallest(family)
                lowest = levels_of(search, family, (0,) * size)
                if search.is_large and 2 * (search.samples.n_groups(lowest) or 0) > len(smallest):
                    continue
                exact = search.roll_up(smallest, lowest)
                if exact.nbytes <= budget_bytes:
                    self._sets[family] = exact
                    budget_bytes -= exact.nbytes

    def source(self, family: Family) -> Source:
        """The family's own set, or the smallest one of a larger family."""
        smallest = self._smallest(family)
        return Source(smallest, is_table=smallest is self._search.base and family != self._everything)

    def _smallest(self, family: Family) -> FrequencySet:
        larger = [other for other in self._sets if set(family) <= set(other)]
        return self._sets[min(larger, key=lambda other: (len(self._sets[other]), len(other)))]


class FromCube:
    """The cube's set for one family."""

    def __init__(self, cube: Cube, family: Family) -> None:
        self._source = cube.source(family)

    def source(self) -> Source:
        """The family's own set, or one of a larger family."""
        return self._source
