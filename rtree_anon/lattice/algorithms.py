"""The public functions of the lattice: one per algorithm, all with the same arguments and the same kind of result.

table           a path, frame or Arrow table (whatever `rtree_anon` reads)
hierarchies     {quasi-identifier: Hierarchy, or None for an automatic one}; their order is that of the levels
k, model        what every group must satisfy; `k` counts people where `identity` names a column
max_suppressed  how many rows may be left out
sensitive, keep columns that the release carries; those that the model looks at are carried anyway
identity        the column that tells whose row it is
limits          {attribute: highest level} or {attribute: (lowest level, highest level)}; {"sex": 0} keeps sex as it is
weights         {attribute: importance} in the certainty penalty, 1 where not given
memory_bytes    for frequency sets and coded rows that are kept while searching; what exceeds it is computed again, or
                kept in a temporary file
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from rtree_anon.errors import UsageError
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.io.leaves import read_leaves
from rtree_anon.io.sources import open_source
from rtree_anon.lattice.conditions import IDENTITY, condition_of
from rtree_anon.lattice.families import search_families
from rtree_anon.lattice.frequency import Levels
from rtree_anon.lattice.greedy import search_greedily
from rtree_anon.lattice.heights import search_heights
from rtree_anon.lattice.local import recode_locally
from rtree_anon.lattice.origins import FromTable
from rtree_anon.lattice.releasing import CarriedRoles, release_recoding
from rtree_anon.lattice.result import Result
from rtree_anon.lattice.search import Search
from rtree_anon.lattice.walk import Statuses, walk
from rtree_anon.models import Model
from rtree_anon.release.from_nodes import LatticeRelease
from rtree_anon.schema import Schema


class SearchOptions(TypedDict, total=False):
    """The arguments that every algorithm takes, see the top of this file."""

    sensitive: Sequence[str]
    keep: Sequence[str]
    identity: str | None
    limits: Mapping[str, int | tuple[int, int]] | None
    weights: Mapping[str, float] | None
    memory_bytes: int


DEFAULT_MEMORY_BYTES = 1 << 30

Hierarchies = Mapping[str, "Hierarchy | str | Path | None"]


def incognito(
    table: Any,
    hierarchies: Hierarchies,
    k: int | None = None,
    max_suppressed: int = 0,
    variant: str = "basic",
    model: Model | None = None,
    **options: Unpack[SearchOptions],
) -> Result:
    """All generalizations that satisfy k-anonymity or the model, by Incognito: basic, superroots or cube."""
    search, roles = prepare(table, hierarchies, k, max_suppressed, model, options)
    return _run(f"incognito-{variant}", search, roles, lambda: search_families(search, variant))


def samarati(
    table: Any,
    hierarchies: Hierarchies,
    k: int | None = None,
    max_suppressed: int = 0,
    matrix: bool = False,
    model: Model | None = None,
    first_only: bool = False,
    **options: Unpack[SearchOptions],
) -> Result:
    """All minimal generalizations by binary search; `first_only` stops at one of the lowest height, as the paper does.

    `matrix` decides by the distance vectors between rows instead of frequency sets: k-anonymity of small tables only.
    """
    search, roles = prepare(table, hierarchies, k, max_suppressed, model, options)
    name = "samarati-matrix" if matrix else "samarati"
    run = lambda: search_heights(search, matrix=matrix, first_only=first_only)  # noqa: E731
    return _run(name, search, roles, run, complete=not first_only)


def bottom_up(
    table: Any,
    hierarchies: Hierarchies,
    k: int | None = None,
    max_suppressed: int = 0,
    rollup: bool = True,
    model: Model | None = None,
    **options: Unpack[SearchOptions],
) -> Result:
    """All generalizations, by breadth-first search from the bottom of the lattice, with or without rollup."""
    search, roles = prepare(table, hierarchies, k, max_suppressed, model, options)
    name = "bottom-up" if rollup else "bottom-up-without-rollup"
    return _run(name, search, roles, lambda: _walk_everything(search, rollup=rollup, mark=True))


def exhaustive(
    table: Any,
    hierarchies: Hierarchies,
    k: int | None = None,
    max_suppressed: int = 0,
    model: Model | None = None,
    **options: Unpack[SearchOptions],
) -> Result:
    """All generalizations, by checking every one: for models that do not allow pruning when rows may be suppressed."""
    search, roles = prepare(table, hierarchies, k, max_suppressed, model, options, prunes=False)
    return _run("exhaustive", search, roles, lambda: _walk_everything(search, rollup=True, mark=False))


def datafly(
    table: Any,
    hierarchies: Hierarchies,
    k: int | None = None,
    max_suppressed: int = 0,
    model: Model | None = None,
    **options: Unpack[SearchOptions],
) -> Result:
    """One generalization, greedily: always generalize the attribute with the most distinct values. Not minimal."""
    search, roles = prepare(table, hierarchies, k, max_suppressed, model, options, prunes=False)
    return _run("datafly", search, roles, lambda: search_greedily(search), complete=False)


def local_recoding(
    table: Any,
    hierarchies: Hierarchies,
    model: Model | None = None,
    k: int | None = None,
    compact: bool = True,
    **options: Unpack[SearchOptions],
) -> LatticeRelease:
    """Identity-reserved bottom-up local recoding, as a release: only rows that need it are generalized.

    Orphans, which no generalization brings into a good group, borrow rows from other groups or are merged into them.
    `compact` gives each group the lowest nodes that cover its rows, instead of those that the algorithm arrived at.
    """
    search, roles = prepare(table, hierarchies, k, 0, model, options, prunes=False)
    return release_recoding(search, roles, recode_locally(search, compact=compact))


def prepare(
    table: Any,
    hierarchies: Hierarchies,
    k: int | None,
    max_suppressed: int,
    model: Model | None,
    options: SearchOptions,
    *,
    prunes: bool = True,
) -> tuple[Search, CarriedRoles]:
    """Read and check everything that a search needs; `prunes` refuses models that do not allow it."""
    if not hierarchies:
        raise UsageError("give a hierarchy (or None) for at least one quasi-identifier")
    if max_suppressed < 0:
        raise UsageError(f"max_suppressed is a number of rows, not {max_suppressed}")
    identity = options.get("identity")
    condition = condition_of(k, model, has_identity=identity is not None)
    if prunes and max_suppressed and not condition.closed_upward:
        raise UsageError(
            f"{condition.name} does not allow the lattice to be pruned when rows may be suppressed: a group that "
            "satisfies it can stop doing so when it is merged with rows that were suppressed before; set "
            "max_suppressed=0, or check every generalization (lattice.exhaustive, --algorithm exhaustive)"
        )
    extras = {column: identity if column == IDENTITY else column for column in condition.columns}
    if extras.get(IDENTITY, "") is None:
        raise UsageError(f"{condition.name} counts individuals: name the identity column")
    schema = Schema(list(hierarchies), weights=options.get("weights"))
    weights = tuple(schema.weight(name) for name in hierarchies)
    budget = options.get("memory_bytes", DEFAULT_MEMORY_BYTES)
    trees = {name: _hierarchy(given) for name, given in hierarchies.items()}
    source = open_source(table)
    sensitive = [*options.get("sensitive", ()), *(column for column in condition.columns if column != IDENTITY)]
    keep = tuple(column for column in options.get("keep", ()) if column not in sensitive)
    roles = CarriedRoles(tuple(dict.fromkeys(sensitive)), keep, identity)
    leaves = read_leaves(source, trees, extras, roles.names, budget_bytes=budget)  # type: ignore[arg-type]
    low, high = _corners(leaves.names, [bound.height for bound in leaves.hierarchies], options.get("limits") or {})
    return Search(leaves, condition, max_suppressed, low, high, weights, budget), roles


def _run(
    name: str, search: Search, roles: CarriedRoles, find: Callable[[], Statuses], *, complete: bool = True
) -> Result:
    start = time.perf_counter()
    statuses = find()
    seconds = time.perf_counter() - start
    return Result(name, search, roles, statuses, complete, search.effort, seconds)


def _walk_everything(search: Search, *, rollup: bool, mark: bool) -> Statuses:
    everything = np.ones(search.shape, dtype=bool)
    family = tuple(range(len(search.shape)))
    origin = FromTable(search)
    return walk(search, family, everything, origin, rollup=rollup, mark=mark, budget_bytes=search.budget_bytes)


def _hierarchy(given: Hierarchy | str | Path | None) -> Hierarchy | None:
    return Hierarchy.from_csv(given) if isinstance(given, str | Path) else given


def _corners(
    names: Sequence[str], heights: Sequence[int], limits: Mapping[str, int | tuple[int, int]]
) -> tuple[Levels, Levels]:
    """The lowest and the highest levels that the limits allow."""
    unknown = [name for name in limits if name not in names]
    if unknown:
        raise UsageError(f"limits name {unknown[0]!r}, which is not a quasi-identifier ({', '.join(names)})")
    low, high = [], []
    for name, height in zip(names, heights, strict=True):
        limit = limits.get(name, height)
        lowest, highest = (0, limit) if isinstance(limit, int) else limit
        if not 0 <= lowest <= highest <= height:
            raise UsageError(f"the limits of {name!r}, {limit!r}, are not levels between 0 and {height}")
        low.append(lowest)
        high.append(highest)
    return tuple(low), tuple(high)
