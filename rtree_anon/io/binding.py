"""Binding: from what a user said about an attribute and from the data to a coding that is fixed for good.

A binder folds over the batches of a column (smallest and largest value, digits that are needed, distinct categories)
and then gives the bound attribute. What the attribute already knows is kept: a domain only grows, a coding that is
already fixed does not change, and a category that is not listed is an error unless the attribute allows new ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtree_anon.errors import BudgetError, InputError, SchemaError
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.io.cells import CellError, Origin, first_row_with, located, shown_at
from rtree_anon.io.coding import category_values, encoded_categories, unknown_value
from rtree_anon.io.conforming import conform
from rtree_anon.io.domains import domain_units, unit_limits, unit_to_value
from rtree_anon.io.types import accepts, category_type, checked_own_type, plain_type, type_from_text, type_text
from rtree_anon.io.values import MAX_DIGITS, needed_decimals, needed_scale, to_floats, to_units
from rtree_anon.schema import Attribute, Boolean, Categorical, Date, Numeric, Timestamp

_LABEL_BYTES = 150  # of a category's text as an object of Python, in a tuple and in a lookup
_DEFAULT_TYPES = {Numeric: "int64", Date: "date32", Timestamp: "timestamp[us]", Boolean: "bool"}


class Binder(Protocol):
    """Learns what an attribute's coding needs from one batch after the other."""

    has_missing: bool

    @property
    def attribute(self) -> Attribute: ...

    def observe(self, column: pa.Array, origin: Origin) -> None: ...

    def finish(self) -> Attribute: ...


def make_binder(attribute: Attribute, column_type: pa.DataType, source: str) -> Binder:
    """The binder of an attribute for a column that comes as `column_type`."""
    own = _own_type(attribute, column_type, source)
    if isinstance(attribute, Categorical):
        return CategoryBinder(attribute, own)
    if isinstance(attribute, Numeric) and pa.types.is_floating(own):
        return FloatBinder(attribute, own, source)
    return LinearBinder(attribute, own, source)


class LinearBinder:
    """Smallest and largest unit."""

    def __init__(self, attribute: Attribute, own_type: pa.DataType, source: str) -> None:
        self.attribute, self.own_type, self.source = attribute, own_type, source
        self.has_missing = False
        self.lo, self.hi = 1, 0
        self.decimals: int | None = None
        self.finds_decimals = False
        if isinstance(attribute, Numeric) and pa.types.is_decimal(own_type):
            # a type with more digits than a code has is used up to the decimals that the data really has
            self.finds_decimals = attribute.decimals is None and own_type.precision > MAX_DIGITS
            self.decimals = attribute.decimals
            if self.decimals is None:
                self.decimals = 0 if self.finds_decimals else max(own_type.scale, 0)

    def observe(self, column: pa.Array, origin: Origin) -> None:
        with located(origin, self.attribute.name):
            values = conform(column, self.own_type)
            self.has_missing |= values.null_count > 0
            if values.null_count == len(values):
                return
            if self.finds_decimals:
                self._find_decimals(values)
            try:
                units, _ = to_units(values.drop_null(), self.decimals)
            except CellError:
                to_units(values, self.decimals)  # raises again, with the index among all rows
                raise
            lo, hi = int(units.min()), int(units.max())
            limits = unit_limits(self.own_type)
            if limits is not None and not limits[0] <= lo <= hi <= limits[1]:
                index = int(np.argmax((units < limits[0]) | (units > limits[1])))
                row = int(np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))[index])
                raise CellError(row, "the date is outside the years 1 to 9999")
        self.lo, self.hi = (min(lo, self.lo), max(hi, self.hi)) if self.lo <= self.hi else (lo, hi)

    def _find_decimals(self, values: pa.Array) -> None:
        before = self.decimals or 0
        self.decimals = needed_scale(values, before)
        more = 10 ** (self.decimals - before)
        self.lo, self.hi = self.lo * more, self.hi * more

    def finish(self) -> Attribute:
        attribute = self.attribute
        if isinstance(attribute, Boolean):
            return replace(attribute, type=type_text(self.own_type))
        assert not isinstance(attribute, Categorical)
        known = replace(attribute, type=type_text(self.own_type))
        if isinstance(known, Numeric):
            known = replace(known, continuous=False, decimals=self.decimals)
        lo, hi = _grown(domain_units(known, self.own_type), (self.lo, self.hi), attribute.grow)
        if lo <= hi:
            ends = [unit_to_value(unit, self.own_type, self.decimals) for unit in (lo, hi)]
            known = replace(known, domain=(ends[0], ends[1]))
        if isinstance(known, Date):
            return known
        return _with_code_range(known, lo, hi, self.source)


