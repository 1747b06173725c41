"""Candidate generalizations of a family of attributes: the graph generation of Incognito (Section 3.1.2).

A *family* is a subset of the attributes; its generalizations are the cells of a dense boolean array, one axis per
attribute of the family. Written so, the phases of the paper are array operations:

* join: two survivors of size i-1 that agree on their first i-2 attributes give a candidate of size i;
* prune: a candidate needs all its subsets of size i-1 among the survivors;
* edges: from each candidate to the candidates one level higher on one attribute. Survivors are closed under
  generalization, so every implied generalization passes through direct ones, and these edges are all that there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Family = tuple[int, ...]
Mask = NDArray[np.bool_]


def join_and_prune(family: Family, survivors: Mapping[Family, Mask]) -> Mask:
    """Candidates of a family of two or more attributes, from the survivors of its subsets with one attribute less."""
    first = _spread(family, family[:-1], survivors)
    second = _spread(family, (*family[:-2], family[-1]), survivors)
    candidates = first & second
    for subset in combinations(family, len(family) - 1):
        candidates &= _spread(family, subset, survivors)
    return candidates


def nodes_by_height(candidates: Mask) -> NDArray[np.int64]:
    """The candidates as rows of levels (relative to the lowest), sorted by height, then by levels."""
    nodes = np.argwhere(candidates)
    return nodes[np.argsort(nodes.sum(axis=1), kind="stable")]


def roots(candidates: Mask) -> Mask:
    """Candidates that are not the direct generalization of another candidate."""
    has_lower = np.zeros_like(candidates)
    for axis in range(candidates.ndim):
        upper, lower = _shifted(candidates.ndim, axis)
        has_lower[upper] |= candidates[lower]
    return candidates & ~has_lower


def edges(candidates: Mask) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All direct generalizations between candidates, from the lower node to the higher one."""
    found = []
    for axis in range(candidates.ndim):
        upper, lower = _shifted(candidates.ndim, axis)
        for start in np.argwhere(candidates[upper] & candidates[lower]):
            end = start.copy()
            end[axis] += 1
            found.append((tuple(start.tolist()), tuple(end.tolist())))
    return sorted(found)


def minimal_nodes(satisfying: Mask) -> Mask:
    """Nodes of a set with no other node of the set below them."""
    at_or_below = satisfying.copy()
    for axis in range(satisfying.ndim):
        np.logical_or.accumulate(at_or_below, axis=axis, out=at_or_below)
    strictly_below = np.zeros_like(satisfying)
    for axis in range(satisfying.ndim):
        upper, lower = _shifted(satisfying.ndim, axis)
        strictly_below[upper] |= at_or_below[lower]
    return satisfying & ~strictly_below


def upward(node: tuple[int, ...]) -> tuple[slice, ...]:
    """The index of a node and all its generalizations."""
    return tuple(slice(level, None) for level in node)


def downward(node: tuple[int, ...]) -> tuple[slice, ...]:
    """The index of a node and all that it generalizes."""
    return tuple(slice(None, level + 1) for level in node)


def _spread(family: Family, subset: Family, survivors: Mapping[Family, Mask]) -> Mask:
    """The survivors of a subset of the family, with an axis of length 1 for each attribute that it lacks."""
    mask = survivors[subset]
    return mask.reshape([mask.shape[subset.index(attribute)] if attribute in subset else 1 for attribute in family])


def _shifted(n_axes: int, axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Indices of (all nodes but the lowest, all nodes but the highest) along one axis."""
    upper = tuple(slice(1, None) if i == axis else slice(None) for i in range(n_axes))
    lower = tuple(slice(None, -1) if i == axis else slice(None) for i in range(n_axes))
    return upper, lower
