"""Coders: one per quasi-identifier, Arrow column -> codes and codes -> Arrow array, exact both ways.

A coder is made from a *bound* attribute (see `rtree_anon.schema.attributes`) and holds nothing else, so the same schema
always gives the same codes, for a whole table as for a batch of a stream. A missing value is the smallest number of the
matrix's type. `RowCoder` does all attributes of a batch, column by column or laid out row by row.

Axes (`rtree_anon.space`) measure what the codes mean: LINEAR and FLOAT for numbers and times, SET, SPAN and TREE for
categories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.errors import SchemaError
from rtree_anon.hierarchy import BoundHierarchy
from rtree_anon.io.cells import CellError, Origin, located, shown_at
from rtree_anon.io.conforming import conform
from rtree_anon.io.domains import domain_units
from rtree_anon.io.types import (
    category_type,
    checked_own_type,
    decoded,
    is_text,
    plain_array,
    plain_type,
    type_from_text,
)
from rtree_anon.io.values import bits_to_floats, float_bits, from_units, to_floats, to_units
from rtree_anon.schema import Attribute, Boolean, Categorical, Numeric, Schema, Timestamp
from rtree_anon.space import MAX_SET_CATEGORIES, Axis, Kind, Space, missing_code

Codes = NDArray[Any]
_BLOCK_ROWS = 8192  # rows laid out at a time, so that their part of the matrix stays in cache (measured)


class Coder(Protocol):
    """One attribute's coding."""

    @property
    def name(self) -> str: ...

    @property
    def axis(self) -> Axis:
        """The axis of the schema's domain; `has_missing` is not known to a coder and is False."""
        ...

    @property
    def dtype(self) -> Any:
        """The smallest matrix type that holds the codes: int32 or int64."""
        ...

    def encode(self, column: pa.Array, dtype: Any) -> Codes:
        """Codes of a column, as an array of `dtype` (perhaps a view of Arrow's memory). Raises `CellError`."""
        ...

    def decode(self, codes: Codes) -> pa.Array:
        """The values of codes, in the attribute's own type."""
        ...


def make_coder(attribute: Attribute | str, weight: float = 1.0) -> Coder:
    """The coder of a bound attribute."""
    if isinstance(attribute, str) or not attribute.bound:
        name = attribute if isinstance(attribute, str) else attribute.name
        raise SchemaError(f"attribute {name!r} is not bound to data yet; use Schema.infer first")
    checked_own_type(attribute, attribute.type or "")
    if isinstance(attribute, Categorical):
        return CategoryCoder(attribute, weight)
    if isinstance(attribute, Numeric) and attribute.continuous:
        return ContinuousCoder(attribute, weight)
    return LinearCoder(attribute, weight)


