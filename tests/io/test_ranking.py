"""Ranks of values: dense, in the order of the values, missing first; the same order as the checker's own."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.checking.columns import code_in_order
from rtree_anon.io.ranking import ranked_values

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "integers": (pa.int64(), st.integers(-5, 5)),
    "unsigned": (pa.uint64(), st.integers(2**64 - 4, 2**64 - 1)),
    "floats": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan])),
    "float32": (pa.float32(), st.sampled_from([0.0, -0.0, 1.5, math.nan])),
    "texts": (pa.string(), st.sampled_from(["b", "a", "", "B", "ä"])),
    "numbers as texts": (pa.large_string(), st.sampled_from(["10", "9", "-1", "9.0", "007"])),
    "booleans": (pa.bool_(), st.booleans()),
    "dates": (pa.date32(), st.dates(datetime.date(1999, 12, 30), datetime.date(2000, 1, 3))),
    "times": (pa.time32("s"), st.sampled_from([datetime.time(1), datetime.time(23), datetime.time(0)])),
    "moments": (pa.timestamp("us", "UTC"), st.sampled_from([datetime.datetime(2020, 1, day) for day in (1, 3, 9)])),
    "decimals": (pa.decimal128(5, 2), st.sampled_from([decimal.Decimal("1.50"), decimal.Decimal("-0.05")])),
    "short decimals": (pa.decimal32(5, 2), st.sampled_from([decimal.Decimal("1.50"), decimal.Decimal("-0.05")])),
    "nothing": (pa.null(), st.none()),
}


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_ranks_are_those_of_the_checker(name: str, data: st.DataObject) -> None:
    data_type, values = COLUMNS[name]
    drawn = data.draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=20))
    column = pa.chunked_array([pa.array(drawn[:5], data_type), pa.array(drawn[5:], data_type)])
    ranks, n_values = ranked_values(column)
    expected = code_in_order(column, name)
    assert ranks.dtype == np.int32 and ranks.tolist() == expected.codes.tolist() and n_values == expected.n_codes
    assert sorted(set(ranks.tolist())) == list(range(n_values))
