"""What Parquet files say about themselves: rows per row group, and the smallest and largest value of columns.

Statistics spare a pass over the data where a schema is bound to files: whole numbers, dates, times and truth values are
bound to the two ends. They are not trusted: whoever packs the codes checks each of them against the range. Where a row
group does not state them, or in units that are not the column's, the column is read instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rtree_anon.io.cells import Origin
from rtree_anon.io.files import ParquetFile, guarded
from rtree_anon.io.values import MS_PER_DAY

_UNIT_NAMES = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


@dataclass(frozen=True)
class RowGroup:
    """One row group of one of the files."""

    file: ParquetFile
    number: int
    first_row: int  # in its file, counted from 1
    n_rows: int


@dataclass(frozen=True)
class Ends:
    """The smallest and the largest value of a column in a row group; None where all values are missing."""

    lo: int | None
    hi: int | None
    has_missing: bool


class ParquetStatistics:
    """The row groups of files, in order, and what they state about columns."""

    def __init__(self, files: Sequence[ParquetFile], columns: Sequence[str]) -> None:
        self.groups: list[RowGroup] = []
        self._ends: dict[str, list[Ends | None]] = {column: [] for column in columns}
        for file in files:
            with guarded(file), file.opened() as opened:
                self._add(file, opened)

    @property
    def n_rows(self) -> int:
        return sum(group.n_rows for group in self.groups)

    def observations(self, column: str, data_type: pa.DataType) -> list[tuple[pa.Array, Origin]] | None:
        """The ends of each file as tiny arrays that stand for the file's column; None where it has to be read."""
        ends = self._ends[column]
        if any(end is None for end in ends):
            return None
        by_file: dict[str, list[Ends]] = {}
        for group, end in zip(self.groups, ends, strict=True):
            assert end is not None
            by_file.setdefault(group.file.name, []).append(end)
        types = {group.file.name: group.file.fields.field(column).type for group in self.groups}
        try:
            return [(_as_array(ends, types[name]).cast(data_type), Origin(name)) for name, ends in by_file.items()]
        except (pa.ArrowException, OverflowError):  # numbers that the column's type does not have
            return None

    def ends(self, column: str) -> Ends | None:
        """The ends over all row groups, in the numbers that Arrow stores; None where they are not known."""
        ends = self._ends[column]
        if any(end is None for end in ends) or not ends:
            return None
        lows = [end.lo for end in ends if end is not None and end.lo is not None]
        highs = [end.hi for end in ends if end is not None and end.hi is not None]
        return Ends(min(lows, default=None), max(highs, default=None), self.may_have_missing(column))

    def may_have_missing(self, column: str) -> bool:
        """Whether some row group has missing values, or does not say."""
        return any(end is None or end.has_missing for end in self._ends[column])

    def is_clustered(self, columns: Sequence[str]) -> bool:
        """Whether some column's values differ much between row groups, as in a sorted file."""
        return any(_mean_share(self._ends[column]) < 0.5 for column in columns)

    def _add(self, file: ParquetFile, opened: Any) -> None:
        metadata, leaves = opened.metadata, _leaf_of_field(opened)
        first_row = 1
        readers = {column: _reader(opened, leaves.get(column), file.fields.field(column).type) for column in self._ends}
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if group.num_rows:
                self.groups.append(RowGroup(file, number, first_row, group.num_rows))
                for column, ends in self._ends.items():
                    ends.append(_ends_in(group, leaves.get(column), readers[column]))
            first_row += group.num_rows


def _leaf_of_field(opened: Any) -> dict[str, int]:
    """Column name -> number of its column chunk; empty where the two do not fit together."""
    leaves, at = {}, 0
    for field in opened.schema_arrow:
        leaves[field.name] = at
        at += _n_leaves(field.type)
    return leaves if at == len(opened.metadata.schema) else {}


def _n_leaves(data_type: pa.DataType) -> int:
    if isinstance(data_type, pa.BaseExtensionType):
        return _n_leaves(data_type.storage_type)
    if not pa.types.is_nested(data_type):
        return 1
    return sum(_n_leaves(data_type.field(i).type) for i in range(data_type.num_fields))


def _reader(opened: Any, leaf: int | None, data_type: pa.DataType) -> Any:
    """How a raw number of the statistics becomes the number that Arrow stores for this type; None: it does not."""
    if leaf is None:
        return None
    stated = opened.schema.column(leaf)
    physical, logical = stated.physical_type, str(stated.logical_type)
    if pa.types.is_boolean(data_type):
        return int if physical == "BOOLEAN" else None
    if physical not in ("INT32", "INT64"):
        return None
    if pa.types.is_integer(data_type):
        if pa.types.is_unsigned_integer(data_type):
            mask = 2**data_type.bit_width - 1
            return lambda raw: raw & mask
        return int
    if pa.types.is_date32(data_type) or pa.types.is_date64(data_type):
        factor = MS_PER_DAY if pa.types.is_date64(data_type) else 1
        return (lambda raw: raw * factor) if logical == "Date" else None
    if pa.types.is_timestamp(data_type) or pa.types.is_time(data_type):
        fits = f"timeUnit={_UNIT_NAMES.get(data_type.unit)}" in logical
        return int if fits else None
    return int if pa.types.is_duration(data_type) and logical == "None" else None


def _ends_in(group: Any, leaf: int | None, reader: Any) -> Ends | None:
    if leaf is None or reader is None:
        return None
    column = group.column(leaf)
    stated = column.statistics if column.is_stats_set else None
    if stated is None:
        return None
    if stated.has_null_count and stated.null_count == group.num_rows:
        return Ends(None, None, True)
    if not stated.has_min_max:
        return None
    return Ends(reader(stated.min_raw), reader(stated.max_raw), not stated.has_null_count or stated.null_count > 0)


def _as_array(ends: Sequence[Ends], data_type: pa.DataType) -> pa.Array:
    """Smallest, largest and, where some value may be missing, a missing value, in the column's type."""
    known = [end for each in ends for end in (each.lo, each.hi) if end is not None]
    numbers: list[int | None] = [min(known), max(known)] if known else []
    if any(each.has_missing for each in ends):
        numbers.append(None)
    if pa.types.is_boolean(data_type):
        return pa.array([None if number is None else bool(number) for number in numbers], data_type)
    if pa.types.is_integer(data_type):
        return pa.array(numbers, data_type)
    return pa.array(numbers, pa.int32() if data_type.bit_width == 32 else pa.int64()).view(data_type)


def _mean_share(ends: Sequence[Ends | None]) -> float:
    """The part of a column's range that a row group covers on average; 1 where that is not known."""
    known = [(end.lo, end.hi) for end in ends if end is not None and end.lo is not None and end.hi is not None]
    if not known:
        return 1.0
    lowest, highest = min(lo for lo, _ in known), max(hi for _, hi in known)
    return float(np.mean([(hi - lo + 1) / (highest - lowest + 1) for lo, hi in known]))
