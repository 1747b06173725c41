"""What is written as TOML is read back equal, whatever its strings are; bad files are refused with a sentence."""

from __future__ import annotations

import datetime
import random
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import SchemaError
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.schema import Boolean, Categorical, Date, Numeric, Schema, Timestamp
from rtree_anon.schema.toml import schema_from_toml, schema_to_toml

# every character that UTF-8 can write, control characters included
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NAMES = TEXT.filter(bool)


def numbers() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.decimals(allow_nan=False, allow_infinity=False),
    )


def pairs(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), st.tuples(values, values).map(lambda pair: tuple(sorted(pair))))


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Any:
    kind = draw(st.sampled_from(["name", "numeric", "categorical", "tree", "date", "timestamp", "boolean"]))
    if kind == "name":
        return name
    if kind == "numeric":
        coding = draw(st.sampled_from([{}, {"decimals": 3}, {"continuous": True}, {"base": -(2**40), "bits": 64}]))
        return Numeric(name, draw(pairs(numbers())), draw(st.booleans()), type=draw(st.none() | TEXT), **coding)
    if kind == "categorical":
        labels = draw(st.none() | st.lists(TEXT, unique=True, max_size=5).map(tuple))
        return Categorical(name, order=labels, allow_new=draw(st.booleans()), values=labels)
    if kind == "tree":
        return Categorical(name, hierarchy=draw(hierarchies()))
    if kind == "date":
        return Date(name, draw(pairs(st.dates())), type="date32")
    if kind == "timestamp":
        return Timestamp(name, draw(st.sampled_from([None, ("2020-01-01T00:00:00", "2020-01-01T00:00:00.000000001")])))
    return Boolean(name)


def hierarchies() -> st.SearchStrategy[Hierarchy]:
    leaves = st.lists(TEXT, min_size=2, max_size=5, unique=True)
    return st.one_of(
        leaves.map(lambda labels: Hierarchy.from_rows([(label, 'the "top"\n') for label in labels])),
        st.just(Hierarchy.intervals([5, "10", Decimal("20")])),
        st.just(Hierarchy.digits(3)),
        st.just(Hierarchy.dates(["month", "year"])),
        st.just(Hierarchy.suppress()),
        st.just(Hierarchy.automatic(text=True)),
    )


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(NAMES, min_size=1, max_size=7, unique=True))
    n_quasi = draw(st.integers(1, len(names)))
    quasi = [draw(attributes(name)) for name in names[:n_quasi]]
    rest = names[n_quasi:]
    weights = {name: draw(st.floats(1e-300, 1e300)) for name in names[:n_quasi] if draw(st.booleans())}
    return Schema(
        tuple(quasi), tuple(rest[:1]), identity=next(iter(rest[1:2]), None), keep=tuple(rest[2:]), weights=weights
    )


@settings(deadline=None)
@given(schema=schemas())
def test_round_trip(schema: Schema) -> None:
    text = schema_to_toml(schema)
    again = schema_from_toml(text)
    assert again == schema
    for one, other in zip(again.quasi, schema.quasi, strict=True):
        if isinstance(one, Numeric) and one.domain and isinstance(other, Numeric) and other.domain:
            assert [type(end) for end in one.domain] == [type(end) for end in other.domain]
            assert [str(end) for end in one.domain] == [str(end) for end in other.domain]  # Decimal("1.0") stays 1.0


@settings(deadline=None)
@given(text=TEXT)
def test_strings_are_what_other_readers_see(text: str) -> None:
    document = tomllib.loads(schema_to_toml(Schema((Categorical("a", order=(text,)),))))
    assert document["quasi"][0]["order"] == [text]


def test_round_trip_through_a_file(tmp_path: Path) -> None:
    schema = Schema(
        (Numeric("ü", domain=(Decimal("0.1"), 2)), Date("b", domain=(datetime.date.min, datetime.date.max)))
    )
    schema.to_toml(tmp_path / "s.toml")
    assert Schema.from_toml(tmp_path / "s.toml") == schema
    assert b"\r" not in (tmp_path / "s.toml").read_bytes()


def test_what_people_write() -> None:
    text = """
        quasi = ["age", { name = "zip", kind = "categorical", weight = 2 }, { name = "sex" }]
        sensitive = ["disease"]
        [weights]
        age = 0.5
    """
    schema = schema_from_toml(text)
    assert schema.quasi == ("age", Categorical("zip"), "sex")
    assert schema.weights == {"zip": 2.0, "age": 0.5}


def test_a_hierarchy_can_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "zip.csv").write_text("53703;5370*\n53706;5370*\n")
    entry = f"{{ name = 'zip', kind = 'categorical', hierarchy = {{ csv = '{tmp_path / 'zip.csv'}' }} }}"
    (attribute,) = schema_from_toml(f"quasi = [{entry}]").quasi
    assert attribute == Categorical("zip", hierarchy=Hierarchy.from_rows([("53703", "5370*"), ("53706", "5370*")]))


