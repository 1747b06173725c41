"""CSV: rows and fields are those of Python's own reader, and types are decided from all rows."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtree_anon.errors import InputError
from rtree_anon.io.table import read_table
from rtree_anon.kernels.quotes import scan_quotes
from rtree_anon.schema import Boolean, Categorical, Date, Numeric, Schema, Timestamp

in_one_folder = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CELLS = st.text(st.sampled_from('ab"\n\r,;\t ü0'), max_size=5)


@in_one_folder
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    mark=st.booleans(),
)
def test_fields_are_read_exactly(
    rows: list[tuple[str, str, str]], quoting: Any, line_end: str, mark: bool, tmp_path: Path
) -> None:
    text = io.StringIO()
    if any("\r" in cell or "\n" in cell for row in rows for cell in row):
        quoting = csv.QUOTE_ALL  # the writer quotes only its own line end
    writer = csv.writer(text, quoting=quoting, lineterminator=line_end)
    writer.writerow(["a", "b", "c"])
    writer.writerows(rows)
    path = tmp_path / "x.csv"
    path.write_bytes(text.getvalue().encode("utf-8-sig" if mark else "utf-8"))
    coded = read_table(path, Schema((Categorical("a"), Categorical("c"))))
    for place, column in ((0, 0), (2, 1)):
        expected = [row[place] or None for row in rows]  # an empty field is a missing value
        assert coded.coders[column].decode(coded.codes[:, column]).to_pylist() == expected


@settings(deadline=None)
@given(text=st.text(st.sampled_from('a"\n\r,'), max_size=14), cuts=st.lists(st.integers(0, 14), max_size=3))
def test_quotes_are_judged_as_by_a_strict_reader(text: str, cuts: list[int]) -> None:
    try:
        n_records = sum(1 for record in csv.reader(io.StringIO(text, newline=""), strict=True) if record)
        fine = True
    except csv.Error:
        fine = False
    block = np.frombuffer(text.encode(), np.uint8)
    state = np.zeros(4, np.int64)
    bounds = [0, *sorted(min(cut, len(block)) for cut in cuts), len(block)]
    ours = all(scan_quotes(block[start:stop], ord(","), state) for start, stop in itertools.pairwise(bounds))
    assert (ours and state[0] != 2) == fine
    if fine:
        assert state[1] + state[2] == n_records


def read(tmp_path: Path, cells: list[str], attribute: Any = "a", *, role: str = "quasi") -> Any:
    """One column of a CSV file: its Arrow type and its values."""
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join(f"{cell},1\n" for cell in cells), encoding="utf-8")
    if role == "carried":
        column = read_table(path, Schema(("b",), keep=("a",))).payload["a"]
    else:
        coded = read_table(path, Schema((attribute,)))
        column = coded.coders[0].decode(coded.codes[:, 0])
    return str(column.type), [str(value) if value.is_valid else None for value in column]


TYPES: dict[str, tuple[list[str], str, list[str | None]]] = {
    "whole numbers": (["1", "-5", "+7"], "int64", ["1", "-5", "7"]),
    "blanks around numbers": ([" 1", "2 ", "\t3"], "int64", ["1", "2", "3"]),
    "words for missing": (["1", "NA", "NaN", "", "null", "2"], "int64", ["1", None, None, None, None, "2"]),
    "fractions": (["1.5", "2", ".5", "3."], "double", ["1.5", "2.0", "0.5", "3.0"]),
    "exponents": (["1e3", "2"], "double", ["1000.0", "2.0"]),
    "minus zero": (["-0.0", "1.5"], "double", ["0.0", "1.5"]),
    "nineteen digits": (["1234567890123456789"], "int64", ["1234567890123456789"]),
    "leading zeros": (["02139", "10001"], "string", ["02139", "10001"]),
    "leading zeros late": (["10001"] * 50 + ["02139"], "string", ["10001"] * 50 + ["02139"]),
    "zero is a number": (["0", "10", "0.5"], "double", ["0.0", "10.0", "0.5"]),
    "text": (["x", "1", "y"], "string", ["x", "1", "y"]),
    "words for missing in text": (["x", "NA", "", "y"], "string", ["x", "NA", None, "y"]),
    "truth": (["true", "False", ""], "bool", ["True", "False", None]),
    "dates": (["2020-02-29", ""], "date32[day]", ["2020-02-29", None]),
    "dates and times": (
        ["2020-02-29", "2020-02-29 12:30"],
        "timestamp[us]",
        ["2020-02-29 00:00:00", "2020-02-29 12:30:00"],
    ),
    "zones": (["2020-01-01T12:00:00+02:00"], "timestamp[us, tz=UTC]", ["2020-01-01 10:00:00+00:00"]),
    "times of day": (["12:30", "23:59:59.5"], "time64[us]", ["12:30:00", "23:59:59.500000"]),
    "nothing at all": (["", "NA"], "string", [None, None]),
    "commas for points": (['"1,5"', '"2,5"'], "string", ["1,5", "2,5"]),
    "hexadecimal": (["0x10", "0x11"], "string", ["0x10", "0x11"]),
    "other digits": (["٣", "٤"], "string", ["٣", "٤"]),
}


@pytest.mark.parametrize("case", TYPES)
def test_types_of_quasi_identifiers(case: str, tmp_path: Path) -> None:
    cells, data_type, values = TYPES[case]
    assert read(tmp_path, cells) == (data_type, values)


CARRIED: dict[str, tuple[list[str], str, list[str | None]]] = {
    "whole numbers": (["1", "", "3"], "int64", ["1", None, "3"]),
    "fractions": (["1.5", "2"], "double", ["1.5", "2.0"]),
    "more digits than a float has": (["0.12345678901234567890", "1"], "string", ["0.12345678901234567890", "1"]),
    "twenty digits": (["12345678901234567890"], "string", ["12345678901234567890"]),
    "a few words": (["1", "2", "3", "x"], "string", ["1", "2", "3", "x"]),
    "words for missing": (["1", "NA"], "string", ["1", "NA"]),
    "infinity": (["1", "inf"], "string", ["1", "inf"]),
    "leading zeros": (["01", "2"], "string", ["01", "2"]),
    "dates": (["2020-01-01", "2020-01-02"], "date32[day]", ["2020-01-01", "2020-01-02"]),
    "a day that does not exist": (["2020-01-01", "2020-02-30"], "string", ["2020-01-01", "2020-02-30"]),
    "zones mixed": (["2020-01-01T00:00Z", "2020-01-01T00:00"], "string", ["2020-01-01T00:00Z", "2020-01-01T00:00"]),
    "nothing at all": (["", ""], "null", [None, None]),
}


@pytest.mark.parametrize("case", CARRIED)
def test_columns_that_are_carried_through_keep_their_values(case: str, tmp_path: Path) -> None:
    cells, data_type, values = CARRIED[case]
    assert read(tmp_path, cells, role="carried") == (data_type, values)


DECLARED: dict[str, tuple[Any, list[str], str, list[str | None]]] = {
    "zeros in front of a Numeric": (Numeric("a"), ["007", "8"], "int64", ["7", "8"]),
    "a Numeric type": (Numeric("a", type="decimal128(9, 2)"), ["1.5", "2"], "decimal128(9, 2)", ["1.50", "2.00"]),
    "a narrow Numeric type": (Numeric("a", type="int8"), ["1", "-5"], "int8", ["1", "-5"]),
    "numbers as categories": (Categorical("a"), ["10", "9", "10"], "string", ["10", "9", "10"]),
    "0 and 1 as Boolean": (Boolean("a"), ["1", "0", ""], "bool", ["True", "False", None]),
    "a Date": (Date("a"), ["2020-01-01"], "date32[day]", ["2020-01-01"]),
    "dates as Timestamp": (Timestamp("a"), ["2020-01-01"], "timestamp[us]", ["2020-01-01 00:00:00"]),
}


@pytest.mark.parametrize("case", DECLARED)
def test_types_that_are_declared(case: str, tmp_path: Path) -> None:
    attribute, cells, data_type, values = DECLARED[case]
    assert read(tmp_path, cells, attribute) == (data_type, values)


@in_one_folder
@given(
    values=st.lists(
        st.one_of(
            st.integers(-(10**20), 10**20).map(str),
            st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30).map(repr),
            st.dates().map(str),
            st.datetimes().map(str),
            st.times().map(str),
            st.sampled_from(["true", "false", "NA", "", "0", "00", "x"]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_mixture_is_typed_or_refused(values: list[str], tmp_path: Path) -> None:
    """Whatever a column mixes, each row keeps its value (as its type prints it) or one row is named."""
    try:
        _, again = read(tmp_path, values)
    except InputError as error:
        assert error.row is not None and 1 <= error.row <= len(values)
        return
    assert len(again) == len(values)
    for given_text, value in zip(values, again, strict=True):
        assert (value is None) == (given_text in ("", "NA")) or value == given_text


def test_a_type_that_only_the_last_of_many_blocks_shows(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\n" + "1\n" * 2_500_000 + "2.5\n")
    coded = read_table(path, Schema(("a",)))
    assert coded.n_rows == 2_500_001
    assert coded.coders[0].decode(coded.codes[-2:, 0]).to_pylist() == [1.0, 2.5]


def test_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("\na,b\n\n1,2\n\n\n3,4\n\n")
    assert read_table(path, Schema(("a",))).codes.tolist() == [[1], [3]]
    path.write_text("a\n1\n\n3\n")  # one column: an empty line is a missing value
    assert read_table(path, Schema(("a",))).codes.tolist() == [[1], [np.iinfo(np.int32).min], [3]]


def test_a_bare_quote_inside_a_field_is_text(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('a,b\n6" pipe,1\nthe "Rock",2\n')
    coded = read_table(path, Schema((Categorical("a"),)))
    assert coded.coders[0].decode(coded.codes[:, 0]).to_pylist() == ['6" pipe', 'the "Rock"']


def test_quotes_across_blocks(tmp_path: Path) -> None:
    """Fields with line ends inside, in a file of several blocks, with the first quote far from the start."""
    path = tmp_path / "x.csv"
    lines = ["1,plain"] * 900_000 + ['2,"two\nlines"'] * 300_000
    path.write_text("a,b\n" + "\n".join(lines))
    coded = read_table(path, Schema(("a", Categorical("b"))))
    assert coded.n_rows == 1_200_000
    assert pa.compute.value_counts(coded.coders[1].decode(coded.codes[:, 1])).to_pylist() == [
        {"values": "plain", "counts": 900_000},
        {"values": "two\nlines", "counts": 300_000},
    ]
