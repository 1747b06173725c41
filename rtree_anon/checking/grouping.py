"""Rows with equal values in all quasi-identifier columns form a group. Exact: no hash is trusted.

Columns are combined into one whole number per row, mixed-radix; before a number could overflow, the distinct ones are
numbered afresh. Two rows get the same group if and only if they agree in every column.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.checking.columns import Coded

_LARGEST = 1 << 62


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of a table, numbered in the order of their first rows.

    `weights` says how many people's rows a row of the table stands for; None means one each.
    """

    group_of_row: NDArray[np.int64]
    n_groups: int
    weights: NDArray[np.int64] | None = None

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Rows per group, weights counted."""
        if self.weights is None:
            return np.bincount(self.group_of_row, minlength=self.n_groups)
        sizes = np.zeros(self.n_groups, dtype=np.int64)
        np.add.at(sizes, self.group_of_row, self.weights)
        return sizes

    @cached_property
    def n_rows(self) -> int:
        """Rows in all groups, weights counted."""
        return int(self.sizes.sum())

    @cached_property
    def some_rows(self) -> NDArray[np.int64]:
        """The position of some row of each group: all of them have the same values."""
        rows = np.empty(self.n_groups, dtype=np.int64)
        rows[self.group_of_row] = np.arange(len(self.group_of_row))
        return rows

    @cached_property
    def _rows_by_group(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row positions sorted by group, and where each group ends among them."""
        return np.argsort(self.group_of_row, kind="stable"), np.cumsum(np.bincount(self.group_of_row))

    def rows_in(self, group: int) -> NDArray[np.int64]:
        """Positions of the rows of one group."""
        rows, ends = self._rows_by_group
        return rows[ends[group - 1] if group else 0 : ends[group]]

    def rows_of(self, wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Positions of all rows that belong to a wanted group."""
        return np.flatnonzero(wanted[self.group_of_row])


def group_rows(columns: Iterable[Coded], weights: NDArray[np.int64] | None = None) -> Grouping:
    """Group rows by all of the columns (at least one)."""
    remaining = iter(columns)
    combined = next(remaining)
    for column in remaining:
        if combined.n_codes * column.n_codes > _LARGEST:
            combined = renumbered(combined)  # now both have at most as many codes as a table has rows, or 2**20
        codes = combined.codes * column.n_codes + column.codes
        combined = Coded(codes, combined.n_codes * column.n_codes)
    groups = renumbered(combined)
    return Grouping(groups.codes, groups.n_codes, weights)


def renumbered(column: Coded) -> Coded:
    """The same partition of rows with codes 0, 1, 2, ... in the order of first appearance."""
    encoded = pa.array(column.codes).dictionary_encode()
    return Coded(encoded.indices.cast(pa.int64()).to_numpy(), len(encoded.dictionary))


@dataclass(frozen=True, eq=False)
class Tally:
    """How often each value occurs in each group: one entry per (group, value) that occurs, sorted by both.

    `starts[g]` is the first entry of group g; every group has at least one.
    """

    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def distinct(self) -> NDArray[np.int64]:
        """Distinct values per group."""
        return np.diff(self.starts, append=len(self.values))

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The group of each entry."""
        return np.repeat(np.arange(len(self.starts)), self.distinct)


def tally(grouping: Grouping, column: Coded) -> Tally:
    """Count the column's values within each group."""
    keys = grouping.group_of_row * column.n_codes + column.codes  # no overflow: both have fewer than 2**31 codes
    if grouping.weights is None:
        keys = np.sort(keys)
        entry = np.flatnonzero(np.diff(keys, prepend=-1))
        counts = np.diff(entry, append=len(keys))
    else:
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        entry = np.flatnonzero(np.diff(keys, prepend=-1))
        counts = np.add.reduceat(grouping.weights[order], entry)
    groups, values = np.divmod(keys[entry], column.n_codes)
    return Tally(values, counts, np.flatnonzero(np.diff(groups, prepend=-1)))
