"""Random Arrow tables that mix every kind of quasi-identifier, and an independent reading of their releases.

Nothing here knows codes, boxes or trees: a row is inside its group's released value if its original Arrow value is.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import rtree_anon as ra

WEIRD = ["a,b", "{x}", '"q"', "", " lead", "é", "-", "[a-b]", "*", "plain", "{", '"']
NUMBERS = (
    "int",
    "small",
    "limits",
    "wide",
    "float",
    "float32",
    "tenths",
    "decimal",
    "date",
    "moment",
    "domain",
    "constant",
)
SETS = ("bool", "few", "weird", "many", "whole")
FLAVOURS = (*NUMBERS, *SETS, "tree", "absent", "absent text", "absent flag")


@dataclass(frozen=True)
class Mixed:
    """A table with quasi-identifiers, a sensitive and a kept column, a person and a row number as key."""

    table: pa.Table
    flavours: tuple[str, ...]
    weights: dict[str, float]

    @property
    def names(self) -> list[str]:
        return [f"q{place}" for place in range(len(self.flavours))]

    @property
    def quasi(self) -> list[Any]:
        return [attribute_of(flavour, name) for flavour, name in zip(self.flavours, self.names, strict=True)]

    @property
    def options(self) -> dict[str, Any]:
        return {"quasi": self.quasi, "sensitive": ["illness"], "keep": ["ward"], "key": "row", "weights": self.weights}


@st.composite
def mixed_tables(draw: st.DrawFn, max_rows: int = 50, flavours: Sequence[str] = FLAVOURS) -> Mixed:
    """The columns are drawn by Hypothesis, so that they shrink; the values follow from a seed."""
    chosen = draw(st.lists(st.sampled_from(flavours), min_size=1, max_size=5))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 0.15, 0.6]), min_size=len(chosen), max_size=len(chosen)))
    weights = draw(st.dictionaries(st.integers(0, len(chosen) - 1), st.sampled_from([0.5, 3.0]), max_size=2))
    n, seed = draw(st.integers(1, max_rows)), draw(st.integers(0, 2**32))
    return make_mixed(seed, n, chosen, gaps, {f"q{place}": weight for place, weight in weights.items()})


def make_mixed(
    seed: int, n: int, flavours: Sequence[str], gaps: Sequence[float] = (), weights: dict[str, float] | None = None
) -> Mixed:
    rng = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {}
    for place, flavour in enumerate(flavours):
        values = _values(rng, flavour, n)
        if gaps:
            values = pa.array(
                [None if rng.random() < gaps[place] else value for value in values.to_pylist()], values.type
            )
        columns[f"q{place}"] = values
    columns["illness"] = pa.array(rng.choice(["flu", "cold", "gout"], n))
    columns["ward"] = pa.array(rng.integers(0, 3, n), mask=rng.random(n) < 0.2)
    columns["row"] = pa.array(np.arange(n))
    columns["dropped"] = pa.array(np.arange(n))
    return Mixed(pa.table(columns), tuple(flavours), weights or {})


def attribute_of(flavour: str, name: str) -> Any:
    if flavour in ("many", "whole"):
        return ra.Categorical(name)
    if flavour == "tree":
        return ra.Categorical(name, hierarchy=ra.Hierarchy.digits(3))
    if flavour == "domain":
        return ra.Numeric(name, domain=(-1000, 1000))
    if flavour == "float":
        return ra.Numeric(name, domain=(-1e6, 1e6), continuous=True)
    return name


def _values(rng: np.random.Generator, flavour: str, n: int) -> pa.Array:
    narrow = rng.integers(-3, 4, n) if rng.random() < 0.5 else rng.integers(-60, 60, n)
    if flavour in ("int", "domain"):
        return pa.array(narrow)
    if flavour == "small":
        return pa.array(narrow, pa.int8())
    if flavour == "constant":
        return pa.array(np.full(n, 7))
    if flavour == "limits":
        return pa.array(rng.choice([-(2**31) + 1, 2**31 - 1, 0, 5, 2**31 - 2], n), pa.int64())
    if flavour == "wide":
        return pa.array(rng.choice([-(2**62), 2**62, 2**62 + 1, 7, *rng.integers(-(2**62), 2**62, 5).tolist()], n))
    if flavour == "float":
        return pa.array(rng.choice([0.0, 1e-300, -1e5, *rng.normal(size=9).tolist()], n))
    if flavour == "float32":
        return pa.array(rng.normal(size=n).astype(np.float32))
    if flavour == "tenths":
        return pa.array(narrow / 10)
    if flavour == "decimal":
        return pa.array([Decimal(int(value)).scaleb(-2) for value in narrow], pa.decimal128(9, 2))
    if flavour == "date":
        return pa.array([datetime.date(1970, 1, 1) + datetime.timedelta(int(value)) for value in narrow])
    if flavour == "moment":
        return pa.array(narrow.astype(np.int64) * 10**9, pa.timestamp("us", tz="Europe/Paris"))
    if flavour == "bool":
        return pa.array(narrow > 0)
    if flavour == "few":
        return pa.array(rng.choice(list("ABCDE"), n))
    if flavour == "weird":
        return pa.array([WEIRD[place] for place in rng.integers(0, len(WEIRD), n)], pa.string())
    if flavour == "many":  # all of them, where there are rows enough, so that there are more than a mask holds
        return pa.array([f"z{value % 97:03}" for value in rng.permutation(n)])
    if flavour == "whole":
        return pa.array(narrow, pa.int32())
    if flavour == "tree":
        return pa.array([f"{value:03}" for value in rng.integers(0, 200, n)])
    kinds = {"absent": pa.int64(), "absent text": pa.string(), "absent flag": pa.bool_()}
    return pa.nulls(n, kinds[flavour])


# --- reading a release ---------------------------------------------------------------------------------------------


def labels_of(text: str) -> list[str]:
    """The labels of a released set: `A`, `{A,"b,c"}`, `"{x}"`."""
    if not text.startswith("{"):
        return [_split_labels(text, ",")[0]] if text.startswith('"') else [text]
    assert text.endswith("}")
    return _split_labels(text[1:-1], ",")


def range_of(text: str) -> tuple[str, str]:
    """The ends of a released range of categories: `[A-D]`, or `A` alone."""
    ends = _split_labels(text[1:-1] if text.startswith("[") else text, "-")
    return ends[0], ends[-1]


def _split_labels(text: str, separator: str) -> list[str]:
    labels, at = [], 0
    while True:
        if text[at : at + 1] == '"':
            label, at = "", at + 1
            while text[at] != '"' or text[at : at + 2] == '""':
                label, at = label + text[at], at + (2 if text[at] == '"' else 1)
            at += 1
        else:
            end = text.find(separator, at)
            label, at = (text[at:], len(text)) if end < 0 else (text[at:end], end)
        labels.append(label)
        if at >= len(text):
            return labels
        assert text[at] == separator
        at += 1


def as_label(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def stands_below(value: str, label: str) -> bool:
    return label == "*" or (len(value) == len(label) and all(b in (a, "*") for a, b in zip(value, label, strict=True)))


def check_group(flavour: str, name: str, released: dict[str, Any], values: list[Any], compact: bool) -> None:
    """Assert that what was released of one group on one attribute describes the group's original values."""
    present = [value for value in values if value is not None]
    state = released.get(f"{name}_missing", "none")
    if compact:
        expected = "none" if len(present) == len(values) else "some" if present else "all"
        assert state == expected
    else:
        assert state == "some" or (state == "none") == (len(present) == len(values)) != (state == "all")
    if f"{name}_lo" in released:
        lo, hi = released[f"{name}_lo"], released[f"{name}_hi"]
        assert (lo is None) == (hi is None) == (state == "all")
        if state == "all":
            return
        assert all(lo <= value <= hi for value in present)
        assert not compact or (lo, hi) == (min(present), max(present))
        return
    text = released[name]
    assert (text is None) == (state == "all")
    if text is None:
        return
    if flavour == "tree":
        assert all(stands_below(value, text) for value in present)
        assert not compact or len(set(present)) > 1 or text == present[0]
    elif text.startswith("[") and flavour in ("many", "whole"):
        lo, hi = (int(end) if flavour == "whole" else end for end in range_of(text))
        assert all(lo <= value <= hi for value in present)
    else:
        wanted = {as_label(value) for value in present}
        labels = labels_of(text)
        assert len(labels) == len(set(labels))
        assert set(labels) == wanted if compact else wanted <= set(labels)


def check_rows(mixed: Mixed, release: Any) -> None:
    """Assert that every original row is in exactly one group, and inside what is released for it."""
    released = release.to_arrow(group_id=True, key=True).to_pylist()
    original = mixed.table.to_pylist()
    assert sorted(row["row"] for row in released) == list(range(len(original)))
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in released:
        groups.setdefault(row["group"], []).append(row)
        assert (row["illness"], row["ward"]) == (original[row["row"]]["illness"], original[row["row"]]["ward"])
    assert len(groups) == release.n_groups
    for members in groups.values():
        for flavour, name in zip(mixed.flavours, mixed.names, strict=True):
            columns = {column: members[0][column] for column in members[0] if column.startswith(name)}
            assert all(columns[column] == row[column] for row in members for column in columns)
            check_group(flavour, name, columns, [original[row["row"]][name] for row in members], release.compact)
