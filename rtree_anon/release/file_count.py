"""COUNT(*) on a released file, from the file alone (R+-tree paper, sections 2.3 and 5.4): `rtree-anon count`.

A file does not say how a column was generalized, so it is read from the values: `x_lo` and `x_hi` are an interval;
text is "[20-24]", "{A,B}" or a single value (texts.py). Whatever may match counts under `intersect`, so that the answer
is never below the truth; where a text cannot be understood without more (a masked label such as "5370*", a range of
categories), that is an error and not a smaller number. A label that looks like any value ("person") cannot be told from
one: of a column that was generalized by a hierarchy, the hierarchy has to be given.
"""

from __future__ import annotations

import csv
import datetime
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtree_anon.arguments import check_choice
from rtree_anon.checking.sources import map_pieces
from rtree_anon.errors import UsageError
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.release.conditions import Flags, Floats, accepted_values, matched_intervals

ESTIMATES = ("intersect", "uniform")
_BETWEEN = ".."
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"  # 01 and 1 are different values: text, not numbers
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9:.]+(?:Z|[+-][0-9:]+)?)?"


@dataclass(frozen=True)
class FileCount:
    """How many rows match, and how many there are."""

    count: float
    n_rows: int


def count_in_file(
    path: str | PathLike[str],
    where: Mapping[str, str],
    estimate: str = "intersect",
    *,
    hierarchies: Mapping[str, Hierarchy] | None = None,
    counts: str | None = None,
) -> FileCount:
    """Count the rows of a released file that may match (`intersect`), or the expected number (`uniform`).

    `where` has a condition for each attribute: "30", "25..35", "25..", "F,M". `hierarchies` are needed for attributes
    that were generalized by one; `counts` names the column that says how many rows a row stands for (groups layout).
    """
    check_choice("estimate", estimate, ESTIMATES)
    given = dict(hierarchies or {})

    def choose(names: Sequence[str]) -> list[str]:
        columns = [column for name in where for column in _columns_of(name, names)]
        return [*columns, *([counts] if counts else [])] or list(names[:1])

    def measure(piece: pa.Table) -> tuple[float, int]:
        sizes = np.ones(len(piece)) if counts is None else piece[counts].cast(pa.float64()).to_numpy()
        touched, share = np.ones(len(piece), np.bool_), np.ones(len(piece))
        for name, text in where.items():
            hits, overlap = _matched(name, text, piece, given.get(name))
            touched &= hits
            share *= overlap
        found = sizes[touched].sum() if estimate == "intersect" else (sizes * share).sum()
        return float(found), int(sizes.sum())

    parts = map_pieces(path, choose, lambda piece: measure(piece.table()))
    return FileCount(math.fsum(found for found, _ in parts), sum(n_rows for _, n_rows in parts))


def _columns_of(name: str, names: Sequence[str]) -> list[str]:
    ends = [f"{name}_lo", f"{name}_hi"]
    if set(ends) <= set(names):
        return ends
    if name in names:
        return [name]
    known = dict.fromkeys(re.sub("_(lo|hi|missing)$", "", each) for each in names)
    raise UsageError(f"{name!r} is not a column of this file ({', '.join(known)}).")


def _matched(name: str, text: str, piece: pa.Table, hierarchy: Hierarchy | None) -> tuple[Flags, Floats]:
    """For each row, whether it may match a condition, and the share of its values that do."""
    if name not in piece.column_names:
        lo, hi = (piece[f"{name}_{end}"].combine_chunks() for end in ("lo", "hi"))
        return matched_intervals(name, lo, hi, _steps(lo, hi), _typed(name, text, lo.type))
    column = piece[name].combine_chunks()
    if not pa.types.is_string(column.type):  # a carried column in its own type
        accepted = accepted_values(name, column, _typed(name, text, column.type))
        return accepted, accepted.astype(np.float64)
    coded = column.dictionary_encode()
    hits, share = _matched_texts(name, text, coded.dictionary, hierarchy)
    which = coded.indices.fill_null(len(hits)).to_numpy()  # a missing value matches nothing
    return np.append(hits, False)[which], np.append(share, 0.0)[which]


def _matched_texts(name: str, text: str, values: pa.Array, hierarchy: Hierarchy | None) -> tuple[Flags, Floats]:
    """The same for distinct texts."""
    for pattern, make in ((_NUMBER, _numbers), (_DATE, _moments)) if hierarchy is None else ():
        ends = _interval_ends(values, pattern)
        if ends is not None:
            lo, hi = make(*ends)
            return matched_intervals(name, lo, hi, _steps(lo, hi), _typed(name, text, lo.type))
    members = [_members(name, value, hierarchy) for value in values.to_pylist()]
    distinct = pa.array(dict.fromkeys(member for each in members for member in each), pa.string())
    numbers = _interval_ends(distinct, _NUMBER) if hierarchy is None else None
    domain = distinct if numbers is None else _numbers(*numbers)[0]
    accepted = accepted_values(name, domain, _typed(name, text, domain.type))
    is_accepted = dict(zip(distinct.to_pylist(), accepted.tolist(), strict=True))
    share = np.array([sum(is_accepted[member] for member in each) / len(each) for each in members], np.float64)
    return share > 0, share


