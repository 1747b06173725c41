"""Incognito: all generalizations that satisfy the condition (LeFevre, DeWitt and Ramakrishnan, SIGMOD 2005, Figure 8).

Families of attributes are searched by size: what fails for a subset fails for every superset (the subset property), so
most of the lattice is never counted. The three variants differ only in where a family's first frequency sets come from
(`origins`).

Beyond the paper: a candidate with an attribute at a level of a single value has the same groups as the family without
that attribute, which satisfies the condition, or it would not be a candidate. So it is settled without counting (it
still counts as checked, so that numbers compare with the paper's). And families of one size do not depend on each
other: those of large tables are searched in parallel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np

from rtree_anon.errors import UsageError
from rtree_anon.lattice.graph import Family, Mask, join_and_prune
from rtree_anon.lattice.origins import Cube, FromCube, FromSuperRoot, FromTable, Origin
from rtree_anon.lattice.search import Search
from rtree_anon.lattice.walk import Statuses, satisfying, walk

VARIANTS = ("basic", "superroots", "cube")


def search_families(search: Search, variant: str = "basic") -> Statuses:
    """The status of every node of the lattice."""
    if variant not in VARIANTS:
        raise UsageError(f"variant must be one of {', '.join(VARIANTS)}, not {variant!r}")
    n_threads = (os.cpu_count() or 1) if search.is_large else 1
    budget_bytes = search.budget_bytes // n_threads
    cube: Cube | None = None
    if variant == "cube":
        cube = Cube(search, search.budget_bytes // 2)
        budget_bytes //= 2
    attributes = range(len(search.low))
    survivors: dict[Family, Mask] = {}
    statuses = np.empty(0, dtype=np.uint8)
    for size in range(1, len(attributes) + 1):
        known = survivors

        def decide(family: Family, known: dict[Family, Mask] = known) -> Statuses:
            candidates = join_and_prune(family, known) if known else np.ones(search.shape[family[0]], dtype=bool)
            settled = candidates & _has_single_value(search, family) if known else np.zeros_like(candidates)
            origin = _origin(search, family, candidates & ~settled, variant, cube)
            return walk(search, family, candidates, origin, settled=settled, budget_bytes=budget_bytes)

        families = list(combinations(attributes, size))
        decided = _each(decide, families, n_threads)
        survivors = {family: satisfying(found) for family, found in zip(families, decided, strict=True)}
        statuses = decided[-1]
    return statuses


def _each(decide: Callable[[Family], Statuses], families: Iterable[Family], n_threads: int) -> list[Statuses]:
    if n_threads == 1:
        return [decide(family) for family in families]
    pool = ThreadPoolExecutor(n_threads)
    try:
        return list(pool.map(decide, families))
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C, families that wait are not begun


def _has_single_value(search: Search, family: Family) -> Mask:
    """Nodes of a family where some attribute has one value only."""
    mask = np.zeros([search.shape[attribute] for attribute in family], dtype=bool)
    for axis, attribute in enumerate(family):
        for step in range(search.shape[attribute]):
            if search.generalizer.is_single(attribute, search.low[attribute] + step):
                np.moveaxis(mask, axis, 0)[step] = True
    return mask


def _origin(search: Search, family: Family, candidates: Mask, variant: str, cube: Cube | None) -> Origin:
    if cube is not None:
        return FromCube(cube, family)
    return FromSuperRoot(search, family, candidates) if variant == "superroots" else FromTable(search)
