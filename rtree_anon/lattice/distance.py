"""Distance vectors between rows: deciding k-anonymity without generalizing anything (Samarati, Section 5).

The distance vector of two rows holds, for each attribute, the level at which their values first agree. At a
generalization `vec`, an outlier x (a row with fewer than k copies) stands together with exactly the rows y with V[x,
y] <= vec. The matrix of these vectors, outliers by distinct rows, also bounds where solutions can be. It is
quadratic: for small tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import UsageError
from rtree_anon.lattice.frequency import FrequencySet, Generalizer, Levels

MAX_MATRIX_BYTES = 1 << 29


@dataclass(frozen=True, eq=False)
class DistanceMatrix:
    """`vectors[x, y]` is the distance vector of outlier x and distinct row y, in levels."""

    vectors: NDArray[np.uint8]  # (n_outliers, n_distinct, n_attributes)
    outliers: NDArray[np.int64]  # which distinct rows are outliers
    counts: NDArray[np.int64]  # copies of each distinct row
    k: int

    @classmethod
    def of(cls, generalizer: Generalizer, exact: FrequencySet, k: int) -> DistanceMatrix:
        """From the frequency set of the table at the lowest levels."""
        outliers = np.flatnonzero(exact.counts < k)
        n_bytes = len(outliers) * len(exact) * generalizer.n_quasi
        if n_bytes > MAX_MATRIX_BYTES:
            raise UsageError(
                f"the matrix of distance vectors would need {n_bytes:,} bytes ({len(outliers):,} outliers by "
                f"{len(exact):,} distinct rows); use matrix=False"
            )
        vectors = np.zeros((len(outliers), len(exact), generalizer.n_quasi), dtype=np.uint8)
        for attribute, bound in enumerate(generalizer.hierarchies):
            lowest = exact.levels[attribute]
            codes = generalizer.layout.column(exact.keys, attribute)
            first_leaf = np.searchsorted(bound.ancestors[lowest], np.arange(len(bound.labels[lowest])))
            for level in range(lowest, bound.height):  # all agree at the top
                ancestor = bound.ancestors[level][first_leaf[codes]]
                vectors[:, :, attribute] += ancestor[outliers, None] != ancestor[None, :]
        return cls(vectors + np.array(exact.levels, dtype=np.uint8), outliers, exact.counts, k)

    def n_suppressed(self, levels: Levels) -> int:
        """Rows that are still outliers at a generalization."""
        together = (self.vectors <= np.array(levels, dtype=np.uint8)).all(axis=2)
        cluster = together @ self.counts
        return int(self.counts[self.outliers][cluster < self.k].sum())

    @cached_property
    def upper_bound(self) -> Levels | None:
        """The least upper bound of all vectors: no minimal solution exceeds it. None where there is no outlier."""
        if not len(self.outliers):
            return None
        return tuple(self.vectors.max(axis=(0, 1)).tolist())

    def lowest_height(self, max_suppressed: int) -> int:
        """No solution is lower than this: every outlier that may not be suppressed has to meet some other row."""
        bound = 0
        for row, x in enumerate(self.outliers):
            if self.counts[x] > max_suppressed:
                others = np.delete(self.vectors[row], x, axis=0)
                if len(others):
                    bound = max(bound, int(others.sum(axis=1).min()))
        return bound
