"""What a bound schema does with further data: domains grow, codes stay, unknown categories are refused or appended."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import InputError, SchemaError
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.io.cells import Origin
from rtree_anon.io.coding import RowCoder, make_coder
from rtree_anon.io.table import bind_schema, grown_schema, read_table
from rtree_anon.schema import Categorical, Date, Numeric, Schema, Timestamp
from rtree_anon.space import Kind

from .arrays import any_arrays, same_values

ORIGIN = Origin("later.csv", first_row=101)


def batch(values: Any, data_type: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, data_type)})


def bound(values: Any, attribute: Any = "x") -> Schema:
    return bind_schema(pa.table({"x": values}), Schema((attribute,)))


@settings(deadline=None)
@given(array=any_arrays(), cut=st.integers(0, 12))
def test_growing_never_changes_a_code(array: pa.Array, cut: int) -> None:
    """First some rows, then the others: old codes stay, and new rows decode exactly or are refused with their row."""
    first, rest = pa.record_batch({"x": array[:cut]}), pa.record_batch({"x": array[cut:]})
    if pa.types.is_run_end_encoded(array.type) or not len(first) or not len(rest):
        return
    schema = bind_schema(first, Schema(("x",)))
    if isinstance(schema.quasi[0], Categorical):
        schema = bind_schema(first, Schema((Categorical("x", allow_new=True),)))
    before = RowCoder(schema).encode(first, ORIGIN)
    try:
        larger = grown_schema(schema, rest, ORIGIN)
        codes = RowCoder(larger).encode(rest, ORIGIN)
    except InputError as error:
        assert error.column == "x" and error.row is not None and 101 <= error.row <= 100 + len(rest)
        return
    assert RowCoder(larger).encode(first, ORIGIN).tolist() == before.tolist()
    assert same_values(RowCoder(larger).coders[0].decode(codes[:, 0]), array[cut:])
    old, new = RowCoder(schema).coders[0].axis, RowCoder(larger).coders[0].axis
    assert old.lo > old.hi or (new.lo <= old.lo and new.hi >= old.hi)


def test_numbers_grow() -> None:
    schema = bound([1, 5])
    assert grown_schema(schema, batch([-3, 9]), ORIGIN).quasi[0].domain == (-3, 9)  # type: ignore[union-attr]
    assert read_table({"x": [7]}, schema).space.axes[0].hi == 7
    assert read_table({"x": [3]}, schema).space.axes[0].hi == 5, "a domain does not shrink"


def test_a_given_domain_is_the_axis() -> None:
    coded = read_table({"x": [30, 40]}, Schema((Numeric("x", domain=(0, 120)),)))
    assert (coded.space.axes[0].lo, coded.space.axes[0].hi) == (0, 120)
    coded = read_table({"x": [0.25]}, Schema((Numeric("x", domain=(0, 1)),)))
    assert (coded.space.axes[0].lo, coded.space.axes[0].hi) == (0, 100)
    coded = read_table({"x": [0.5]}, Schema((Numeric("x", domain=(0.05, 1)),)))
    assert (coded.space.axes[0].lo, coded.space.axes[0].hi) == (5, 100), "a domain has its digits, too"
    coded = read_table({"x": [Decimal("0.25")]}, Schema((Numeric("x", domain=(Decimal("0.1"), 1)),)))
    assert (coded.space.axes[0].lo, coded.space.axes[0].hi) == (10, 100)
    days = (datetime.date(2020, 1, 1), datetime.date(2020, 1, 31))
    coded = read_table({"x": [datetime.date(2020, 1, 2)]}, Schema((Date("x", domain=days),)))
    assert coded.space.axes[0].hi - coded.space.axes[0].lo == 30
    moments = ("2020-01-01T00:00:00Z", "2020-01-01T00:01:00Z")
    column = pa.array([datetime.datetime(2020, 1, 1, 0, 0, 30)], pa.timestamp("ms", tz="Asia/Tokyo"))
    coded = read_table(pa.table({"x": column}), Schema((Timestamp("x", domain=moments),)))
    assert coded.space.axes[0].hi - coded.space.axes[0].lo == 60_000


@pytest.mark.parametrize(
    ("attribute", "column"),
    [
        (Numeric("x", domain=(0.5, 2)), pa.array([1])),
        (Numeric("x", domain=(0.05, 2), decimals=1), pa.array([1.5])),
        (
            Timestamp("x", domain=("2020-01-01T00:00:00", "2020-01-02T00:00:00")),
            pa.array([0], pa.timestamp("s", "UTC")),
        ),
        (Timestamp("x", domain=("12:00:00", "13:00:00")), pa.array([0], pa.timestamp("s"))),
        (Timestamp("x", domain=("12:00:00", "13:00:00.5")), pa.array([0], pa.time32("s"))),
    ],
)
def test_a_domain_that_does_not_fit_the_column(attribute: Any, column: pa.Array) -> None:
    with pytest.raises(SchemaError, match="domain's end"):
        read_table(pa.table({"x": column}), Schema((attribute,)))


def test_values_beyond_the_bits_that_are_fixed() -> None:
    schema = bound([1, 5])
    with pytest.raises(InputError, match="outside the range") as caught:
        RowCoder(schema).encode(batch([1, 2**40]), ORIGIN)
    assert (caught.value.source, caught.value.row, caught.value.column) == ("later.csv", 102, "x")


def test_a_number_that_must_not_grow() -> None:
    for column in ([1, 5, None], [1.5, 5.0, None], [1 / 3, 5.0, None]):
        coder = RowCoder(bound(column, Numeric("x", grow=False)))
        assert coder.encode(batch(column), ORIGIN).shape == (3, 1)
        with pytest.raises(InputError, match="outside the domain") as caught:
            coder.encode(batch([None, 5.5 if isinstance(column[0], float) else 6]), ORIGIN)
        assert caught.value.row == 102


def test_more_digits_than_are_coded() -> None:
    with pytest.raises(InputError, match="decimals") as caught:
        RowCoder(bound([1.5, 2.0])).encode(batch([1.5, 1.25]), ORIGIN)
    assert caught.value.row == 102
    wide = pa.decimal128(38, 10)
    with pytest.raises(InputError, match="decimals") as caught:
        RowCoder(bound(pa.array([Decimal("1.5")], wide))).encode(batch([Decimal("1.5"), Decimal("1.25")], wide), ORIGIN)
    assert caught.value.row == 102


def test_continuous_numbers_take_any_float() -> None:
    coder = RowCoder(bound([1.5], Numeric("x", continuous=True)))
    assert coder.space.axes[0].kind is Kind.FLOAT
    codes = coder.encode(batch([1e300, -1e-300, None, 1 / 3]), ORIGIN)
    assert coder.coders[0].decode(codes[:, 0]).to_pylist() == [1e300, -1e-300, None, 1 / 3]


def test_other_types_of_the_same_attribute() -> None:
    coder = RowCoder(bound([1, 500]))
    for values, data_type in (([7], pa.int8()), ([7], pa.uint64()), ([7.0], pa.float32()), (["7"], pa.string())):
        assert coder.encode(batch(values, data_type), ORIGIN).tolist() == [[7]]
    assert coder.encode(batch([None], pa.null()), ORIGIN).tolist() == [[np.iinfo(np.int32).min]]
    for values, data_type in (([7.5], pa.float64()), (["x"], pa.string()), ([True], pa.date32())):
        if data_type == pa.date32():
            values = [datetime.date(2020, 1, 1)]
        with pytest.raises(InputError) as caught:
            coder.encode(batch(values, data_type), ORIGIN)
        assert (caught.value.row, caught.value.column) == (101, "x")


def test_zones_are_not_mixed_up() -> None:
    naive = RowCoder(bound(pa.array([0], pa.timestamp("s"))))
    with pytest.raises(InputError, match="cannot be read as"):
        naive.encode(batch([0], pa.timestamp("s", "UTC")), ORIGIN)
    paris = RowCoder(bound(pa.array([0], pa.timestamp("ms", "Europe/Paris"))))
    assert paris.encode(batch([5], pa.timestamp("s", "UTC")), ORIGIN).tolist() == [[5000]]
    with pytest.raises(InputError, match="does not fit"):
        paris.encode(batch([5], pa.timestamp("us", "UTC")), ORIGIN)


def test_unknown_categories_are_refused() -> None:
    coder = RowCoder(bound(["a", "b"]))
    with pytest.raises(InputError, match="'c' is not known") as caught:
        coder.encode(batch(["a", None, "c"]), ORIGIN)
    assert caught.value.row == 103
    unused = pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array(["a", "c"]))
    assert coder.encode(pa.record_batch({"x": unused}), ORIGIN)[0, 0] == 0, "a dictionary may list unused values"


def test_new_categories_come_last() -> None:
    schema = bound(["m", "n"], Categorical("x", allow_new=True))
    larger = grown_schema(schema, batch(["z", "a", "m", None]), ORIGIN)
    assert larger.quasi[0].values == ("m", "n", "a", "z")  # type: ignore[union-attr]
    ordered = bound(["low"], Categorical("x", order=("low", "high"), allow_new=True))
    larger = grown_schema(ordered, batch(["huge"]), ORIGIN)
    assert larger.quasi[0].values == ("low", "high", "huge")  # type: ignore[union-attr]
    assert larger.quasi[0].order == ("low", "high")  # type: ignore[union-attr]


def test_many_categories_are_a_span() -> None:
    for n, kind in ((63, Kind.SET), (64, Kind.SPAN)):
        axis = read_table({"x": [f"{i:03}" for i in range(n)]}, Schema(("x",))).space.axes[0]
        assert (axis.kind, axis.n_categories, axis.hi) == (kind, n, n - 1)


def test_categories_with_a_hierarchy_are_in_its_order() -> None:
    tree = Hierarchy.from_tree({"*": {"warm": ["red", "orange"], "cold": ["blue"]}})
    coded = read_table({"x": ["blue", "red", None]}, Schema((Categorical("x", hierarchy=tree),)))
    axis, labels = coded.space.axes[0], coded.schema.quasi[0].values  # type: ignore[union-attr]
    assert axis.kind is Kind.TREE and axis.n_categories == 3 and axis.ancestors is not None
    assert labels == tuple(tree.bind(["blue"]).leaves) and axis.ancestors.shape == (3, 3)
    assert coded.coders[0].decode(coded.codes[:, 0]).to_pylist() == ["blue", "red", None]


def test_a_hierarchy_of_numbers() -> None:
    coded = read_table({"x": [7, 12, 9]}, Schema((Categorical("x", hierarchy=Hierarchy.intervals([5, 10])),)))
    assert coded.schema.quasi[0].values == ("7", "9", "12")  # type: ignore[union-attr]
    assert coded.coders[0].decode(coded.codes[:, 0]).to_pylist() == [7, 12, 9]


def test_a_column_without_values() -> None:
    nothing = pa.nulls(2)
    attributes = (
        "a",
        Numeric("b"),
        Date("c"),
        Timestamp("d"),
        Categorical("e", hierarchy=Hierarchy.digits(2)),
        Categorical("f", order=("x",)),
    )
    coded = read_table(pa.table(dict.fromkeys("abcdef", nothing)), Schema(attributes))
    assert (coded.codes == np.iinfo(np.int32).min).all()
    for column, coder in enumerate(coded.coders):
        assert coder.decode(coded.codes[:, column]).null_count == 2
        assert coded.space.axes[column].has_missing


def test_an_unbound_attribute_has_no_coder() -> None:
    for attribute in ("x", Numeric("x"), Categorical("x")):
        with pytest.raises(SchemaError, match="not bound"):
            make_coder(attribute)


def test_weights_reach_the_axes() -> None:
    coded = read_table({"x": [1], "y": [2]}, Schema(("x", "y"), weights={"y": 2.5}))
    assert [axis.weight for axis in coded.space.axes] == [1.0, 2.5]


def test_values_far_from_zero_use_32_bits() -> None:
    far = 10**15
    coded = read_table({"x": [far, far + 2**32 - 4]}, Schema(("x",)))
    assert coded.codes.dtype == np.int32
    assert coded.coders[0].decode(coded.codes[:, 0]).to_pylist() == [far, far + 2**32 - 4]
    wide = read_table({"x": [far, far + 2**32]}, Schema(("x",)))
    assert wide.codes.dtype == np.int64