class FloatBinder:
    """Smallest and largest float, and the decimals that give every one of them back."""

    def __init__(self, attribute: Numeric, own_type: pa.DataType, source: str) -> None:
        self.attribute, self.own_type, self.source = attribute, own_type, source
        self.has_missing = False
        self.lo, self.hi = np.inf, -np.inf
        self.fixed = attribute.bound or attribute.decimals is not None or attribute.continuous
        self.decimals: int | None = None if attribute.continuous else attribute.decimals or 0
        if not self.fixed and attribute.domain is not None:  # a domain that was given has its digits, too
            ends = np.array([float(end) for end in attribute.domain])
            self.decimals = needed_decimals(ends, pa.float64(), 0)

    def observe(self, column: pa.Array, origin: Origin) -> None:
        with located(origin, self.attribute.name):
            floats = conform(column, self.own_type)
            values, mask = to_floats(floats)
            if self.fixed and self.decimals is not None:
                to_units(floats, self.decimals)  # refuses a value with more digits
        if mask is not None:
            self.has_missing = True
            values = values[~mask]
        if not len(values):
            return
        self.lo, self.hi = min(self.lo, float(values.min())), max(self.hi, float(values.max()))
        if not self.fixed and self.decimals is not None:
            self.decimals = needed_decimals(values, self.own_type, self.decimals)

    def finish(self) -> Attribute:
        known = replace(self.attribute, type=type_text(self.own_type))
        domain = known.domain
        if self.lo <= self.hi:
            lo, hi = self.lo, self.hi
            if domain is not None and known.grow:
                lo, hi = min(lo, float(domain[0])), max(hi, float(domain[1]))
            known = replace(known, domain=(lo, hi) if domain is None or known.grow else domain)
        if self.decimals is None:
            return replace(known, decimals=None, continuous=True, base=0, bits=64)
        known = replace(known, decimals=self.decimals, continuous=False)
        return _with_code_range(known, *domain_units(known, self.own_type), self.source)


class CategoryBinder:
    """Distinct values, in at most `limit_bytes` of memory."""

    limit_bytes: float = math.inf

    def __init__(self, attribute: Categorical, own_type: pa.DataType) -> None:
        self.attribute, self.own_type = attribute, own_type
        self.has_missing = False
        listed = attribute.values if attribute.values is not None else attribute.order
        self.seen = self._in_own_type(listed or ())
        self.n_listed = None if listed is None else len(listed)
        self.n_ordered = None if attribute.order is None else len(attribute.order)

    def observe(self, column: pa.Array, origin: Origin) -> None:
        name = self.attribute.name
        with located(origin, name):
            coded = encoded_categories(column)
            if coded.type.ordered and self.n_listed is None:  # an ordered category type brings its own order
                self.seen = category_values(coded.dictionary, self.own_type).drop_null()
                self.n_listed = self.n_ordered = len(self.seen)
            values = category_values(coded.dictionary, self.own_type)
            used = pc.unique(values.take(coded.indices.unique()))
            self.has_missing |= coded.null_count > 0 or used.null_count > 0
            new = used.filter(pc.invert(pc.is_in(used, value_set=self.seen))).drop_null()
            if len(new) and self.n_listed is not None and not self.attribute.allow_new:
                index, value = _first_row_of(new, values, coded.indices)
                raise unknown_value(index, value)
            self._check_hierarchy(new, values, coded.indices)
        self.seen = pa.concat_arrays([self.seen, new])
        if self.seen.nbytes + _LABEL_BYTES * len(self.seen) > self.limit_bytes:
            raise BudgetError(
                f"column {name!r}: its {len(self.seen):,} distinct values do not fit the memory that there is for "
                "them; give the index more memory, or leave the column out of the quasi-identifiers."
            )

    def finish(self) -> Attribute:
        n_listed = self.n_listed or 0
        new = self.seen.slice(n_listed)
        ordered = pa.concat_arrays([self.seen.slice(0, n_listed), new.take(pc.sort_indices(new))])
        labels = tuple(ordered.cast(pa.string()).to_pylist())
        if self.attribute.hierarchy is not None and labels:
            labels = tuple(self.attribute.hierarchy.bind(labels).leaves)
        order = None if self.n_ordered is None else labels[: self.n_ordered]
        return replace(self.attribute, type=type_text(self.own_type), order=order, values=labels)

    def _check_hierarchy(self, new: pa.Array, values: pa.Array, indices: pa.Array) -> None:
        """Every new value has its place in the hierarchy; the error names the first row that has not."""
        hierarchy = self.attribute.hierarchy
        if hierarchy is None or not len(new):
            return
        labels = new.cast(pa.string()).to_pylist()
        try:
            hierarchy.bind(labels)
        except InputError:
            placed = [_has_place(hierarchy, label) for label in labels]
            index, value = _first_row_of(new.filter(pa.array([not known for known in placed])), values, indices)
            problem = f"the value {value} has no place in the attribute's hierarchy"
            raise CellError(index, f"{problem}; add it to the hierarchy or correct the data") from None

    def _in_own_type(self, labels: Sequence[str]) -> pa.Array:
        try:
            return pa.array(labels, pa.string()).cast(self.own_type)
        except pa.ArrowInvalid:
            name, own = self.attribute.name, type_text(self.own_type)
            raise SchemaError(f"attribute {name!r}: its listed values are not all of the column's type {own}") from None


