"""Every value of every type comes back from its code exactly, missing values included, whole or batch by batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.io.cells import Origin
from rtree_anon.io.coding import RowCoder
from rtree_anon.io.table import bind_schema, read_table
from rtree_anon.io.types import plain_type
from rtree_anon.schema import Categorical, Schema
from rtree_anon.schema.toml import schema_from_toml, schema_to_toml
from rtree_anon.space import Kind, missing_code

from .arrays import any_arrays, comparable, float_arrays, same_values

ORIGIN = Origin("test")


@settings(deadline=None)
@given(array=any_arrays())
def test_codes_give_back_the_column(array: pa.Array) -> None:
    coded = read_table(pa.table({"x": array}), Schema(["x"]))
    again = coded.coders[0].decode(coded.codes[:, 0])
    assert again.type == plain_type(array.type)
    assert same_values(again, array)
    assert coded.codes.flags.c_contiguous and coded.codes.dtype in (np.int32, np.int64)


@settings(deadline=None)
@given(array=any_arrays())
def test_codes_keep_the_order_of_values(array: pa.Array) -> None:
    coded = read_table(pa.table({"x": array}), Schema(["x"]))
    present = [
        (code, value) for code, value in zip(coded.codes[:, 0], comparable(array), strict=True) if value is not None
    ]
    ordered = [value for _, value in sorted(present, key=lambda pair: pair[0])]
    if pa.types.is_string(plain_type(array.type)):
        assert ordered == sorted(ordered, key=lambda text: text.encode())
    else:
        assert ordered == sorted(ordered)
    for code, value in present:
        assert all((code == other) == (value == its) for other, its in present)


@settings(deadline=None)
@given(array=any_arrays())
def test_the_axis_spans_the_codes_that_are_present(array: pa.Array) -> None:
    coded = read_table(pa.table({"x": array}), Schema(["x"]))
    axis, codes = coded.space.axes[0], coded.codes[:, 0]
    missing = codes == missing_code(codes.dtype)
    assert axis.has_missing == missing.any() == (None in comparable(array))
    if missing.all():
        assert axis.lo > axis.hi or (axis.kind is Kind.LINEAR and pa.types.is_boolean(array.type))
    elif not pa.types.is_boolean(array.type):
        assert (axis.lo, axis.hi) == (codes[~missing].min(), codes[~missing].max())


@settings(deadline=None)
@given(array=any_arrays(), cut=st.integers(0, 12))
def test_batches_code_like_the_whole(array: pa.Array, cut: int) -> None:
    """A saved and reloaded schema codes parts of a column exactly as `read_table` coded the whole."""
    table = pa.table({"x": array, "y": pa.array(range(len(array)), pa.int32())})
    coded = read_table(table, Schema(["x", "y"]))
    again = schema_from_toml(schema_to_toml(bind_schema(table, Schema(["x", "y"]))))
    assert again == coded.schema
    coder = RowCoder(again)
    whole = table.combine_chunks().to_batches()[0]
    parts = [coder.encode(part, ORIGIN) for part in (whole.slice(0, cut), whole.slice(cut))]
    assert np.concatenate(parts).tolist() == coded.codes.tolist()


@settings(deadline=None)
@given(array=any_arrays())
def test_any_column_can_be_categorical(array: pa.Array) -> None:
    coded = read_table(pa.table({"x": array}), Schema([Categorical("x")]))
    again = coded.coders[0].decode(coded.codes[:, 0])
    if again.type == pa.string() and not pa.types.is_string(plain_type(array.type)):
        array = array.cast(pa.string())
    assert same_values(again, array)
    present = [value for value in comparable(array) if value is not None]
    assert coded.space.axes[0].n_categories == len(set(present))
    assert coded.schema == schema_from_toml(schema_to_toml(coded.schema))


@settings(deadline=None)
@given(array=float_arrays())
def test_floats_with_few_digits_are_linear(array: pa.Array) -> None:
    coded = read_table(pa.table({"x": array}), Schema(["x"]))
    attribute = coded.schema.quasi[0]
    if attribute.continuous:  # then no number of decimals up to nine gives all values back
        own = np.dtype(f"float{array.type.bit_width}")
        values = np.array([v for v in comparable(array) if v is not None])
        for decimals in range(10):
            with np.errstate(over="ignore"):
                scaled = np.rint(values * 10.0**decimals)
                given_back = (scaled / 10.0**decimals).astype(own).astype(float) == values
            assert not (given_back.all() and (abs(scaled) < 2**53).all())


@pytest.mark.parametrize("decimals", range(10))
def test_scaled_floats_are_exact(decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    values = rng.integers(-(10**9), 10**9, 5000) / 10.0**decimals
    coded = read_table({"x": values}, Schema(["x"]))
    assert coded.space.axes[0].kind is Kind.LINEAR
    assert coded.schema.quasi[0].decimals <= decimals
    assert (coded.coders[0].decode(coded.codes[:, 0]).to_numpy() == values).all()
