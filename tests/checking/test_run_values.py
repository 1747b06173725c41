"""Files measured run by run say what the whole table says, wherever the pieces of the file end."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.checking import check, unmet_values
from rtree_anon.models import Model
from tests.models.drawn import make_world, models


def grouped(seed: int, n: int, group_rows: int, in_order: bool) -> pa.Table:
    world = make_world(seed, n, 4, skew=0.3)
    group = np.arange(n) // group_rows % 7  # a group may come again further on
    table = pa.table({"age": group, "zip": [f"z{each % 2}" for each in group.tolist()], **world.values})
    pay = [None if value == 3 else value for value in world.values["pay"]]
    table = table.set_column(3, "pay", pa.array(pay, pa.int64()))
    return table if in_order else table.take(pa.array(np.random.default_rng(seed).permutation(n)))


@mock.patch("rtree_anon.checking.run_values._BLOCK_ROWS", 20)
@settings(max_examples=80, deadline=None)
@given(models, st.integers(1, 200), st.integers(1, 40), st.integers(1, 60), st.booleans(), st.integers(0, 2**20))
def test_runs_say_what_the_table_says(
    model: Model, n: int, group_rows: int, piece_rows: int, in_order: bool, seed: int
) -> None:
    table = grouped(seed, n, group_rows, in_order)
    demands = [demand for demand in model.demands() if demand.column is not None]
    with TemporaryDirectory() as directory:
        path = Path(directory) / "table.parquet"
        pq.write_table(table, path, row_group_size=piece_rows)
        expected = check(table, ["age", "zip"], ["disease", "pay"]).unmet(demands)
        assert unmet_values(path, ["age", "zip"], model.demands()) == expected


def test_a_release_is_never_measured_as_a_whole(tmp_path: Path) -> None:
    table = ra.generate("patients", 5000, seed=1)
    model = ra.DistinctLDiversity(3, "diagnosis") & ra.TCloseness(0.6, "diagnosis")
    release = ra.anonymize(table, 5, ["age", "sex"], sensitive=["diagnosis"], model=model)
    pq.write_table(release.to_arrow(), tmp_path / "k5.parquet", row_group_size=77)
    with mock.patch("rtree_anon.checking.run_values.check", side_effect=AssertionError):
        assert unmet_values(tmp_path / "k5.parquet", ["age", "sex"], model.demands()) == []
