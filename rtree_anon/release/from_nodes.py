"""From nodes of hierarchies to a release: what full-domain generalization and local recoding hand over.

A group has one node (a level and an id) per quasi-identifier. Rows that belong to no group are suppressed: they are
left out, as in Samarati's Definition 4.1. To release them with every quasi-identifier as `*` would make a group of
their own, which may well be smaller than k; the figures of quality count them as fully generalized all the same.

The release is checked before anybody sees it: every row's value stands below its group's node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.errors import PrivacyError
from rtree_anon.hierarchy import BoundHierarchy
from rtree_anon.release.columns import ALL, NONE, SOME, LabelColumn
from rtree_anon.release.release import Release, Rows


@dataclass(frozen=True, eq=False)
class NodeGroups:
    """Rows as groups of nodes. Hierarchies with missing values have a last leaf that stands for them."""

    names: tuple[str, ...]
    hierarchies: tuple[BoundHierarchy, ...]
    has_missing: tuple[bool, ...]
    value_types: tuple[pa.DataType, ...]  # of the attributes' own values: queries compare by value
    leaves: Sequence[NDArray[np.integer]]  # per attribute the leaf code of every row
    group_of_row: NDArray[np.int64]  # -1: suppressed
    levels: NDArray[np.int64]  # (n_groups, n_attributes)
    nodes: NDArray[np.int64]  # (n_groups, n_attributes)


@dataclass(frozen=True)
class Facts:
    """What is to be known about how a lattice release came about."""

    algorithm: str
    model: str
    k: int
    n_suppressed: int = 0
    generalization: tuple[int, ...] | None = None  # None: local recoding
    distortion_ratio: float = 0.0  # mean level as a share of the heights; suppressed rows count as the top
    n_borrowed: int = 0
    n_merged: int = 0


class LatticeRelease(Release):
    """A release made with hierarchies. Quality counts suppressed rows as fully generalized."""

    facts: Facts

    @property
    def n_suppressed(self) -> int:
        """Rows of the table that are not released."""
        return self.facts.n_suppressed

    @property
    def distortion_ratio(self) -> float:
        """The mean level of a value as a share of the height of its hierarchy (suppressed rows: the whole height)."""
        return self.facts.distortion_ratio

    def quality(self) -> dict[str, float]:
        """The figures of `Release.quality`, with suppressed rows at penalty 1, and at the price of the whole table each
        in the discernibility (Bayardo and Agrawal, 2005); class size and divergence describe the released rows."""
        figures = super().quality()
        suppressed, n_rows = self.n_suppressed, self.n_rows + self.n_suppressed
        if suppressed:
            total_weight = sum(self._weights)
            figures["certainty_sum"] += suppressed * total_weight
            figures["certainty"] = figures["certainty_sum"] / (n_rows * total_weight)
            figures["discernibility"] += float(suppressed) * n_rows
        return figures


def release_nodes(
    groups: NodeGroups,
    carried: pa.Table,
    facts: Facts,
    *,
    sensitive: tuple[str, ...],
    keep: tuple[str, ...],
    identity: str | None,
    weights: tuple[float, ...],
    source: str,
) -> LatticeRelease:
    """The release of groups that were found to satisfy their model."""
    groups = _by_node(groups)
    released = np.flatnonzero(groups.group_of_row >= 0)
    if not len(released):
        raise PrivacyError("every row would be suppressed, so there is nothing to release; allow less suppression")
    group_of_row = groups.group_of_row[released]
    sizes = np.bincount(group_of_row, minlength=len(groups.levels)).astype(np.int64)
    _verify(groups, released, group_of_row, sizes, facts.k)
    columns = tuple(_column(groups, attribute, released, group_of_row) for attribute in range(len(groups.names)))
    if carried.num_columns and len(released) < len(groups.group_of_row):
        carried = carried.take(pa.array(released))
    release = LatticeRelease(
        columns,
        sizes,
        Rows(carried, np.argsort(group_of_row, kind="stable"), sensitive, keep, identity),
        k=facts.k,
        model=facts.model,
        algorithm=facts.algorithm,
        method="full-domain" if facts.generalization is not None else "local recoding",
        weights=weights,
        log_multiplicity=lambda: _log_multiplicity([codes[released] for codes in groups.leaves]),
        source=source,
    )
    release.facts = facts
    return release


def _by_node(groups: NodeGroups) -> NodeGroups:
    """The same groups in the order of their nodes, so that nothing is left of the order of the input."""
    keys = [column for i in range(len(groups.names)) for column in (groups.levels[:, i], groups.nodes[:, i])]
    order = np.lexsort(keys[::-1])
    place = np.empty(len(order) + 1, dtype=np.int64)
    place[order] = np.arange(len(order))
    place[-1] = -1  # suppressed rows stay suppressed
    return replace(
        groups, group_of_row=place[groups.group_of_row], levels=groups.levels[order], nodes=groups.nodes[order]
    )


def _column(
    groups: NodeGroups, attribute: int, released: NDArray[np.int64], group_of_row: NDArray[np.int64]
) -> LabelColumn:
    bound = groups.hierarchies[attribute]
    n_leaves = len(bound.leaves) - groups.has_missing[attribute]
    state = None
    if groups.has_missing[attribute]:
        is_missing = groups.leaves[attribute][released] == n_leaves
        n_missing = np.bincount(group_of_row[is_missing], minlength=len(groups.levels))
        n_present = np.bincount(group_of_row[~is_missing], minlength=len(groups.levels))
        state = np.where(n_missing == 0, NONE, np.where(n_present == 0, ALL, SOME)).astype(np.uint8)
    distinct, index = np.unique(
        np.stack([groups.levels[:, attribute], groups.nodes[:, attribute]]), axis=1, return_inverse=True
    )
    labels, first, last = [], [], []
    for level, node in distinct.T.tolist():
        labels.append(bound.labels[level][node])
        begin, end = np.searchsorted(bound.ancestors[level], [node, node + 1])
        first.append(min(int(begin), n_leaves - 1))  # the node of missing values alone shows no label; any will do
        last.append(min(int(end), n_leaves))
    return LabelColumn(
        groups.names[attribute],
        state,
        pa.array(labels, pa.string()),
        index.ravel().astype(np.int32),
        _typed(pa.array(bound.leaves[:n_leaves], pa.string()), groups.value_types[attribute]),
        np.array(first, np.int64),
        np.array(last, np.int64),
    )


def _typed(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The values that texts stand for, or the texts where a hierarchy has others than the attribute's type holds."""
    try:
        return texts.cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return texts


