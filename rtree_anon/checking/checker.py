"""`check`: from a table and the roles of its columns to a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.checking.columns import Coded, code_column, code_in_order, take_rows
from rtree_anon.checking.grouping import Grouping, group_rows
from rtree_anon.checking.identity import measure_identity
from rtree_anon.checking.report import Report
from rtree_anon.checking.sensitive import SensitiveReport, measure_sensitive
from rtree_anon.checking.sources import open_columns
from rtree_anon.errors import InputError, SchemaError, UsageError


def check(
    table: Any,
    quasi: Sequence[str],
    sensitive: Sequence[str] = (),
    identity: str | None = None,
    *,
    counts: str | None = None,
) -> Report:
    """Measure how well a table protects the people in it.

    table: a Parquet, CSV (.gz, .zst) or Arrow file; an Arrow, pandas or polars frame; a release.
    quasi: the quasi-identifiers. A name x stands for the column x, or for the pair x_lo, x_hi of an interval release,
        together with x_missing where there is such a column; the report's `columns` says which were found.
    sensitive: columns to measure diversity, closeness and the like of.
    identity: the column that says whose row it is, where people have several rows.
    counts: a column that says how many rows a row stands for (a release with one row per group).

    >>> import pyarrow as pa
    >>> people = pa.table({"age": ["20-29", "20-29", "30-39"], "disease": ["flu", "cold", "flu"]})
    >>> report = check(people, quasi=["age"], sensitive=["disease"])
    >>> report.k, report.distinct_l, report.unique_rows.tolist()
    (1, 1, [2])
    """
    asked = _as_names(quasi, "quasi"), _as_names(sensitive, "sensitive")
    if not asked[0]:
        raise UsageError("Name at least one quasi-identifier: without any, all rows are one group.")
    others = [*asked[1], *(name for name in (identity, counts) if name is not None)]
    grouped_by: list[str] = []

    def choose(names: Sequence[str]) -> list[str]:
        grouped_by.extend(column for name in asked[0] for column in columns_of(name, names))
        return [*grouped_by, *(_present(name, names) for name in others)]

    with open_columns(table, choose) as columns:
        if columns.num_rows == 0:
            raise InputError("The table has no rows, so there is nothing to check.")
        weights = None if counts is None else weights_of(columns.column(counts), counts)
        names = list(dict.fromkeys(grouped_by))
        # One column after the other, so that only one is in memory at a time.
        grouping = group_rows((code_column(columns.column(name), name) for name in names), weights)
        return Report(
            columns=tuple(names),
            sensitive={
                name: measure_sensitive(name, code_in_order(columns.column(name), name), grouping) for name in asked[1]
            },
            identity=None
            if identity is None
            else measure_identity(identity, code_column(columns.column(identity), identity), grouping),
            grouping=grouping,
            _values=pa.table([take_rows(columns.column(name), grouping.some_rows) for name in names], names=names),
        )


def check_groups(
    group_of_row: NDArray[np.int64],
    n_groups: int,
    sensitive: Mapping[str, pa.ChunkedArray],
    identity: pa.ChunkedArray | None = None,
    table: Mapping[str, tuple[pa.ChunkedArray, NDArray[np.int64]]] | None = None,
) -> Report:
    """Measure groups that are known already, none of them empty, by the values of their rows.

    `table` is for rows that are a part of a larger table: for a column its different values there, and the rows of
    each. Groups are then compared with that; without it, with the rows that are given.
    """
    grouping = Grouping(group_of_row, n_groups)
    return Report(
        columns=(),
        sensitive={
            name: _measured(name, column, grouping, (table or {}).get(name)) for name, column in sensitive.items()
        },
        identity=None
        if identity is None
        else measure_identity("identity", code_column(identity, "identity"), grouping),
        grouping=grouping,
        _values=pa.table({}),
    )


def _measured(
    name: str,
    column: pa.ChunkedArray,
    grouping: Grouping,
    whole: tuple[pa.ChunkedArray, NDArray[np.int64]] | None,
) -> SensitiveReport:
    if whole is None:
        return measure_sensitive(name, code_in_order(column, name), grouping)
    values, rows = whole
    both = code_in_order(pa.chunked_array([*column.chunks, *values.chunks], values.type), name)
    totals = np.zeros(both.n_codes, np.int64)
    np.add.at(totals, both.codes[len(column) :], rows)
    return measure_sensitive(name, Coded(both.codes[: len(column)], both.n_codes), grouping, totals)


def _as_names(names: Sequence[str], role: str) -> list[str]:
    if isinstance(names, str):
        return [names]
    listed = list(names)
    for name in listed:
        if listed.count(name) > 1:
            raise SchemaError(f"{name!r} is named twice among the {role} columns.")
    return listed


def columns_of(name: str, names: Sequence[str]) -> list[str]:
    """The columns that hold the quasi-identifier `name`."""
    lo, hi, missing = f"{name}_lo", f"{name}_hi", f"{name}_missing"
    if name in names:
        found = [name]
    elif lo in names and hi in names:
        found = [lo, hi]
    else:
        raise SchemaError(
            f"There is no column {name!r}, and no pair {lo!r}, {hi!r} for it. The columns are: {', '.join(names)}."
        )
    return [*found, missing] if missing in names else found


def _present(name: str, names: Sequence[str]) -> str:
    if name not in names:
        raise SchemaError(f"There is no column {name!r}. The columns are: {', '.join(names)}.")
    return name


def weights_of(column: pa.ChunkedArray, name: str) -> NDArray[np.int64]:
    """A column that says how many rows a row stands for, as numbers."""
    try:
        numbers = column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"counts have to be whole numbers: {error}", column=name) from error
    wrong = np.flatnonzero(pc.less(numbers, 1).fill_null(True).to_numpy())
    if len(wrong):
        raise InputError("a count has to be 1 or more", row=int(wrong[0]) + 1, column=name)
    weights: NDArray[np.int64] = numbers.to_numpy()
    return weights