@dataclass(frozen=True, eq=False)
class LinearCoder:
    """Codes that are affine in the value: code = units - base."""

    attribute: Attribute
    weight: float = 1.0

    @property
    def name(self) -> str:
        return self.attribute.name

    @cached_property
    def data_type(self) -> pa.DataType:
        return type_from_text(self.attribute.type or "")

    @property
    def base(self) -> int:
        base = self.attribute.base if isinstance(self.attribute, Numeric | Timestamp) else 0
        return base or 0

    @property
    def decimals(self) -> int | None:
        return self.attribute.decimals if isinstance(self.attribute, Numeric) else None

    @cached_property
    def dtype(self) -> Any:
        bits = self.attribute.bits if isinstance(self.attribute, Numeric | Timestamp) else 32
        return np.dtype(np.int64 if bits == 64 else np.int32)

    @cached_property
    def axis(self) -> Axis:
        lo, hi = domain_units(self.attribute, self.data_type)
        return Axis(self.name, Kind.LINEAR, lo - self.base, hi - self.base, self.weight)

    def encode(self, column: pa.Array, dtype: Any) -> Codes:
        units, mask = to_units(conform(column, self.data_type), self.decimals)
        if mask is not None:
            if mask.all():
                return np.full(len(units), missing_code(dtype), dtype)
            units = units.copy()
            units[mask] = units[int(np.argmin(mask))]  # any value that is present
        self._check(units, mask)
        if self.base == 0:
            codes = units.astype(dtype, copy=mask is not None)
        else:  # modulo 2**64, which is exact because the difference was checked to fit
            wrapped = np.array(self.base & (2**64 - 1), np.uint64).view(np.int64)
            codes = (units.astype(np.int64, copy=False) - wrapped).astype(dtype)
        if mask is not None:
            codes[mask] = missing_code(dtype)
        return codes

    def decode(self, codes: Codes) -> pa.Array:
        units = codes
        if self.base != 0:
            wrapped = np.array(self.base & (2**64 - 1), np.uint64).view(np.int64)
            units = np.add(codes, wrapped, dtype=np.int64)
        if not len(codes) or codes.min() != missing_code(codes.dtype):  # the smallest number of all
            return from_units(units, None, self.data_type, self.decimals)
        mask = codes == missing_code(codes.dtype)
        return from_units(np.where(mask, 0, units), mask, self.data_type, self.decimals)

    @cached_property
    def _limits(self) -> tuple[int, int, str]:
        """The smallest and the largest unit that is accepted, and what is wrong with others."""
        domain = None if isinstance(self.attribute, Boolean | Categorical) else self.attribute.domain
        if domain is not None and not self.attribute.grow:  # type: ignore[union-attr]
            problem = f"is outside the domain {domain[0]} to {domain[1]}"
            return self.axis.lo + self.base, self.axis.hi + self.base, problem
        problem = "is outside the range of numbers that this schema can code; bind the schema to data that has it"
        return missing_code(self.dtype) + 1 + self.base, int(np.iinfo(self.dtype).max) + self.base, problem

    def _check(self, units: Codes, mask: NDArray[np.bool_] | None) -> None:
        """Every unit has a code in this attribute's bits, and lies in the domain where that must not grow."""
        if not len(units):
            return
        lo, hi, problem = self._limits
        limits = np.iinfo(units.dtype)  # what the type itself rules out need not be looked for
        if (limits.min >= lo or int(units.min()) >= lo) and (limits.max <= hi or int(units.max()) <= hi):
            return
        outside = (units < lo) | (units > hi)
        if mask is not None:
            outside &= ~mask
        index = int(np.argmax(outside))
        value = from_units(units[index : index + 1].astype(np.int64), None, self.data_type, self.decimals)
        raise CellError(index, f"{shown_at(value, 0)} {problem}")


@dataclass(frozen=True, eq=False)
class ContinuousCoder:
    """Floats by their bits, in order; always 64 bits wide."""

    attribute: Numeric
    weight: float = 1.0

    @property
    def name(self) -> str:
        return self.attribute.name

    @cached_property
    def data_type(self) -> pa.DataType:
        return type_from_text(self.attribute.type or "")

    @property
    def dtype(self) -> Any:
        return np.dtype(np.int64)

    @cached_property
    def axis(self) -> Axis:
        if self.attribute.domain is None:
            return Axis(self.name, Kind.FLOAT, 1, 0, self.weight)
        ends = float_bits(np.array([float(end) for end in self.attribute.domain]) + 0.0)
        return Axis(self.name, Kind.FLOAT, int(ends[0]), int(ends[1]), self.weight)

    def encode(self, column: pa.Array, dtype: Any) -> Codes:
        values, mask = to_floats(conform(column, self.data_type))
        codes = float_bits(values).astype(dtype, copy=False)
        if not self.attribute.grow and self.attribute.domain is not None:
            outside = (codes < self.axis.lo) | (codes > self.axis.hi)
            outside &= ~mask if mask is not None else True
            if outside.any():
                index = int(np.argmax(outside))
                lo, hi = self.attribute.domain
                raise CellError(index, f"{values[index]} is outside the domain {lo} to {hi}")
        if mask is not None:
            codes[mask] = missing_code(dtype)
        return codes

    def decode(self, codes: Codes) -> pa.Array:
        mask = codes == missing_code(codes.dtype)
        values = bits_to_floats(np.where(mask, 0, codes.astype(np.int64)))
        own = np.dtype(f"float{self.data_type.bit_width}")
        return pa.array(values.astype(own), mask=mask if mask.any() else None, type=self.data_type)


