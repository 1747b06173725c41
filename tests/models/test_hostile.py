"""Tables on which a model is hard: nearly everybody has the same sensitive value, or the values lie apart in space."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import rtree_anon as ra

QUALITIES = ("fast", "balanced", "best")


@pytest.mark.parametrize("quality", QUALITIES)
def test_rare_values_in_one_corner(quality: str) -> None:
    """All groups need one of 60 rows that lie together; the rest of 20,000 rows is far away from them."""
    rng = np.random.default_rng(1)
    age = np.concatenate([rng.integers(0, 5, 60), rng.integers(50, 100, 19_940)])
    table = pa.table({"age": age, "zip": rng.integers(0, 1000, 20_000), "ill": np.arange(20_000) < 60})
    release = ra.anonymize(table, 5, ["age", "zip"], sensitive=["ill"], model="distinct_l=2 on ill", quality=quality)
    assert ra.check(release.to_arrow(), ["age", "zip"], ["ill"]).distinct_l == 2
    assert 5 <= release.n_groups <= 60


@pytest.mark.parametrize("quality", QUALITIES)
def test_values_that_lie_apart(quality: str) -> None:
    """The sensitive value is a function of the age: no cut of the age leaves both sides close to the table."""
    rng = np.random.default_rng(2)
    age = rng.integers(0, 100, 5000)
    table = pa.table({"age": age, "zip": rng.integers(0, 100, 5000), "pay": age // 50})
    release = ra.anonymize(
        table, 5, ["age", "zip"], sensitive=["pay"], model=ra.TCloseness(0.1, "pay"), quality=quality
    )
    report = ra.check(release.to_arrow(), ["age", "zip"], ["pay"])
    assert report.t is not None and report.t <= 0.1 + 1e-9
    assert release.n_groups >= 10  # by the zip code


@pytest.mark.parametrize("quality", QUALITIES)
def test_equal_rows_and_one_person(quality: str) -> None:
    """Points that cannot be told apart stay together, whatever the model would gain by parting them."""
    table = pa.table({"age": [1] * 50 + [2] * 50, "ill": [0, 1] * 50, "person": [0] * 50 + list(range(1, 51))})
    by_rows = ra.anonymize(table, 2, "age", sensitive=["ill"], model="t=0 on ill", quality=quality)
    assert by_rows.group_sizes.tolist() == [50, 50]
    by_people = ra.anonymize(table, 2, "age", sensitive=["ill"], identity="person", quality=quality)
    assert by_people.group_sizes.tolist() == [100]