def _verify(
    groups: NodeGroups,
    released: NDArray[np.int64],
    group_of_row: NDArray[np.int64],
    sizes: NDArray[np.int64],
    k: int,
) -> None:
    wrong = "a group has fewer than k rows" if int(sizes.min()) < k else ""
    for attribute, bound in enumerate(groups.hierarchies):
        codes = groups.leaves[attribute][released]
        node = bound.ancestors[groups.levels[group_of_row, attribute], codes]
        if (node != groups.nodes[group_of_row, attribute]).any():
            wrong = f"a value of {groups.names[attribute]!r} does not stand below its group's label"
    if wrong:
        raise PrivacyError(
            f"The release was checked before it was handed out, and {wrong}. Nothing was released. This is a bug in "
            "rtree-anon: please report it with the hierarchies and the options that you used."
        )


def _log_multiplicity(columns: Sequence[NDArray[np.integer]]) -> float:
    """The sum over rows of the logarithm of the number of rows with the same exact values."""
    order = np.lexsort(columns)
    changes = np.zeros(len(order), dtype=bool)
    changes[0] = True
    for codes in columns:
        changes[1:] |= codes[order[1:]] != codes[order[:-1]]
    counts = np.diff(np.append(np.flatnonzero(changes), len(order)))
    return float((counts * np.log(counts)).sum())
