"""Incognito: all generalizations that satisfy the condition (LeFevre, DeWitt and Ramakrishnan, SIGMOD 2005, Figure 8).

Families of attributes are searched by size: what fails for a subset fails for every superset (the subset property), so
most of the lattice is never counted. The three variants differ only in where a family's first frequency sets come from:

* basic: every root of the candidate graph is counted from the table;
* superroots (Section 3.3.1): one scan per family, at the greatest lower bound of its roots, from which they are
  rolled up;
* cube (Section 3.3.2): one scan in all; the exact frequency sets of all families come from those of larger families.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from rtree_anon.errors import UsageError
from rtree_anon.lattice.frequency import FrequencySet
from rtree_anon.lattice.graph import Family, Mask, join_and_prune, roots
from rtree_anon.lattice.search import Search
from rtree_anon.lattice.walk import Origin, Statuses, levels_of, satisfying, walk

VARIANTS = ("basic", "superroots", "cube")


def search_families(search: Search, variant: str = "basic") -> Statuses:
    """The status of every node of the lattice."""
    if variant not in VARIANTS:
        raise UsageError(f"variant must be one of {', '.join(VARIANTS)}, not {variant!r}")
    attributes = range(len(search.low))
    cube = _Cube(search) if variant == "cube" else None
    survivors: dict[Family, Mask] = {}
    statuses = np.empty(0, dtype=np.uint8)
    for size in range(1, len(attributes) + 1):
        found: dict[Family, Mask] = {}
        for family in combinations(attributes, size):
            candidates = (
                np.ones(search.shape[family[0]], dtype=bool) if size == 1 else join_and_prune(family, survivors)
            )
            origin = _origin(search, family, candidates, variant, cube)
            statuses = walk(search, family, candidates, origin)
            found[family] = satisfying(statuses)
        survivors = found
    return statuses


def _origin(search: Search, family: Family, candidates: Mask, variant: str, cube: _Cube | None) -> Origin | None:
    if cube is not None:
        return lambda: cube.exact(family)
    return _super_root(search, family, candidates) if variant == "superroots" else None


def _super_root(search: Search, family: Family, candidates: Mask) -> Origin:
    """One frequency set below all roots of the family, counted when first needed."""
    counted: list[FrequencySet] = []

    def origin() -> FrequencySet:
        if not counted:
            lowest = tuple(np.argwhere(roots(candidates)).min(axis=0).tolist())
            counted.append(search.scan(levels_of(search, family, lowest)))
        return counted[0]

    return origin


class _Cube:
    """Frequency sets of all families at the lowest levels, made from larger families; the largest are made again.

    Built from the whole quasi-identifier downward, as a data cube is; sets that do not fit the memory budget are not
    kept, and are made again from the smallest larger family that is there when their turn comes.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self._latest: tuple[Family, FrequencySet] | None = None  # one that did not fit, while it is in use
        everything = tuple(range(len(search.low)))
        self._kept: dict[Family, FrequencySet] = {everything: search.scan(search.low)}
        room = search.budget_bytes
        for size in range(len(everything) - 1, 0, -1):
            for family in combinations(everything, size):
                exact = self.exact(family)
                if exact.nbytes <= room:
                    self._kept[family] = exact
                    room -= exact.nbytes

    def exact(self, family: Family) -> FrequencySet:
        """The frequency set of a family at the lowest levels."""
        if family in self._kept:
            return self._kept[family]
        if self._latest is None or self._latest[0] != family:
            larger = (one for other, one in self._kept.items() if set(family) < set(other))
            lowest = levels_of(self._search, family, (0,) * len(family))
            self._latest = family, self._search.roll_up(min(larger, key=len), lowest)
        return self._latest[1]
