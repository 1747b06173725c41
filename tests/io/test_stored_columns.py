"""Carried columns come back from their codes as they were: every Arrow type, bit by bit, whatever the batches are."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import BudgetError, CorruptionError, InputError
from rtree_anon.io.cells import Origin
from rtree_anon.io.key_column import KeyColumn
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.schema import Schema
from rtree_anon.space import missing_code

from .arrays import any_arrays

ORIGIN = Origin("later.parquet", first_row=101)
MANY_BYTES = 1 << 24
NO_CODES = np.empty((0, 0), np.int64)


def stored_for(array: pa.Array, *, role: str = "keep", limit: int = MANY_BYTES) -> StoredColumns:
    schema = Schema(["q"], **{role: "x" if role == "key" else ["x"]})  # type: ignore[arg-type]
    return StoredColumns.for_types(schema, {"x": array.type}, "file", limit)


def encoded(stored: StoredColumns, array: pa.Array, dtype: Any = np.int64) -> Any:
    columns = stored.encode(pa.record_batch({"x": array}), ORIGIN, dtype)
    for codes, (lo, hi) in zip(columns, stored.ranges, strict=True):
        present = codes[codes != missing_code(dtype)]
        assert codes.dtype == dtype and ((present >= lo) & (present <= hi)).all()
    return np.stack(columns, axis=1)


def plain(array: pa.Array) -> pa.Array:
    if pa.types.is_run_end_encoded(array.type):
        array = pa.compute.run_end_decode(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    if pa.types.is_large_binary(array.type) or pa.types.is_binary_view(array.type):
        return array.cast(pa.binary())
    return array


def bits(array: pa.Array) -> list[Any]:
    """Values that can be compared: floats by their bits, so that NaN is equal to itself and -0.0 not to 0.0."""
    assert array.validate(full=True) is None
    if pa.types.is_floating(array.type):
        array = array.view(getattr(pa, f"uint{array.type.bit_width}")())
    elif pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type) or pa.types.is_time64(array.type):
        array = array.cast(pa.int64())
    return list(array.to_pylist())


def binary_arrays() -> st.SearchStrategy[pa.Array]:
    values = st.lists(st.one_of(st.binary(max_size=5), st.none()), max_size=12)
    types = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()])
    fixed = st.lists(st.one_of(st.binary(min_size=3, max_size=3), st.none()), max_size=12)
    return st.one_of(st.builds(pa.array, values, types), fixed.map(lambda v: pa.array(v, pa.binary(3))))


@settings(deadline=None)
@given(array=st.one_of(any_arrays(), binary_arrays()), cut=st.integers(0, 12), data=st.data())
def test_every_type_comes_back(array: pa.Array, cut: int, data: st.DataObject) -> None:
    stored = stored_for(array)
    role_type = plain(array).type
    codes = np.concatenate([encoded(stored, array[:cut]), encoded(stored, array[cut:])])
    back = stored.decode(codes)["x"]
    assert back.type == role_type and bits(back) == bits(plain(array))
    order = np.array(data.draw(st.permutations(range(len(array)))), int)
    assert bits(stored.decode(codes[order])["x"]) == [bits(plain(array))[i] for i in order]
    again = reopened(stored)
    assert bits(again.decode(codes)["x"]) == bits(plain(array))
    assert np.array_equal(encoded(again, array), codes), "codes stay when the index is opened again"


def reopened(stored: StoredColumns) -> StoredColumns:
    again = StoredColumns.from_description(stored.description, MANY_BYTES)
    for name, dictionary in stored.dictionaries.items():
        again.dictionaries[name].add_bytes(dictionary.to_bytes())
    return again


def test_float_bits_survive() -> None:
    nan = np.array([0x7FF8DEADBEEF0001, 0xFFF0000000000001, 0x8000000000000000], np.uint64).view(np.float64)
    for array in (pa.array(nan), pa.array(nan.view(np.uint32).view(np.float32)), pa.array(nan.view(np.float16))):
        stored = stored_for(array)
        assert bits(stored.decode(encoded(stored, array))["x"]) == bits(array)


def test_nothing_that_is_nested_can_be_carried() -> None:
    for array in (pa.array([[1]]), pa.array([{"a": 1}]), pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))):
        with pytest.raises(InputError, match="file, column 'x': the column holds nested values"):
            stored_for(array)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (pa.array([1], pa.int64()), pa.array([2, None], pa.int8())),
        (pa.array([1], pa.int32()), pa.array(["7", None])),
        (pa.array(["a"]), pa.array(["b", "a", None]).dictionary_encode()),
        (pa.array([b"a"]), pa.array(["b", None])),
        (pa.array([1.5], pa.float32()), pa.array([2.5, None], pa.float64())),
        (pa.array([Decimal("1.5")]), pa.array([Decimal("2.5"), None], pa.decimal256(40, 1))),
        (pa.array([1], pa.timestamp("us")), pa.array([2], pa.timestamp("ms"))),
        (pa.array([True]), pa.nulls(2)),
        (pa.array(["a"]), pa.nulls(2)),
        (pa.nulls(2), pa.array(["a", None], pa.string_view())),
        (pa.nulls(2), pa.array([3, None], pa.int64())),
        (pa.nulls(2), pa.array([True, None])),
        (pa.nulls(2), pa.array([b"abc"], pa.binary(3))),
    ],
    ids=lambda array: str(array.type),
)
def test_a_later_file_may_have_another_type(first: pa.Array, later: pa.Array) -> None:
    stored = stored_for(first)
    codes = np.concatenate([encoded(stored, first), encoded(stored, later)])
    back = reopened(stored).decode(codes)["x"]
    expected = first.type if not pa.types.is_null(first.type) else plain(later).type
    assert back.type == expected
    assert bits(back) == bits(first.cast(expected)) + bits(plain(later).cast(expected))


@pytest.mark.parametrize(
    ("first", "later", "problem"),
    [
        (pa.array([1], pa.int8()), pa.array([5, 300]), "300 does not fit the column's type int8"),
        (pa.array([1]), pa.array(["5", "many"]), "'many' is not a whole number"),
        (pa.array([1.5], pa.float32()), pa.array([0.5, 0.1]), "0.1 does not fit the column's type float32"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(first: pa.Array, later: pa.Array, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        encoded(stored_for(first), later)
    assert (caught.value.source, caught.value.row, caught.value.column) == ("later.parquet", 102, "x")


@settings(deadline=None)
@given(batches=st.lists(st.lists(st.one_of(st.none(), st.text("ab", max_size=9)), max_size=60), max_size=6))
def test_dictionaries_number_values_in_reading_order(batches: list[list[str | None]]) -> None:
    """The slow twin: a dict that gives each new value the next number, whatever layout the batch has."""
    known: dict[str, int] = {}
    stored = stored_for(pa.array([], pa.string()))
    dictionary = stored.dictionaries["x"]
    for number, batch in enumerate(batches):
        expected = [-1 if value is None else known.setdefault(value, len(known)) for value in batch]
        array = pa.array(batch, pa.string())
        if number % 2:  # with a value that no row has
            extended = pa.concat_arrays([pa.array(["never seen"]), array]).dictionary_encode()
            array = extended.slice(1)
        assert dictionary.number(array).tolist() == expected
    assert dictionary.values().to_pylist() == list(known)


def test_many_values_of_many_lengths() -> None:
    values = [f"{i:x}" * (i % 40) + str(i) for i in range(50_000)]
    stored = stored_for(pa.array(values))
    assert stored.dictionaries["x"].number(pa.array(values)).tolist() == list(range(50_000))
    assert stored.dictionaries["x"].number(pa.array(values[::-7])).tolist() == list(range(50_000))[::-7]
    again = reopened(stored).dictionaries["x"]
    assert again.values().to_pylist() == values
    assert sum(map(len, values)) < again.n_bytes < 2.5 * sum(map(len, values))


def test_a_dictionary_in_parts() -> None:
    whole, parts = stored_for(pa.array(["a"])), stored_for(pa.array(["a"]))
    for values in (["a", "b"], [], ["c", "a"]):
        first = len(whole.dictionaries["x"])
        encoded(whole, pa.array(values, pa.string()))
        parts.dictionaries["x"].add_bytes(whole.dictionaries["x"].to_bytes(first))
    assert parts.dictionaries["x"].values().to_pylist() == ["a", "b", "c"]


def test_dictionaries_stay_within_their_limit() -> None:
    schema = Schema(["q"], keep=["note", "other"])
    types = {"note": pa.string(), "other": pa.string()}
    stored = StoredColumns.for_types(schema, types, "file", 200_000)
    batch = pa.record_batch({"note": [f"note {i}" for i in range(1000)], "other": ["a"] * 1000})
    stored.encode(batch, ORIGIN)
    many = pa.record_batch({"note": ["a"] * 10_000, "other": [f"other {i}" for i in range(10_000)]})
    with pytest.raises(BudgetError, match=r"column 'other'.*distinct values.*more memory, or leave the column out"):
        stored.encode(many, ORIGIN)
    assert sum(dictionary.n_bytes for dictionary in stored.dictionaries.values()) <= 200_000


def test_what_was_not_committed_is_forgotten() -> None:
    stored = stored_for(pa.array(["a"]))
    encoded(stored, pa.array(["a", "b"]))
    sizes, shown = stored.sizes(), stored.dictionaries["x"].values()
    encoded(stored, pa.array(["c", "d", "a"]))
    stored.cut_back(sizes)
    assert stored.sizes() == sizes == {"x": 2}
    assert encoded(stored, pa.array(["d", "b", "c"])).tolist() == [[2], [1], [3]]
    assert shown.to_pylist() == ["a", "b"]
    undecided = stored_for(pa.nulls(1))
    encoded(undecided, pa.array([5]))
    undecided.cut_back({"x": 0})
    assert undecided.description == [["x", "null", "dictionary"]]
    assert encoded(undecided, pa.array(["text"])).tolist() == [[0]]


def test_damaged_parts_of_a_dictionary() -> None:
    """Any damage is a CorruptionError, or was not seen because the part still holds distinct values of its type."""
    stored = stored_for(pa.array(["a"]))
    encoded(stored, pa.array([f"value {i}" for i in range(300)]))
    part = stored.dictionaries["x"].to_bytes()
    random = np.random.default_rng(0)
    n_noticed = 0
    for _ in range(500):
        damaged = bytearray(part[: random.integers(len(part)) if random.random() < 0.2 else len(part)])
        for place in random.integers(0, max(len(damaged), 1), 2):
            if len(damaged):
                damaged[place] = random.integers(256)
        empty = stored_for(pa.array(["a"])).dictionaries["x"]
        try:
            empty.add_bytes(bytes(damaged))
        except CorruptionError as error:
            assert "dictionary of column 'x'" in str(error)
            n_noticed += 1
        assert len(set(empty.values().to_pylist())) == len(empty)
    assert n_noticed > 300


def test_parts_that_do_not_fit() -> None:
    stored = stored_for(pa.array(["a"]))
    encoded(stored, pa.array(["a", "b"]))
    part = stored.dictionaries["x"].to_bytes()
    with pytest.raises(CorruptionError, match="has a value twice"):
        stored.dictionaries["x"].add_bytes(part)
    with pytest.raises(CorruptionError, match="does not hold one column of its type"):
        stored_for(pa.array([b"a"])).dictionaries["x"].add_bytes(part)


@pytest.mark.parametrize(
    "description",
    [
        5,
        [["x", "int32"]],
        [["x", "int32", "halves"]],
        [["x", "int33", "whole"]],
        [["x", "string", "whole"]],
        [["x", "string", "id"]],
        [[1, "int32", "whole"]],
        [["x", "binary[a]", "dictionary"]],
        [["x", "binary[0]", "dictionary"]],
        [["x", 7, "dictionary"]],
        [["x", "int64", "id"], ["y", "int64", "id"]],
    ],
)
def test_damaged_descriptions(description: Any) -> None:
    with pytest.raises(CorruptionError):
        StoredColumns.from_description(description, MANY_BYTES)


@pytest.mark.parametrize(
    ("array", "codes"),
    [
        (pa.array([True]), [[2]]),
        (pa.array([1], pa.int8()), [[128]]),
        (pa.array([1], pa.float16()), [[-1]]),
        (pa.array([1]), [[2**31, 0]]),
        (pa.array([1]), [[0, -1]]),
        (pa.array([1]), [[missing_code(np.int64), 0]]),
        (pa.array(["a"]), [[1]]),
        (pa.array(["a"]), [[-1]]),
    ],
)
def test_codes_that_cannot_be(array: pa.Array, codes: list[list[int]]) -> None:
    stored = stored_for(array)
    encoded(stored, array)
    with pytest.raises(CorruptionError, match="column 'x'"):
        stored.decode(np.array(codes))


@pytest.mark.parametrize("data_type", [pa.int8(), pa.int64(), pa.uint64()])
def test_a_whole_number_key_is_the_id(data_type: pa.DataType) -> None:
    keys = pa.array([7, 0, 100], data_type)
    stored = stored_for(keys, role="key")
    assert stored.key == ("x", data_type) and stored.ranges == [] and stored.types == {"x": data_type}
    assert stored.description == [["x", str(data_type), "id"]]
    ids = reopened(stored).ids(pa.record_batch({"x": keys}), ORIGIN, NO_CODES)
    assert ids.tolist() == [7, 0, 100] and ids.dtype == np.int64
    assert stored.decode_ids(ids) == keys


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (pa.array([7, None]), "the key is missing"),
        (pa.array([7, -1]), "the key -1 is not from 0 to"),
        (pa.array([7, 2**63], pa.uint64()), "the key 9223372036854775808 is not from 0 to"),
    ],
)
def test_keys_that_cannot_be_ids(keys: pa.Array, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        stored_for(keys, role="key").ids(pa.record_batch({"x": keys}), ORIGIN, NO_CODES)
    assert (caught.value.row, caught.value.column) == (102, "x")


def test_other_keys_are_kept_as_bytes() -> None:
    keys = pa.array(["b", "a longer one", "b", ""])
    stored = stored_for(keys, role="key")
    assert stored.key is None and stored.key_column is not None and stored.description[0][2].startswith("key:28:")
    codes = encoded(stored, keys)
    assert codes[:, 0].tolist() == [1, 12, 1, 0] and codes[0, 1] == ord("b") << 48
    again = reopened(stored)
    assert again.decode(codes)["x"] == keys
    ids = again.ids(pa.record_batch({"x": keys}), ORIGIN, codes.T)
    assert ids[0] == ids[2] and len(set(ids.tolist())) == 3 and 0 <= ids.min() <= ids.max() < 2**62
    with pytest.raises(InputError, match="row 102, column 'x': the key is missing"):
        encoded(again, pa.array(["b", None]))


@settings(deadline=None)
@given(array=any_arrays())
def test_keys_of_any_type_come_back(array: pa.Array) -> None:
    """Equal codes mean equal values; more room does not change an id; other salts give other ids."""
    array = plain(array).drop_null()
    if pa.types.is_null(array.type) or pa.types.is_integer(array.type):
        return
    longest = max((len(value) for value in array.cast(pa.binary()).to_pylist()), default=0) if is_bytes(array) else 0
    column = KeyColumn.for_length("x", array.type, longest)
    codes = np.stack(column.encode(array, np.int64)) if len(array) else np.empty((len(column.ranges), 0), np.int64)
    for one, (lo, hi) in zip(codes, column.ranges_of(len(array), None), strict=True):
        assert ((one >= lo) & (one <= hi)).all()
    assert bits(column.decode(codes.T)) == bits(array)
    ids = column.ids(codes)
    distinct = {tuple(row) for row in codes.T.tolist()}
    assert len(distinct) == len(set(ids.tolist()))
    wide = column.with_room_for(column.room + 1) if is_bytes(array) else column
    assert wide.room >= column.room and wide.ids(np.stack(wide.encode(array, np.int64))).tolist() == ids.tolist()
    assert not len(array) or column.with_salt(7).ids(codes).tolist() != ids.tolist()
    assert bits(KeyColumn.from_coding("x", array.type, column.coding).decode(codes.T)) == bits(array)


def is_bytes(array: pa.Array) -> bool:
    return pa.types.is_string(array.type) or pa.types.is_binary(array.type)


@pytest.mark.parametrize("coding", ["key:", "key:28", "key:27:0000000000000000", "key:70000:0000000000000000", "key"])
def test_a_damaged_description_of_a_key(coding: str) -> None:
    with pytest.raises(CorruptionError):
        StoredColumns.from_description([["x", "string", coding]], MANY_BYTES)
    with pytest.raises(CorruptionError, match="carried"):
        fine = ["x", "string", "key:28:0000000000000000"]
        StoredColumns.from_description([fine, ["y", "string", "dictionary"]], MANY_BYTES)


def test_codes_that_are_no_key() -> None:
    column = KeyColumn.for_length("x", pa.string(), 9)
    good = np.stack(column.encode(pa.array(["abc"]), np.int64)).T
    for place, code in ((0, 29), (0, -1), (1, 2**56), (1, 0xFF << 48)):
        bad = good.copy()
        bad[0, place] = code
        with pytest.raises(CorruptionError):
            column.decode(bad)


@settings(deadline=None)
@given(array=any_arrays())
def test_ranges_by_what_is_known(array: pa.Array) -> None:
    """Smallest and largest number, and how many rows there are, give ranges that hold all codes."""
    array = plain(array)
    stored = stored_for(array)
    codes = encoded(stored, array)
    whole = pa.types.is_integer(array.type) or pa.types.is_temporal(array.type)
    ends = None
    if whole and array.null_count < len(array):
        numbers = (
            array.view(getattr(pa, f"int{array.type.bit_width}")()) if not pa.types.is_integer(array.type) else array
        )
        limits = pa.compute.min_max(numbers).as_py()
        ends = limits["min"], limits["max"]
    elif whole:
        ends = None, None
    fresh = stored_for(array)
    ranges = fresh.columns[0].ranges_of(len(array), ends)
    for column, (lo, hi), (least, most) in zip(codes.T, ranges, stored.ranges, strict=True):
        present = column[column != missing_code(np.int64)]
        assert ((present >= lo) & (present <= hi)).all()
        assert lo > hi or (least <= lo and hi <= most)