BAD_FILES = {
    "not TOML": ("quasi = [", "not TOML"),
    "nothing": ("", "at least one"),
    "unknown entry": ("quasi = ['a']\nquasy = 1", "'quasy'"),
    "quasi is text": ("quasi = 'a'", "list of columns"),
    "column without a name": ("[[quasi]]\nkind = 'numeric'", "needs a name"),
    "unknown kind": ("[[quasi]]\nname = 'a'\nkind = 'number'", "'number' is not one of"),
    "kind is a number": ("[[quasi]]\nname = 'a'\nkind = 1", "is not one of"),
    "kind left out": ("[[quasi]]\nname = 'a'\ndomain = [1, 2]", "needs a kind"),
    "unknown option": ("[[quasi]]\nname = 'a'\nkind = 'date'\norder = []", "has no 'order'"),
    "domain of three": ("[[quasi]]\nname = 'a'\nkind = 'numeric'\ndomain = [1, 2, 3]", "pair"),
    "domain is a number": ("[[quasi]]\nname = 'a'\nkind = 'numeric'\ndomain = 1", "list of two"),
    "domain of rubbish": ("[[quasi]]\nname = 'a'\nkind = 'numeric'\ndomain = ['x', 'y']", "not a number"),
    "domain of infinity": ("[[quasi]]\nname = 'a'\nkind = 'numeric'\ndomain = [0, inf]", "finite"),
    "grow is text": ("[[quasi]]\nname = 'a'\nkind = 'numeric'\ngrow = 'no'", "true or false"),
    "decimals is true": ("[[quasi]]\nname = 'a'\nkind = 'numeric'\ndecimals = true", "whole number"),
    "order of tables": ("[[quasi]]\nname = 'a'\nkind = 'categorical'\norder = 'x'", "a list"),
    "hierarchy is text": ("[[quasi]]\nname = 'a'\nkind = 'categorical'\nhierarchy = 'x.csv'", "a table"),
    "unknown hierarchy": ("[[quasi]]\nname = 'a'\nkind = 'categorical'\nhierarchy = { x = 1 }", "'a'"),
    "hierarchy of numbers": ("[[quasi]]\nname = 'a'\nkind = 'categorical'\nhierarchy = { rows = 5 }", "'a'"),
    "hierarchy file missing": ("[[quasi]]\nname='a'\nkind='categorical'\nhierarchy = { csv = 'no.csv' }", "no.csv"),
    "weights is a number": ("quasi = ['a']\nweights = 1", "table of numbers"),
    "weight is text": ("[[quasi]]\nname = 'a'\nweight = 'x'", "must be a number"),
    "sensitive is a table": ("quasi = ['a']\nsensitive = { a = 1 }", "'a'"),
    "identity is a list": ("quasi = ['a']\nidentity = ['b']", "one column"),
    "deeply nested": ("quasi = " + "[" * 5000, "TOML"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file(case: str, tmp_path: Path) -> None:
    content, said = BAD_FILES[case]
    path = tmp_path / "s.toml"
    path.write_text(content)
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml(path)
    assert said in str(caught.value) and str(path) in str(caught.value)


def test_damaged_files_give_a_schema_or_a_sentence() -> None:
    """1,000 damaged copies of a file that uses everything; each is a pure function of its seed."""
    tree = Hierarchy.from_tree({"all": {"warm": ["red", "pink"], "cold": ["blue"]}})
    whole = Schema(
        (
            Numeric("a", domain=(Decimal("0.10"), 5), type="decimal128(9, 2)", decimals=2, base=0, bits=32),
            Categorical("b", order=("low", "high"), allow_new=True, type="string", values=("low", "high", "\n")),
            Categorical("c", hierarchy=tree),
            Categorical("d", hierarchy=Hierarchy.intervals([5, 10])),
            Date("e", domain=(datetime.date.min, datetime.date.max), grow=False),
            Timestamp("f", domain=("2020-01-01T00:00:00", "2021-01-01T00:00:00.5"), type="timestamp[us]"),
        ),
        sensitive=("g",),
        weights={"a": 0.5},
    )
    text = schema_to_toml(whole)
    n_read = 0
    for seed in range(1000):
        rng = random.Random(seed)
        damaged = text
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(damaged))
            cut = rng.choice([0, 1, 5])
            damaged = (
                damaged[:at] + rng.choice(["", '"', "[", "]", "1", "-", "nan", "true", "\0", "{"]) + damaged[at + cut :]
            )
        try:
            schema_from_toml(damaged)
            n_read += 1
        except SchemaError as error:
            assert "\n" not in str(error), seed
    assert 0 < n_read < 1000


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.from_toml(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes("quasi = ['ü']".encode("latin-1"))
    with pytest.raises(SchemaError, match="UTF-8"):
        Schema.from_toml(tmp_path / "latin.toml")
    with pytest.raises(SchemaError, match="cannot be written"):
        Schema(("a",)).to_toml(tmp_path / "no" / "s.toml")
    with pytest.raises(SchemaError, match="Unicode"):
        Schema(("\ud800",)).to_toml(tmp_path / "s.toml")
