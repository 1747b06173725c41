"""Full-domain generalization: hierarchies, the lattice of their levels, and the algorithms that search it.

    from rtree_anon import Hierarchy, lattice

    result = lattice.incognito("people.csv", {"age": Hierarchy.intervals(widths=[5, 10, 20]), "sex": None}, k=5)
    result.minimal                       # the minimal generalizations: tuples of levels
    result.best("relative")              # the preferred one as a Release

Layers, from the bottom: `packing` (rows as keys), `frequency` (counting and rolling up), `groups` and `conditions`
(what a privacy model asks), `samples` (parts of large tables), `search` (one table, one condition), `walk`, `origins`
and `graph` (breadth-first search), `families` (Incognito), `heights` and `distance` (Samarati), `greedy` (Datafly),
`local` and `orphans` (local recoding), `result` and `policies`, `algorithms` (the functions below).
"""

from __future__ import annotations

from rtree_anon.lattice.algorithms import bottom_up, datafly, exhaustive, incognito, local_recoding, samarati
from rtree_anon.lattice.result import Result

__all__ = [
    "Result",
    "bottom_up",
    "datafly",
    "exhaustive",
    "incognito",
    "local_recoding",
    "samarati",
]