def _has_place(hierarchy: Hierarchy, label: str) -> bool:
    try:
        hierarchy.bind([label])
    except InputError:
        return False
    return True


def _first_row_of(wanted: pa.Array, values: pa.Array, indices: pa.Array) -> tuple[int, str]:
    """The first row with one of the wanted values, and its value as errors print it; rows are indices into `values`."""
    index = first_row_with(indices, pc.is_in(values, value_set=wanted).to_numpy(zero_copy_only=False))
    return index, shown_at(values, indices[index].as_py())


def _own_type(attribute: Attribute, column_type: pa.DataType, source: str) -> pa.DataType:
    """The type that an attribute is bound to: the one it has, or the column's where it has none."""
    plain = plain_type(column_type)
    kind = type(attribute).__name__
    if not accepts(attribute, plain):
        problem = f"the column holds {type_text(plain)} values, which cannot be read as {kind}"
        raise InputError(problem, source=source, column=attribute.name)
    if attribute.type is not None:
        return checked_own_type(attribute, attribute.type)
    if isinstance(attribute, Categorical):
        return category_type(plain)
    unfit = isinstance(attribute, Date) and not pa.types.is_date(plain)
    unfit |= isinstance(attribute, Boolean) and not pa.types.is_boolean(plain)
    unfit |= isinstance(attribute, Timestamp) and pa.types.is_date(plain)
    unfit |= pa.types.is_string(plain)
    return type_from_text(_DEFAULT_TYPES[type(attribute)]) if unfit or pa.types.is_null(plain) else plain


def _grown(known: tuple[int, int], seen: tuple[int, int], grow: bool) -> tuple[int, int]:
    if known[0] > known[1]:
        return seen
    if seen[0] > seen[1] or not grow:
        return known
    return min(known[0], seen[0]), max(known[1], seen[1])


def _with_code_range(attribute: Numeric | Timestamp, lo: int, hi: int, source: str) -> Numeric | Timestamp:
    """Chooses base and bits: plain 32 bits, 32 bits around the middle of the domain, or 64 bits likewise."""
    if attribute.base is not None and attribute.bits is not None:
        return attribute
    for bits in (32, 64):
        largest = 2 ** (bits - 1) - 1
        middle = lo + (hi - lo) // 2
        for base in (0, middle):
            if lo > hi or -largest <= lo - base <= hi - base <= largest:
                return replace(attribute, base=base if lo <= hi else 0, bits=bits)
    problem = f"the values span more than 64 bits can tell apart (domain {attribute.domain})"
    raise InputError(problem, source=source, column=attribute.name)
