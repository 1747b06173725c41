"""The generated tables: the same rows for any batch size, and the distributions that their modules promise."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon import datasets
from rtree_anon.datasets import CHUNK_ROWS, landsend, patients
from rtree_anon.errors import UsageError


def column(table: pa.Table, name: str) -> np.ndarray:
    return table[name].to_numpy()


def digest(table: pa.Table) -> str:
    rows = "\n".join(map(str, table.to_pydict().values()))
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", datasets.NAMES)
@settings(max_examples=12, deadline=None)
@given(rows=st.integers(0, 2 * CHUNK_ROWS + 10), batch_rows=st.integers(1, 3 * CHUNK_ROWS).filter(lambda n: n > 5000))
def test_same_rows_for_any_batch_size(name: str, rows: int, batch_rows: int) -> None:
    whole = datasets.generate(name, rows)
    parts = list(datasets.batches(name, rows, batch_rows=batch_rows))
    assert whole.num_rows == rows and whole.schema == datasets.schema(name)
    assert all(part.num_rows == batch_rows for part in parts[:-1])
    assert all(0 < part.num_rows <= batch_rows for part in parts)
    assert pa.Table.from_batches(parts, schema=whole.schema).equals(whole)


@pytest.mark.parametrize("name", datasets.NAMES)
def test_a_short_table_is_the_beginning_of_a_long_one(name: str) -> None:
    long = datasets.generate(name, CHUNK_ROWS + 100, seed=3)
    assert datasets.generate(name, 50, seed=3).equals(long.slice(0, 50))
    assert datasets.generate(name, CHUNK_ROWS + 1, seed=3).equals(long.slice(0, CHUNK_ROWS + 1))


@pytest.mark.parametrize("name", datasets.NAMES)
def test_seeds_and_chunks_differ(name: str) -> None:
    first = datasets.generate(name, 2 * CHUNK_ROWS)
    assert not datasets.generate(name, 100, seed=1).equals(first.slice(0, 100))
    assert not first.slice(0, 100).equals(first.slice(CHUNK_ROWS, 100))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("agrawal", "12371c489785bf28"), ("landsend", "82840b8a6706ad42"), ("patients", "e594f310067b5afe")],
)
def test_rows_never_change(name: str, expected: str) -> None:
    """Published figures were measured on these very rows; a new numpy or a new platform must not change them."""
    assert digest(datasets.generate(name, 1000)) == expected


def test_agrawal_follows_its_paper() -> None:
    table = datasets.generate("agrawal", 200_000)
    assert set(table.schema.types) == {pa.int32()}
    ranges = {
        "salary": (20_000, 150_000),
        "age": (20, 80),
        "elevel": (0, 4),
        "car": (1, 20),
        "zipcode": (0, 8),
        "hyears": (1, 30),
        "loan": (0, 500_000),
    }
    for name, (lo, hi) in ranges.items():
        values = column(table, name)
        assert lo <= values.min() and values.max() <= hi
        assert values.min() - lo <= (hi - lo) * 1e-3 and hi - values.max() <= (hi - lo) * 1e-3
        deviation = (hi - lo + 1) / np.sqrt(12 * len(values))  # of the mean of so many uniform values
        assert abs(values.mean() - (lo + hi) / 2) < 5 * deviation
    salary, commission = column(table, "salary"), column(table, "commission")
    assert (commission[salary >= 75_000] == 0).all()
    assert commission[salary < 75_000].min() >= 10_000 and commission.max() <= 75_000
    level = column(table, "zipcode") + 1
    share = column(table, "hvalue") / (level * 100_000)
    assert share.min() >= 0.5 and share.max() <= 1.5
    for k in range(1, 10):
        assert share[level == k].min() < 0.51 and share[level == k].max() > 1.49


def test_landsend_has_the_published_shape() -> None:
    table = datasets.generate("landsend", landsend.PUBLISHED_ROWS)
    distinct = [pc.count_distinct(table[name]).as_py() for name in table.column_names]
    assert distinct == [31953, 320, 2, 1509, 346, 1, 1412, 2]
    some = table.slice(0, 200_000)
    assert np.corrcoef(column(some, "price"), column(some, "cost"))[0, 1] > 0.9
    counts = np.sort(np.unique(column(some, "zipcode"), return_counts=True)[1])[::-1]
    assert counts[: len(counts) // 10].sum() > 0.4 * counts.sum()  # a tenth of the zipcodes makes much of the sales


def test_patients_are_the_same_on_every_visit() -> None:
    table = datasets.generate("patients", CHUNK_ROWS + 5000)
    frame = table.drop_columns(["visit_id", "diagnosis"])
    assert frame.group_by(frame.column_names).aggregate([]).num_rows == pc.count_distinct(table["patient_id"]).as_py()
    assert pc.count_distinct(table["visit_id"]).as_py() == table.num_rows


def test_patients_have_several_visits_even_in_a_short_table() -> None:
    visits = np.unique(column(datasets.generate("patients", 500), "patient_id"), return_counts=True)[1]
    assert visits.max() >= 4 and 0.2 < (visits > 1).mean() < 0.8


def test_patients_ages_fit_birth_dates() -> None:
    known = datasets.generate("patients", 50_000).drop_null()
    born = column(known, "birth_date").astype("datetime64[Y]").astype(int) + 1970
    assert (patients.REFERENCE_YEAR - born == column(known, "age")).all()
    assert len(np.unique(column(known, "birth_date"))) > 10_000


def test_patients_have_missing_values_and_leading_zeros() -> None:
    table = datasets.generate("patients", 50_000)
    holes = {name: table[name].null_count / table.num_rows for name in table.column_names if table[name].null_count}
    assert set(holes) == {"age", "sex", "zip", "birth_date", "marital_status", "education"}
    assert all(0.0005 < share < 0.1 for share in holes.values())
    assert pc.all(pc.match_substring_regex(table["zip"], "^0[0-9]{4}$")).as_py()


def test_patients_diagnoses_are_skewed_and_plausible() -> None:
    table = datasets.generate("patients", 200_000).drop_null()
    diagnosis, sex, age = column(table, "diagnosis"), column(table, "sex"), column(table, "age")
    counts = np.sort(np.unique(diagnosis, return_counts=True)[1])
    assert 28 <= len(counts) <= 35 and counts[-1] > 20 * counts[0]
    assert set(sex[diagnosis == "pregnancy"]) == {"F"} and set(sex[diagnosis == "prostate disorder"]) == {"M"}
    assert age[diagnosis == "hypertension"].mean() > age[diagnosis == "otitis media"].mean() + 20


def test_nothing_is_a_table_too() -> None:
    table = datasets.generate("patients", 0)
    assert table.num_rows == 0 and table.schema == patients.SCHEMA


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("adults", 1), "no dataset called 'adults'"),
        (("agrawal", -1), "rows must be 0 or more"),
        (("agrawal", 1, -1), "seed must be 0 or more"),
        (("agrawal", 1, 0, 0), "at least one row"),
    ],
)
def test_wrong_arguments(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        datasets.batches(*arguments)  # type: ignore[arg-type]
