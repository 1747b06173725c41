"""Schemas refuse what makes no sense, in one sentence, and keep what they were given."""

from __future__ import annotations

import datetime
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from rtree_anon.errors import SchemaError
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.io.table import read_table
from rtree_anon.schema import Boolean, Categorical, Date, Numeric, Schema, Timestamp

BAD_SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "no quasi-identifier": ({"quasi": []}, "at least one"),
    "a quasi-identifier twice": ({"quasi": ["a", "b", "a"]}, "'a' is named twice in quasi"),
    "twice, as name and as attribute": ({"quasi": ["a", Numeric("a")]}, "'a' is named twice"),
    "a sensitive column twice": ({"quasi": ["a"], "sensitive": ["b", "b"]}, "'b' is named twice in sensitive"),
    "quasi and sensitive": ({"quasi": ["a"], "sensitive": ["a"]}, "named as quasi and as sensitive"),
    "sensitive and keep": ({"quasi": ["a"], "sensitive": ["b"], "keep": ["b"]}, "as sensitive and as keep"),
    "quasi and key": ({"quasi": ["a"], "key": "a"}, "as quasi and as key"),
    "identity and key": ({"quasi": ["a"], "identity": "b", "key": "b"}, "as identity and as key"),
    "weight of an unknown column": ({"quasi": ["a"], "weights": {"b": 1}}, "'b', which is not a quasi-identifier"),
    "weight zero": ({"quasi": ["a"], "weights": {"a": 0}}, "must be positive"),
    "negative weight": ({"quasi": ["a"], "weights": {"a": -1.0}}, "must be positive"),
    "infinite weight": ({"quasi": ["a"], "weights": {"a": float("inf")}}, "finite"),
    "NaN as a weight": ({"quasi": ["a"], "weights": {"a": float("nan")}}, "finite"),
    "text as a weight": ({"quasi": ["a"], "weights": {"a": "2"}}, "must be a number"),
    "True as a weight": ({"quasi": ["a"], "weights": {"a": True}}, "must be a number"),
    "weights as a list": ({"quasi": ["a"], "weights": [1.0]}, "must map"),
    "a number as a column": ({"quasi": [1]}, "column name or an attribute"),
    "an empty name": ({"quasi": [""]}, "column name or an attribute"),
    "None for quasi": ({"quasi": None}, "list of columns"),
    "a number as a sensitive column": ({"quasi": ["a"], "sensitive": [1]}, "column names"),
    "several identities": ({"quasi": ["a"], "identity": ["b", "c"]}, "one column"),
    "an empty key": ({"quasi": ["a"], "key": ""}, "one column"),
}

BAD_ATTRIBUTES: dict[str, tuple[Any, str]] = {
    "empty name": (lambda: Numeric(""), "not empty"),
    "number as name": (lambda: Date(3), "must be text"),
    "domain upside down": (lambda: Numeric("a", domain=(5, 1)), "above its largest"),
    "domain of one": (lambda: Numeric("a", domain=(5,)), "pair"),
    "domain of text": (lambda: Numeric("a", domain=("a", "b")), "finite numbers"),
    "infinite domain": (lambda: Numeric("a", domain=(0, float("inf"))), "finite numbers"),
    "date domain of rubbish": (lambda: Date("a", domain=("x", "y")), "not a date"),
    "time domain of rubbish": (lambda: Timestamp("a", domain=("x", "y")), "not a time"),
    "time that does not exist": (lambda: Timestamp("a", domain=("25:00:00", "26:00:00")), "not a time"),
    "time domain upside down": (
        lambda: Timestamp("a", domain=("2020-01-01T00:00:00.5Z", "2020-01-01T00:00:00Z")),
        "above its largest",
    ),
    "order and hierarchy": (lambda: Categorical("a", order=["x"], hierarchy=Hierarchy.suppress()), "not both"),
    "a value listed twice": (lambda: Categorical("a", order=["x", "y", "x"]), "'x' is listed twice"),
    "text as an order": (lambda: Categorical("a", order="xyz"), "not one text"),
    "missing in an order": (lambda: Categorical("a", order=["x", None]), "missing"),
    "values that are not the order": (lambda: Categorical("a", order=("x",), values=("y",)), "begin with its order"),
    "decimals below zero": (lambda: Numeric("a", decimals=-1), "decimals"),
    "decimals and continuous": (lambda: Numeric("a", decimals=2, continuous=True), "not both"),
    "bits that there are not": (lambda: Numeric("a", bits=16), "32 or 64"),
    "base that is no number": (lambda: Numeric("a", base=1.5), "whole number"),
}