@dataclass(frozen=True, eq=False)
class CategoryCoder:
    """Codes are positions in the attribute's list of values."""

    attribute: Categorical
    weight: float = 1.0

    @property
    def name(self) -> str:
        return self.attribute.name

    @cached_property
    def data_type(self) -> pa.DataType:
        return type_from_text(self.attribute.type or "")

    @property
    def dtype(self) -> Any:
        return np.dtype(np.int32)

    @property
    def labels(self) -> tuple[str, ...]:
        """The text of each category, by code."""
        return tuple(self.attribute.values or ())

    @cached_property
    def tree(self) -> BoundHierarchy | None:
        """The hierarchy over the categories, where there is one (and any category)."""
        if self.attribute.hierarchy is None or not self.labels:
            return None
        bound = self.attribute.hierarchy.bind(self.labels)
        if tuple(bound.leaves) != self.labels:
            raise SchemaError(f"attribute {self.name!r}: its values are not those of its hierarchy, in its order")
        return bound

    @cached_property
    def values(self) -> pa.Array:
        """The categories in their own type, by code."""
        return pa.array(self.labels, pa.string()).cast(self.data_type)

    @cached_property
    def axis(self) -> Axis:
        n = len(self.labels)
        kind = Kind.SET if n <= MAX_SET_CATEGORIES else Kind.SPAN
        ancestors = None
        if self.tree is not None:
            kind, ancestors = Kind.TREE, self.tree.ancestors
        ordered = self.attribute.order is not None
        return Axis(self.name, kind, 0, n - 1, self.weight, n_categories=n, ordered=ordered, ancestors=ancestors)

    def encode(self, column: pa.Array, dtype: Any) -> Codes:
        coded = encoded_categories(column)
        values = category_values(coded.dictionary, self.data_type)
        places = pc.index_in(values, value_set=self.values).fill_null(-1).to_numpy()
        missing = missing_code(dtype)
        code_of = np.append(np.where(places < 0, missing, places), missing).astype(dtype)
        indices = coded.indices.fill_null(len(places)).to_numpy()  # the last entry is for a missing index
        unknown = np.append((places < 0) & values.is_valid().to_numpy(zero_copy_only=False), False)
        if unknown.any() and unknown[indices].any():  # a dictionary may list values that no row has
            index = int(np.argmax(unknown[indices]))
            raise unknown_value(index, shown_at(values, int(indices[index])))
        codes: Codes = code_of[indices]
        return codes

    def decode(self, codes: Codes) -> pa.Array:
        mask = codes == missing_code(codes.dtype)
        return self.values.take(pa.array(np.where(mask, 0, codes), mask=mask))


def unknown_value(index: int, value: str) -> CellError:
    """The error for a category that the schema does not list."""
    advice = "add it to the schema, or let the attribute grow with allow_new=True"
    return CellError(index, f"the value {value} is not known to the schema; {advice}")


def encoded_categories(column: pa.Array) -> pa.Array:
    """The column as a dictionary of distinct values; one that has a dictionary already keeps it."""
    column = plain_array(column)
    if pa.types.is_dictionary(column.type):
        return column
    if is_text(column.type):  # large, because a batch may hold more text than 32-bit offsets reach
        return column.cast(pa.large_string()).dictionary_encode()
    return conform(column, category_type(plain_type(column.type))).dictionary_encode()


def category_values(dictionary: pa.Array, data_type: pa.DataType) -> pa.Array:
    """A dictionary's values in an attribute's own type; NaN is missing."""
    values = conform(decoded(dictionary), data_type)
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 becomes 0.0
    return values


class RowCoder:
    """Codes whole batches: one column of Arrow each to one column of a row-major matrix."""

    def __init__(self, schema: Schema) -> None:
        self.coders = tuple(
            make_coder(column, schema.weight(name))
            for column, name in zip(schema.quasi, schema.quasi_names, strict=True)
        )
        self.dtype = np.result_type(*(coder.dtype for coder in self.coders))

    @property
    def space(self) -> Space:
        return Space(tuple(coder.axis for coder in self.coders))

    def encode(self, batch: pa.RecordBatch, origin: Origin, out: Codes | None = None) -> Codes:
        """The codes of a batch's rows, C-contiguous (n, d); written to `out` where that is given."""
        matrix = np.empty((batch.num_rows, len(self.coders)), self.dtype) if out is None else out
        _interleave(list(self.columns(batch, origin, self.dtype)), matrix)
        return matrix

    def numbered_texts(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """The columns of text that are categories, as dictionaries, which is the longest part of coding them."""
        names = [coder.name for coder in self.coders if isinstance(coder, CategoryCoder)]
        return {name: encoded_categories(batch.column(name)) for name in names if is_text(batch.column(name).type)}

    def columns(self, batch: pa.RecordBatch, origin: Origin, dtype: Any) -> Iterator[Codes]:
        """The codes of one quasi-identifier after the other; perhaps views of the batch's memory."""
        for coder in self.coders:
            with located(origin, coder.name):
                codes = coder.encode(batch.column(coder.name), dtype)
            yield codes


def _interleave(columns: Sequence[Codes], matrix: Codes) -> None:
    for start in range(0, len(matrix), _BLOCK_ROWS):
        block = matrix[start : start + _BLOCK_ROWS]
        for j, column in enumerate(columns):
            block[:, j] = column[start : start + _BLOCK_ROWS]
