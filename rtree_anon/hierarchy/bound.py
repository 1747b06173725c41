"""A hierarchy bound to values: labels and ancestor ids as plain arrays.

Invariants (checked by `BoundHierarchy.from_levels`, whatever the hierarchy came from):

* level 0 is the exact value, one leaf each; the last level has a single value;
* it is a tree: two leaves that share a label at one level share all labels above it (condition 1 of Samarati, Section
  3.1);
* leaves stand in depth-first order: the leaves below any node are consecutive, so that the lowest common ancestor of
  a set of leaves is that of its smallest and its largest code.

      level 2           537**                ancestors[2] = 0 0 0
                       /     \\
      level 1      5370*      5371*          ancestors[1] = 0 0 1
                   /   \\        \\
      level 0  53703  53706    53715         ancestors[0] = 0 1 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import InputError, SchemaError

SUPPRESSED = "*"  # the label of "any value", where a hierarchy does not bring a single top value of its own


@dataclass(frozen=True, eq=False)
class BoundHierarchy:
    """Leaves in depth-first order, and for each level the ancestor of each leaf.

    `ancestors` has the shape (levels, n_leaves); `ancestors[level, leaf]` is an id into `labels[level]`. Ids of a
    level are given in depth-first order too, so each row of `ancestors` never decreases.
    """

    leaves: tuple[str, ...]
    ancestors: NDArray[np.int32]
    labels: list[list[str]]

    @property
    def height(self) -> int:
        """The highest level: the number of generalization steps from the exact value to the single top value."""
        return int(self.ancestors.shape[0]) - 1

    @cached_property
    def leaves_below(self) -> list[NDArray[np.int64]]:
        """For each level, how many leaves stand below each of its nodes."""
        return [np.bincount(row, minlength=len(names)) for row, names in zip(self.ancestors, self.labels, strict=True)]

    @cached_property
    def penalties(self) -> list[NDArray[np.float64]]:
        """For each level, the certainty penalty of each node: (leaves below - 1) / (all leaves - 1)."""
        span = max(len(self.leaves) - 1, 1)
        return [(below - 1) / span for below in self.leaves_below]

    @cached_property
    def code_of(self) -> dict[str, int]:
        """The code (position among the leaves) of each value's text."""
        return {leaf: code for code, leaf in enumerate(self.leaves)}

    def encode(self, values: Sequence[str]) -> NDArray[np.int32]:
        """Codes of `values`; a value that the hierarchy does not have is an `InputError` that names it."""
        known = self.code_of
        codes = np.fromiter((known.get(value, -1) for value in values), dtype=np.int32, count=len(values))
        if len(codes) and int(codes.min()) < 0:
            raise unseen_value(values[int(np.argmin(codes))])
        return codes

    @classmethod
    def from_levels(cls, levels: Sequence[Sequence[str]], *, must_coarsen: bool) -> BoundHierarchy:
        """Build from one list of labels per level, all aligned with the leaves of level 0 (distinct).

        Leaves keep their order as far as depth-first order allows. `must_coarsen` refuses a level that has as many
        values as the one below it: an error in a hierarchy that somebody wrote, but not in a rule applied to few
        values.
        """
        ids, labels = zip(*(_factorize(level) for level in levels), strict=True)
        _check_tree(ids, labels, must_coarsen=must_coarsen)
        order = np.lexsort(ids)  # the last key, the top level, is the primary one
        ancestors = np.empty((len(ids), len(order)), dtype=np.int32)
        names: list[list[str]] = []
        for level, (id_of_leaf, label_of_id) in enumerate(zip(ids, labels, strict=True)):
            sorted_ids = id_of_leaf[order]
            starts = np.flatnonzero(np.r_[True, sorted_ids[1:] != sorted_ids[:-1]])
            ancestors[level] = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(order)]))
            names.append([label_of_id[i] for i in sorted_ids[starts]])
        ancestors.setflags(write=False)
        return cls(leaves=tuple(names[0]), ancestors=ancestors, labels=names)


class RejectedValueError(InputError):
    """A value that has no place in a hierarchy. Whoever knows where the value stands adds file, row and column."""

    def __init__(self, value: str, problem: str) -> None:
        self.value = value
        super().__init__(problem)


def unseen_value(value: str) -> RejectedValueError:
    """The error for a value that a hierarchy does not know."""
    problem = f"the hierarchy has no value {value!r}; add it to the hierarchy or correct the data"
    return RejectedValueError(value, problem)


def with_single_top(levels: list[list[str]]) -> list[list[str]]:
    """Add the level `*` where the top level has several values."""
    return levels if len(set(levels[-1])) == 1 else [*levels, [SUPPRESSED] * len(levels[0])]


def _factorize(level: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Ids by first appearance, and the label of each id."""
    known: dict[str, int] = {}
    ids = np.fromiter((known.setdefault(label, len(known)) for label in level), dtype=np.int64, count=len(level))
    return ids, list(known)


def _check_tree(ids: Sequence[NDArray[np.int64]], labels: Sequence[list[str]], *, must_coarsen: bool) -> None:
    if not len(ids[0]):
        raise SchemaError("the hierarchy has no values")
    for level in range(1, len(ids)):
        lower, upper = ids[level - 1], ids[level]
        parent = np.zeros(len(labels[level - 1]), dtype=np.int64)
        parent[lower] = upper  # the last parent written wins; any other one is the contradiction
        wrong = np.flatnonzero(parent[lower] != upper)
        if len(wrong):
            child = lower[wrong[0]]
            one, other = labels[level][upper[wrong[0]]], labels[level][parent[child]]
            raise SchemaError(
                f"the hierarchy is not a tree: {labels[level - 1][child]!r} of level {level - 1} stands under "
                f"both {one!r} and {other!r} at level {level}; give each value one parent"
            )
        if must_coarsen and len(ids[0]) > 1 and len(labels[level]) == len(labels[level - 1]):
            raise SchemaError(
                f"level {level} of the hierarchy is not coarser than level {level - 1}: both have "
                f"{len(labels[level])} values, for example {labels[level - 1][0]!r} becomes {labels[level][0]!r}; "
                "remove the level or merge values"
            )
    if len(labels[-1]) != 1:
        raise SchemaError(f"the top level of the hierarchy has {len(labels[-1])} values, not one")
