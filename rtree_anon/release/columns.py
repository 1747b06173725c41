"""Generalized columns: what a release says of one quasi-identifier, one value per group.

Three forms: an interval (numbers, dates), a set of values (categories), a label (the node of a hierarchy, or a range
of more categories than a set would list). Each knows how it is shown, what it costs (Definition 4 of the R+-tree
paper) and which queries it may match. Where the attribute has missing values anywhere, a group also says whether
`none`, `some` or `all` of its rows miss it; the interval, set or label describes the values that are present.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.release.conditions import Flags, Floats, accepted_values, matched_intervals
from rtree_anon.release.texts import interval_text, quoted, unambiguous

NONE, SOME, ALL = 0, 1, 2
_STATES = pa.array(["none", "some", "all"])


@dataclass(frozen=True, eq=False)
class GroupColumn(ABC):
    """One quasi-identifier of a release.

    `missing` is NONE, SOME or ALL per group, or None where the attribute has no missing values at all.
    """

    name: str
    missing: NDArray[np.uint8] | None

    @abstractmethod
    def values(self, style: str) -> dict[str, pa.Array]:
        """The released columns (name -> one value per group), without the column that tells of missing values."""

    @property
    @abstractmethod
    def _present_penalty(self) -> Floats: ...

    @property
    @abstractmethod
    def _present_cells(self) -> Floats: ...

    @abstractmethod
    def match(self, wanted: Any) -> tuple[Flags, Floats]:
        """For each group, whether a query's condition accepts any of its values, and which share of them.

        `wanted` is a value, a pair (lo, hi) of inclusive bounds, or a list or set of values.
        """

    def columns(self, style: str) -> dict[str, pa.Array]:
        """The released columns, one value per group."""
        columns = self.values(style)
        if self.missing is not None:
            columns[f"{self.name}_missing"] = _STATES.take(pa.array(self.missing))
        return columns

    @property
    def penalty(self) -> Floats:
        """The certainty penalty of each group, 0 (exact) to 1 (nothing is said); 1 where present and missing mix."""
        if self.missing is None:
            return self._present_penalty
        return np.where(self.missing == NONE, self._present_penalty, np.where(self.missing == SOME, 1.0, 0.0))

    @property
    def cells(self) -> Floats:
        """How many different values a group's rows may have; "missing" is one of them where it occurs."""
        if self.missing is None:
            return self._present_cells
        return np.where(self.missing == ALL, 1.0, self._present_cells + (self.missing == SOME))

    def weigh(self, n_rows: Floats, cells: Floats) -> tuple[float, float]:
        """The sum over all rows of the penalty of their group, and the largest of `cells` afterwards.

        `cells` are multiplied by the cells of this column.
        """
        cells *= self.cells
        return float((self.penalty * n_rows).sum()), float(cells.max())

    def _has_values(self, n_groups: int) -> Flags:
        return np.ones(n_groups, np.bool_) if self.missing is None else self.missing != ALL

    def _blank_where_all_missing(self, column: pa.Array) -> pa.Array:
        if self.missing is None:
            return column
        return pc.if_else(pa.array(self.missing == ALL), pa.scalar(None, column.type), column)


@dataclass(frozen=True, eq=False)
class IntervalColumn(GroupColumn):
    """Closed intervals in the attribute's own type.

    `measured` gives their shares of the domain and the numbers of values in them; it is asked only when they are used.
    `weighed` is a faster `weigh`, for intervals of which none lacks values.
    """

    lo: pa.Array
    hi: pa.Array
    measured: Callable[[], tuple[Floats, Floats]]
    weighed: Callable[[Floats, Floats], tuple[float, float]] | None = None

    def values(self, style: str) -> dict[str, pa.Array]:
        lo, hi = self._blank_where_all_missing(self.lo), self._blank_where_all_missing(self.hi)
        if style == "interval":
            return {f"{self.name}_lo": lo, f"{self.name}_hi": hi}
        return {self.name: interval_text(lo, hi)}

    def weigh(self, n_rows: Floats, cells: Floats) -> tuple[float, float]:
        return super().weigh(n_rows, cells) if self.weighed is None else self.weighed(n_rows, cells)

    @cached_property
    def _shares_and_steps(self) -> tuple[Floats, Floats]:
        return self.measured()

    @property
    def _present_penalty(self) -> Floats:
        return self._shares_and_steps[0]

    @property
    def _present_cells(self) -> Floats:
        return self._shares_and_steps[1]

    def match(self, wanted: Any) -> tuple[Flags, Floats]:
        hits, share = matched_intervals(self.name, self.lo, self.hi, self._present_cells, wanted)
        hits &= self._has_values(len(hits))
        return hits, np.where(hits, share, 0.0)


