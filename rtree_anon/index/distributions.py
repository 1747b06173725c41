"""How often each value of a column occurs in some rows: by key, without decoding anything.

Counts of disjoint rows add up, so that those of any union of buckets, bundles or batches come from its parts; their
size is that of the values that occur, not of the rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import BudgetError
from rtree_anon.io.coded_batch import CodedBatch
from rtree_anon.io.stored_values import CarriedCodes, Keys, ValueColumn, Values
from rtree_anon.space import missing_code

_NARROW = 4  # a range of keys of so many times the rows is counted without sorting
_ENTRY_BYTES = 16
_MISSING = missing_code(np.int64)


@dataclass(frozen=True, eq=False)
class Distribution:
    """`counts` rows have the value `keys`, which is ascending; `n_missing` have none."""

    keys: Keys
    counts: NDArray[np.int64]
    n_missing: int = 0

    @classmethod
    def none(cls) -> Distribution:
        """That of no rows."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def of(cls, values: Values) -> Distribution:
        """The values of some rows."""
        keys = values.keys
        n_missing = int(values.is_missing.sum())
        if n_missing:
            keys = keys[~values.is_missing]
        if not len(keys):
            return cls(keys, np.empty(0, np.int64), n_missing)
        lo, hi = int(keys.min()), int(keys.max())
        if hi - lo < _NARROW * len(keys) + 256:
            counts = np.bincount(keys - lo)
            present = np.flatnonzero(counts)
            return cls(present + lo, counts[present], n_missing)
        found, counts = np.unique(keys, return_counts=True)
        return cls(found, counts.astype(np.int64), n_missing)

    def __len__(self) -> int:
        """How many different values there are, missing being one of them."""
        return len(self.keys) + (self.n_missing > 0)

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum()) + self.n_missing

    @property
    def totals(self) -> NDArray[np.int64]:
        """Rows of every value; the last entry is for missing ones where there are any."""
        return np.append(self.counts, self.n_missing) if self.n_missing else self.counts

    def equals(self, other: Distribution) -> bool:
        """Whether both say the same."""
        same = np.array_equal(self.keys, other.keys) and np.array_equal(self.counts, other.counts)
        return same and self.n_missing == other.n_missing

    def without(self, other: Distribution) -> Distribution:
        """That of the rows that are left when others go; values that no row has any more are not in it."""
        left = summed([self, Distribution(other.keys, -other.counts, -other.n_missing)])
        return Distribution(left.keys[left.counts > 0], left.counts[left.counts > 0], left.n_missing)


def summed(parts: Iterable[Distribution]) -> Distribution:
    """The distribution of several sets of rows together."""
    listed = [part for part in parts if len(part.keys) or part.n_missing]
    if len(listed) == 1:
        return listed[0]
    keys, place = np.unique(np.concatenate([Distribution.none().keys, *(part.keys for part in listed)]), False, True)
    counts = np.zeros(len(keys), np.int64)
    if listed:
        np.add.at(counts, place.ravel(), np.concatenate([part.counts for part in listed]))
    return Distribution(keys, counts, sum(part.n_missing for part in listed))


def dense_codes(values: Values) -> tuple[NDArray[np.int32], int]:
    """Codes from 0 on for the values that occur, in no particular order, and how many there are."""
    distribution = Distribution.of(values)
    return codes_in(distribution.keys, values), len(distribution)


def codes_in(keys: Keys, values: Values) -> NDArray[np.int32]:
    """The place of every value in ascending keys; behind the last one for missing values. All must be there."""
    if len(keys) and int(keys[-1]) - int(keys[0]) < _NARROW * len(values) + 256:
        lo = int(keys[0])
        place = np.empty(int(keys[-1]) - lo + 1, np.int32)
        place[keys - lo] = np.arange(len(keys), dtype=np.int32)
        codes: NDArray[np.int32] = place[np.where(values.is_missing, 0, values.keys - lo)]
    else:
        codes = np.searchsorted(keys, values.keys).astype(np.int32)
    codes[values.is_missing] = len(keys)
    return codes


@dataclass(frozen=True, eq=False)
class Counts:
    """The distributions of several columns, by name, in the same rows."""

    n_rows: int
    columns: Mapping[str, Distribution]

    @classmethod
    def of(cls, n_rows: int, columns: Mapping[str, ValueColumn], carried: CarriedCodes) -> Counts:
        """Those of some rows."""
        return cls(n_rows, {name: Distribution.of(column.values(carried)) for name, column in columns.items()})

    def __add__(self, other: Counts) -> Counts:
        both = {name: summed([mine, other.columns[name]]) for name, mine in self.columns.items()}
        return Counts(self.n_rows + other.n_rows, both)


class TableCounter:
    """Counts the values of some columns while batches pass by, by whichever thread codes a batch."""

    def __init__(self, columns: Mapping[str, ValueColumn], n_quasi: int, limit_bytes: int) -> None:
        """`limit_bytes` are for the distributions of all columns together."""
        self._columns, self._n_quasi, self._limit_bytes = columns, n_quasi, limit_bytes
        self._parts: dict[str, list[Distribution]] = {name: [] for name in columns}
        self._lock = threading.Lock()

    def counted(self, batches: Iterable[CodedBatch]) -> Iterator[CodedBatch]:
        """The same batches; coding one counts it."""
        for batch in batches:
            yield CodedBatch(batch.n_rows, self._coding(batch), batch.name, batch.first_row, batch.columns)

    def _coding(self, batch: CodedBatch):  # type: ignore[no-untyped-def]
        def codes() -> NDArray[np.generic]:
            coded = batch.codes()
            self.add(batch.n_rows, lambda place: wide_codes(coded[self._n_quasi + place]))
            return coded

        return codes

    def add(self, n_rows: int, carried: CarriedCodes) -> None:
        """Count some rows."""
        counts = Counts.of(n_rows, self._columns, carried)
        with self._lock:
            for name, distribution in counts.columns.items():
                parts = self._parts[name]
                parts.append(distribution)
                # Like a binary counter: what is added up is never much smaller than what it is added to.
                while len(parts) > 1 and len(parts[-1]) >= len(parts[-2]):
                    parts[-2:] = [summed(parts[-2:])]
                self._check_size(name)

    def distribution(self, name: str) -> Distribution:
        """That of all rows so far."""
        self._parts[name] = [summed(self._parts[name])]
        return self._parts[name][0]

    def _check_size(self, name: str) -> None:
        size = _ENTRY_BYTES * sum(len(part) for parts in self._parts.values() for part in parts)
        if size > self._limit_bytes:
            raise BudgetError(
                f"column {name!r} has so many distinct values that their distribution, with which the privacy model "
                "compares every group, does not fit into memory; give the index more memory, or use another model."
            )


def wide_codes(codes: NDArray[np.integer]) -> Keys:
    """Codes as int64, missing values with the smallest number of that type."""
    wide = codes.astype(np.int64)
    if codes.dtype != np.int64:
        wide[codes == missing_code(codes.dtype)] = _MISSING
    return wide
