"""Statistics of groups: what a privacy model may look at, computed when asked for.

The groups of a frequency set are its distinct generalized values; the set's keys may be finer than that where they also
carry the columns that a model needs. Nothing here knows a particular model.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.lattice.frequency import FrequencySet, Generalizer


class Cells(NamedTuple):
    """The distinct (group, value) pairs of one column: aligned arrays."""

    group: NDArray[np.int64]
    value: NDArray[np.int64]
    n_rows: NDArray[np.int64]


class Groups:
    """The groups of one frequency set. `columns` names the fields behind the quasi-identifiers, in layout order."""

    def __init__(
        self,
        generalizer: Generalizer,
        frequencies: FrequencySet,
        columns: tuple[str, ...],
        shares: dict[str, NDArray[np.float64]],
    ) -> None:
        self._generalizer = generalizer
        self._frequencies = frequencies
        self._columns = columns
        self._shares = shares

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Rows per group."""
        if not self._columns:
            return self._frequencies.counts
        return _sums(self.group_of_key, self._frequencies.counts)

    @cached_property
    def group_of_key(self) -> NDArray[np.int64]:
        """The group of each key of the frequency set."""
        return self._assigned[0]

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """The key of each group, without the model's columns."""
        return self._assigned[1] if self._columns else self._frequencies.keys

    def distinct(self, column: str) -> NDArray[np.int64]:
        """Distinct values of a column per group."""
        return np.bincount(self.cells(column).group, minlength=len(self.sizes))

    def largest_share(self, column: str) -> NDArray[np.float64]:
        """The share of the most frequent value of a column per group."""
        cells = self.cells(column)
        most = np.zeros(len(self.sizes), dtype=np.int64)
        np.maximum.at(most, cells.group, cells.n_rows)
        return most / self.sizes

    def cells(self, column: str) -> Cells:
        """How often each value of a column occurs in each group."""
        position = self._generalizer.n_quasi + self._columns.index(column)
        levels = self._frequencies.levels
        if len(self._columns) == 1:
            group, keys, counts = self.group_of_key, self._frequencies.keys, self._frequencies.counts
        else:
            cell_of_key, keys = self._generalizer.assign(self._frequencies.keys, levels, levels, (position,))
            counts = _sums(cell_of_key, self._frequencies.counts)
            group = np.empty(keys.shape[1], dtype=np.int64)
            group[cell_of_key] = self.group_of_key
        return Cells(group, self._generalizer.layout.column(keys, position), counts)

    def table_shares(self, column: str) -> NDArray[np.float64]:
        """The share of each value of a column in the whole table, by code."""
        return self._shares[column]

    @cached_property
    def _assigned(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        levels = self._frequencies.levels
        return self._generalizer.assign(self._frequencies.keys, levels, levels)


def _sums(ids: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    # float64 sums of whole numbers are exact up to 2**53 rows
    return np.bincount(ids, weights=counts).astype(np.int64)