@dataclass(frozen=True, eq=False)
class SetColumn(GroupColumn):
    """Sets of categories: group g has the set number `index[g]`, whose members are members[offsets[i]:offsets[i+1]]."""

    domain: pa.Array  # the categories in their own type, in value order
    index: NDArray[np.int32]
    offsets: NDArray[np.int64]
    members: NDArray[np.int32]

    def values(self, style: str) -> dict[str, pa.Array]:
        return {self.name: self._blank_where_all_missing(self._texts.take(pa.array(self.index)))}

    @cached_property
    def _texts(self) -> pa.Array:
        labels = self.domain.cast(pa.string())
        sizes = np.diff(self.offsets)
        lists = pa.ListArray.from_arrays(
            pa.array(self.offsets.astype(np.int32)), quoted(labels).take(pa.array(self.members))
        )
        braced = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
        # An empty set belongs to groups that have no value at all, and is never shown.
        first = np.append(self.members, 0)[self.offsets[:-1]]
        single = unambiguous(labels).take(pa.array(first, mask=sizes != 1))
        return pc.if_else(pa.array(sizes == 1), single, braced)

    @property
    def _set_sizes(self) -> Floats:
        return np.diff(self.offsets)[self.index].astype(np.float64)

    @property
    def _present_penalty(self) -> Floats:
        return np.maximum(self._set_sizes - 1, 0) / max(len(self.domain) - 1, 1)

    @property
    def _present_cells(self) -> Floats:
        return np.maximum(self._set_sizes, 1)

    def match(self, wanted: Any) -> tuple[Flags, Floats]:
        accepted = accepted_values(self.name, self.domain, wanted)
        before = np.concatenate(([0], np.cumsum(accepted[self.members])))
        sizes = np.diff(self.offsets)
        hits = before[self.offsets[1:]] - before[self.offsets[:-1]]
        share = np.divide(hits, sizes, out=np.zeros(len(sizes)), where=sizes > 0)[self.index]
        hits = (share > 0) & self._has_values(len(share))
        return hits, np.where(hits, share, 0.0)


@dataclass(frozen=True, eq=False)
class LabelColumn(GroupColumn):
    """Nodes of a hierarchy, or ranges of categories: group g has label number `index[g]`, which stands for the leaves
    first[i]..last[i]-1."""

    labels: pa.Array  # text
    index: NDArray[np.int32]
    leaves: pa.Array  # the values at the bottom of the hierarchy, depth first, or all categories in their order
    first: NDArray[np.int64]
    last: NDArray[np.int64]

    def values(self, style: str) -> dict[str, pa.Array]:
        return {self.name: self._blank_where_all_missing(self.labels.take(pa.array(self.index)))}

    @property
    def _present_penalty(self) -> Floats:
        return (self._present_cells - 1) / max(len(self.leaves) - 1, 1)

    @property
    def _present_cells(self) -> Floats:
        return (self.last - self.first)[self.index].astype(np.float64)

    def match(self, wanted: Any) -> tuple[Flags, Floats]:
        before = np.concatenate(([0], np.cumsum(accepted_values(self.name, self.leaves, wanted))))
        share = ((before[self.last] - before[self.first]) / (self.last - self.first))[self.index]
        hits = (share > 0) & self._has_values(len(share))
        return hits, np.where(hits, share, 0.0)