def _interval_ends(values: pa.Array, pattern: str) -> tuple[pa.Array, pa.Array] | None:
    """Both ends as text where every value is one of this kind, or an interval of them."""
    found = pc.extract_regex(values, rf"^(?:\[(?P<lo>{pattern})(?: - |-)(?P<hi>{pattern})\]|(?P<only>{pattern}))$")
    if found.null_count:
        return None
    lo, hi, only = found.flatten()
    single = pc.not_equal(only, "")
    return pc.if_else(single, only, lo), pc.if_else(single, only, hi)


def _numbers(lo: pa.Array, hi: pa.Array) -> tuple[pa.Array, pa.Array]:
    try:
        return lo.cast(pa.int64()), hi.cast(pa.int64())
    except pa.ArrowInvalid:
        return lo.cast(pa.float64()), hi.cast(pa.float64())


def _moments(lo: pa.Array, hi: pa.Array) -> tuple[pa.Array, pa.Array]:
    for kind in (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return lo.cast(kind), hi.cast(kind)
        except pa.ArrowInvalid:
            continue
    raise UsageError("The file mixes dates and points in time in one column.")


def _steps(lo: pa.Array, hi: pa.Array) -> Floats:
    """How many values lie in an interval: no more than one where both ends agree, without end for floats."""
    if pa.types.is_floating(lo.type):
        return np.where(pc.equal(lo, hi).fill_null(True).to_numpy(zero_copy_only=False), 1.0, np.inf)
    if pa.types.is_decimal(lo.type):
        width = pc.subtract(hi, lo).cast(pa.float64()).fill_null(0).to_numpy() * 10.0**lo.type.scale
    else:
        whole = pa.int32() if lo.type.bit_width == 32 and not pa.types.is_integer(lo.type) else pa.int64()
        unsigned = lo.type == pa.uint64()
        ends = (each if unsigned else each.cast(whole) for each in (lo, hi))
        first, last = (each.fill_null(0).to_numpy().astype(np.float64) for each in ends)
        width = last - first
    return np.maximum(width, 0.0) + 1.0  # type: ignore[no-any-return]


def _members(name: str, text: str, hierarchy: Hierarchy | None) -> list[str]:
    """The values that a text stands for."""
    if hierarchy is not None:
        leaves = _leaves_by_label(hierarchy)
        if text not in leaves:
            raise UsageError(f"{name}: the label {text!r} does not occur in the hierarchy that was given.")
        return leaves[text]
    if text.startswith("{") and text.endswith("}"):
        return next(csv.reader([text[1:-1]]))
    if text.startswith('"'):
        return next(csv.reader([text]))
    if text.startswith("[") and text.endswith("]") and "-" in text:
        raise UsageError(
            f"{name}: {text} is a range of categories, in an order that the file does not tell; count on the "
            "release itself (Release.count)."
        )
    if "*" in text:
        raise UsageError(
            f"{name}: {text!r} is the label of a hierarchy; say which values it stands for with --hierarchy "
            f"{name}=FILE."
        )
    return [text]


def _leaves_by_label(hierarchy: Hierarchy) -> dict[str, list[str]]:
    bound = hierarchy.bind(())
    leaves: dict[str, list[str]] = {}
    for labels, ancestors in zip(bound.labels[::-1], bound.ancestors[::-1], strict=True):  # lower levels last: they win
        ends = np.concatenate((np.flatnonzero(np.diff(ancestors)) + 1, [len(ancestors)]))
        begin = 0
        for label, end in zip(labels, ends.tolist(), strict=True):
            leaves[label] = list(bound.leaves[begin:end])
            begin = end
    return leaves


def _typed(name: str, text: str, kind: pa.DataType) -> Any:
    """A condition as `Release.count` takes it: a pair of bounds, or a list of values."""
    read, least, most = _reading(kind)
    try:
        if _BETWEEN in text:
            lo, _, hi = text.partition(_BETWEEN)
            return (read(lo.strip()) if lo.strip() else least, read(hi.strip()) if hi.strip() else most)
        return [read(value) for value in next(csv.reader([text], skipinitialspace=True))]
    except (ValueError, InvalidOperation, StopIteration):
        raise UsageError(
            f"{name}={text!r} cannot be compared with values of type {kind}; as in {name}=VALUE, {name}=LO..HI or "
            f"{name}=VALUE,VALUE."
        ) from None


def _reading(kind: pa.DataType) -> tuple[Callable[[str], Any], Any, Any]:
    """How the text of a bound is read, and what stands for no bound."""
    if pa.types.is_string(kind):
        return str, "", chr(0x10FFFF)
    if pa.types.is_boolean(kind):
        return lambda text: bool(("false", "true").index(text.lower())), False, True
    if pa.types.is_timestamp(kind):
        zone = None if kind.tz is None else datetime.UTC
        most = datetime.datetime.max.replace(tzinfo=zone)
        return _moment, datetime.datetime.min.replace(tzinfo=zone), most
    if pa.types.is_time(kind):
        return datetime.time.fromisoformat, datetime.time.min, datetime.time.max
    if pa.types.is_temporal(kind):
        return datetime.date.fromisoformat, datetime.date.min, datetime.date.max
    return Decimal, -math.inf, math.inf


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)