@pytest.mark.parametrize("case", BAD_SCHEMAS)
def test_bad_schema(case: str) -> None:
    arguments, said = BAD_SCHEMAS[case]
    with pytest.raises(SchemaError, match=said) as caught:
        Schema(**arguments)
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)


@pytest.mark.parametrize("case", BAD_ATTRIBUTES)
def test_bad_attribute(case: str) -> None:
    make, said = BAD_ATTRIBUTES[case]
    with pytest.raises(SchemaError, match=said):
        make()


def test_names_can_be_given_without_lists() -> None:
    schema = Schema("age", sensitive="disease", keep="ward")
    assert schema == Schema(["age"], sensitive=["disease"], keep=["ward"])
    assert Schema(Numeric("age")).quasi == (Numeric("age"),)


def test_columns_that_are_read() -> None:
    schema = Schema(
        ["age", Categorical("zip"), Boolean("sex")],
        sensitive=["disease"],
        identity="patient",
        key="visit",
        keep=["ward"],
        weights={"zip": 2},
    )
    assert schema.quasi_names == ("age", "zip", "sex")
    assert schema.payload_names == ("disease", "ward", "patient", "visit")
    assert schema.column_names == schema.quasi_names + schema.payload_names
    assert (schema.weight("zip"), schema.weight("age")) == (2.0, 1.0)
    assert not schema.bound


def test_domains_are_kept_exactly() -> None:
    assert Numeric("a", domain=(Decimal("0.10"), 5)).domain == (Decimal("0.10"), 5)
    assert Date("a", domain=("2020-01-01", datetime.date(2020, 2, 1))).domain == (
        datetime.date(2020, 1, 1),
        datetime.date(2020, 2, 1),
    )
    noon = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert Timestamp("a", domain=("2020-01-01", noon)).domain == (
        "2020-01-01T00:00:00",
        "2020-01-01T10:00:00Z",
    )
    assert Timestamp("a", domain=("09:30", "17:00:00.500")).domain == ("09:30:00", "17:00:00.5")


def test_categories_are_known_by_their_text() -> None:
    assert Categorical("a", order=[1, True, "x"]).order == ("1", "true", "x")


def test_a_schema_needs_neither_arrow_nor_numba() -> None:
    code = (
        "import sys, rtree_anon as ra; ra.Schema(['a', ra.Date('b')]); print({'pyarrow', 'numba'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_an_inferred_schema_is_bound_and_reads_the_same_file_again(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,zip,born,flu,note\n31,02139,1990-05-01,yes,a\n25,10001,1996-01-31,no,b\n,02139,,yes,c\n")
    schema = Schema.infer(path, quasi=["age", "zip", "born"], sensitive=["flu"], weights={"zip": 2.0})
    assert schema.bound and schema.sensitive == ("flu",) and schema.weights == {"zip": 2.0}
    assert schema.quasi == (
        Numeric("age", domain=(25, 31), type="int64", continuous=False, base=0, bits=32),
        Categorical("zip", type="string", values=("02139", "10001")),
        Date("born", domain=(datetime.date(1990, 5, 1), datetime.date(1996, 1, 31)), type="date32"),
    )
    schema.to_toml(tmp_path / "schema.toml")
    again = Schema.from_toml(tmp_path / "schema.toml")
    assert again == schema
    coded = read_table(path, again)
    assert coded.schema == schema
    assert coded.payload.column_names == ["flu"], "what is not named is dropped"
