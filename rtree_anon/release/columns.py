"""Generalized columns: what a release says of one quasi-identifier, one value per group.

Three forms: an interval (numbers, dates), a set of values (categories), a label (the node of a hierarchy). Each knows
how it is shown, what it costs (Definition 4 of the R+-tree paper) and which queries it may match. Where the attribute
has missing values anywhere, a group also says whether `none`, `some` or `all` of its rows miss it; the interval, set
or label describes the values that are present.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.errors import UsageError

NONE, SOME, ALL = 0, 1, 2
_STATES = pa.array(["none", "some", "all"])

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]


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

    def _has_values(self, n_groups: int) -> Flags:
        return np.ones(n_groups, np.bool_) if self.missing is None else self.missing != ALL

    def _blank_where_all_missing(self, column: pa.Array) -> pa.Array:
        if self.missing is None:
            return column
        return pc.if_else(pa.array(self.missing == ALL), pa.scalar(None, column.type), column)


@dataclass(frozen=True, eq=False)
class IntervalColumn(GroupColumn):
    """Closed intervals in the attribute's own type."""

    lo: pa.Array
    hi: pa.Array
    share: Floats  # of the domain
    steps: Floats  # number of values in the interval
    as_text: bool = False  # always one column of text: ranges of categories that are too many to list

    def values(self, style: str) -> dict[str, pa.Array]:
        lo, hi = self._blank_where_all_missing(self.lo), self._blank_where_all_missing(self.hi)
        if style == "interval" and not self.as_text:
            return {f"{self.name}_lo": lo, f"{self.name}_hi": hi}
        return {self.name: interval_text(lo, hi)}

    @property
    def _present_penalty(self) -> Floats:
        return self.share

    @property
    def _present_cells(self) -> Floats:
        return self.steps

    def match(self, wanted: Any) -> tuple[Flags, Floats]:
        bounds = wanted if isinstance(wanted, tuple) else (wanted, wanted)
        if isinstance(wanted, list | set | frozenset) or len(bounds) != 2:
            raise UsageError(f"{self.name!r} takes a value or a pair (lo, hi), not {wanted!r}.")
        try:
            ends = pa.array(bounds).cast(self.lo.type) if not _comparable(bounds, self.lo.type) else pa.array(bounds)
            lo = pc.max_element_wise(self.lo, ends[0])
            hi = pc.min_element_wise(self.hi, ends[1])
            meets = pc.less_equal(lo, hi)
        except (pa.ArrowException, TypeError) as error:
            raise UsageError(
                f"{self.name!r} is of type {self.lo.type} and cannot be compared with {wanted!r}."
            ) from error
        share = np.ones(len(self.lo))
        if not self.as_text:
            width, common = _differences(self.lo, self.hi), _differences(lo, hi)
            np.divide(common, width, out=share, where=width > 0)
        hits = meets.fill_null(False).to_numpy(zero_copy_only=False) & self._has_values(len(share))
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
        first = np.where(sizes > 0, self.members[np.minimum(self.offsets[:-1], max(len(self.members) - 1, 0))], 0)
        single = _unambiguous(labels).take(pa.array(first))
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
    """Nodes of a hierarchy: group g has label number `index[g]`, which stands for the leaves first[i]..last[i]-1."""

    labels: pa.Array  # text
    index: NDArray[np.int32]
    leaves: pa.Array  # the values at the bottom of the hierarchy, as text, depth first
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


def interval_text(lo: pa.Array, hi: pa.Array) -> pa.Array:
    """ "[20-24]", or "20" where both ends agree; spaces around the dash where the ends have dashes of their own."""
    first, last = lo.cast(pa.string()), hi.cast(pa.string())
    dashes = pc.any(pc.or_(pc.match_substring(first, "-"), pc.match_substring(last, "-"))).as_py()
    between = pc.binary_join_element_wise("[", first, " - " if dashes else "-", last, "]", "")
    return pc.if_else(pc.equal(first, last), first, between)


def quoted(labels: pa.Array) -> pa.Array:
    """Labels as they stand inside a set: in double quotes where a comma, a brace, a quote or a space could mislead."""
    risky = pc.match_substring_regex(labels, r'[,{}"]|^\s|\s$|^$')
    inside = pc.binary_join_element_wise('"', pc.replace_substring(labels, '"', '""'), '"', "")
    return pc.if_else(risky, inside, labels)


def _unambiguous(labels: pa.Array) -> pa.Array:
    """Single labels as they are, but quoted where they look like a set or a quoted label, or are empty."""
    return pc.if_else(pc.match_substring_regex(labels, r'^[{"]|^$'), quoted(labels), labels)


def accepted_values(name: str, values: pa.Array, wanted: Any) -> Flags:
    """Which of the values a condition accepts, compared by value and never by code."""
    try:
        if isinstance(wanted, tuple):
            if len(wanted) != 2:
                raise UsageError(f"{name!r} takes a value, a pair (lo, hi) or a list of values, not {wanted!r}.")
            ends = pa.array(wanted, type=values.type)
            accepted = pc.and_(pc.greater_equal(values, ends[0]), pc.less_equal(values, ends[1]))
        elif isinstance(wanted, Collection) and not isinstance(wanted, str | bytes):
            accepted = pc.is_in(values, value_set=pa.array(list(wanted), type=values.type))
        else:
            accepted = pc.equal(values, pa.scalar(wanted, values.type))
    except (pa.ArrowException, TypeError) as error:
        raise UsageError(
            f"{name!r} has values of type {values.type}, which cannot be compared with {wanted!r}."
        ) from error
    result: Flags = accepted.fill_null(False).to_numpy(zero_copy_only=False)
    return result


def _comparable(bounds: tuple[Any, ...], data_type: pa.DataType) -> bool:
    numbers = all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in bounds)
    return numbers and (pa.types.is_integer(data_type) or pa.types.is_floating(data_type))


def _differences(lo: pa.Array, hi: pa.Array) -> Floats:
    """hi - lo as floats, for numbers and times; negative where hi < lo."""
    ends = []
    for end in (lo, hi):
        if pa.types.is_date32(end.type) or pa.types.is_time32(end.type):
            end = end.cast(pa.int32())
        elif pa.types.is_temporal(end.type):
            end = end.cast(pa.int64())
        ends.append(end.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False))
    difference: Floats = ends[1] - ends[0]
    return difference
