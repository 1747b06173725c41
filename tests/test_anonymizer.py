"""`anonymize` and `mondrian` as users call them: arguments, defaults, errors, frames in and out, bias."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rtree_anon as ra


@pytest.fixture(scope="module")
def patients() -> pa.Table:
    return ra.generate("patients", 1500, seed=3)


@pytest.fixture(scope="module")
def points() -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({"x": rng.integers(0, 1000, 800), "y": rng.integers(0, 1000, 800), "s": rng.integers(0, 9, 800)})


# --- k and base_k ------------------------------------------------------------------------------------------------


def test_one_k_gives_a_release_and_several_a_dictionary(points: pa.Table) -> None:
    single = ra.anonymize(points, k=10, quasi=["x", "y"])
    assert isinstance(single, ra.Release) and single.k == 10 and single.n_rows == 800
    several = ra.anonymize(points, k=[50, 10, 10], quasi=["x", "y"])
    assert list(several) == [10, 50]
    assert all(release.group_sizes.min() >= k for k, release in several.items())
    assert list(ra.anonymize(points, k=range(7, 9), quasi=["x"])) == [7, 8]
    assert list(ra.anonymize(points, k=[10], quasi=["x"])) == [10]
    assert ra.anonymize(points, k=np.int64(10), quasi=["x"]).k == 10


def test_the_tree_is_built_at_5_or_at_the_smallest_k(points: pa.Table) -> None:
    for k, expected in ((3, 3), (5, 5), (50, 5), ([3, 50], 3), ([7, 50], 5)):
        made = ra.anonymize(points, k=k, quasi=["x", "y"])
        for release in made.values() if isinstance(made, dict) else [made]:
            assert release.base_k == expected
    assert ra.anonymize(points, k=50, base_k=20, quasi=["x", "y"]).base_k == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k=0 is not possible"),
        ({"k": -3}, "k=-3 is not possible"),
        ({"k": 2.5}, "k must be a whole number, not 2.5"),
        ({"k": "5"}, "k must be a whole number, not '5'"),
        ({"k": True}, "k must be a whole number"),
        ({"k": None}, "k must be a whole number"),
        ({"k": []}, "k is an empty list"),
        ({"k": [5, "ten"]}, "k must be a whole number, not 'ten'"),
        ({"k": [5, 0]}, "k=0 is not possible"),
        ({"k": 5, "base_k": 0}, "base_k=0 is not possible"),
        ({"k": 5, "base_k": 1.5}, "base_k must be a whole number"),
        ({"k": 5, "base_k": 6}, "base_k=6 is above k=5"),
        ({"k": [9, 5], "base_k": 6}, "base_k=6 is above k=5"),
        ({"k": 5, "quality": "splendid"}, "quality='splendid' is not known; choose one of fast, balanced, best"),
        ({"k": 5, "method": "magic"}, "method='magic' is not known; choose one of optimal, greedy, hierarchical"),
        ({"k": 5, "threads": 0}, "threads=0 is not possible"),
        ({"k": 5, "threads": "2"}, "threads must be a whole number"),
        ({"k": 5, "seed": -1}, "seed=-1 is not possible"),
        ({"k": 5, "seed": 2**63}, "is not possible"),
        ({"k": 5, "seed": "lucky"}, "seed must be a whole number"),
        ({"k": 5, "bias": ["z"]}, "bias names 'z', which is not a quasi-identifier"),
        ({"k": 5, "bias": "s"}, "bias names 's'"),
        ({"k": 5, "model": "l-diversity"}, "not a privacy model"),
        ({"k": 5, "quasi": None}, "Name the quasi-identifiers"),
        ({"k": 5, "quasi": []}, "at least one quasi-identifier"),
        ({"k": 5, "model": ra.DistinctLDiversity(2, "z")}, "'z', which is not a sensitive column"),
        ({"k": 5, "schema": "people.toml", "quasi": None}, "schema must be a Schema"),
        ({"k": 5, "schema": ra.Schema(["x"])}, "either a schema or quasi"),
        ({"k": 5, "schema": ra.Schema(["x"]), "quasi": None, "sensitive": ["s"]}, "either a schema or sensitive"),
        ({"k": 5, "schema": ra.Schema(["x"]), "quasi": None, "keep": ["s"]}, "either a schema or keep"),
        ({"k": 5, "schema": ra.Schema(["x"]), "quasi": None, "weights": {"x": 2}}, "either a schema or weights"),
        ({"k": 5, "schema": ra.Schema(["x"]), "quasi": None, "key": "s"}, "either a schema or key"),
        ({"k": 5, "model": ra.IdentityKAnonymity(2)}, "name the identity column"),
        ({"k": 5, "weights": {"z": 2}}, "'z', which is not a quasi-identifier"),
        ({"k": 5, "sensitive": ["x"]}, "a column has one role"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_read(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ra.UsageError, match=message):
        ra.anonymize("no such file.parquet", **{"quasi": ["x", "y"], **arguments})


def test_fewer_rows_than_k(points: pa.Table) -> None:
    few = points.slice(0, 9)
    assert ra.anonymize(few, k=9, quasi=["x", "y"]).n_groups == 1
    for call in (
        lambda: ra.anonymize(few, k=10, quasi=["x"]),
        lambda: ra.anonymize(few, k=[3, 10], quasi=["x"]),
        lambda: ra.mondrian(few, k=10, quasi=["x"]),
    ):
        with pytest.raises(ra.PrivacyError, match="9 rows cannot be anonymized at k=10"):
            call()


def test_tables_that_cannot_be_read(points: pa.Table) -> None:
    with pytest.raises(ra.SchemaError, match="height"):
        ra.anonymize(points, k=5, quasi=["height"])
    with pytest.raises(ra.InputError, match="no rows"):
        ra.anonymize(points.slice(0, 0), k=5, quasi=["x"])


def test_mondrian_arguments(points: pa.Table) -> None:
    release = ra.mondrian(points, k=7, quasi=["x", "y"], sensitive=["s"], weights={"x": 2})
    assert (release.k, release.base_k, release.algorithm) == (7, 7, "Mondrian")
    assert release.to_arrow().column_names == ["x_lo", "x_hi", "y_lo", "y_hi", "s"]
    assert ra.check(release.to_arrow(), quasi=["x", "y"]).k >= 7
    with pytest.raises(ra.UsageError, match="k=0"):
        ra.mondrian(points, k=0, quasi=["x"])
    with pytest.raises(ra.UsageError, match="either a schema"):
        ra.mondrian(points, k=5, quasi=["x"], schema=ra.Schema(["x"]))
    with pytest.raises(ra.UsageError, match="Name the quasi"):
        ra.mondrian(points, k=5)
    people = ra.mondrian(points, k=2, schema=ra.Schema(["x"], identity="s"))
    assert people.model == "IdentityKAnonymity(2)"


# --- schema, sources, outputs ------------------------------------------------------------------------------------


def test_a_schema_says_the_same_as_single_arguments(patients: pa.Table) -> None:
    attributes = ["age", ra.Categorical("zip", hierarchy=ra.Hierarchy.digits(5)), "sex"]
    schema = ra.Schema(attributes, sensitive=["diagnosis"], keep=["education"], weights={"age": 2})
    by_schema = ra.anonymize(patients, k=6, schema=schema)
    by_names = ra.anonymize(
        patients, k=6, quasi=attributes, sensitive=["diagnosis"], keep=["education"], weights={"age": 2}
    )
    assert by_schema.to_arrow().equals(by_names.to_arrow())
    assert by_schema.quality() == by_names.quality()
    bound = ra.Schema.infer(patients, attributes, sensitive=["diagnosis"], keep=["education"], weights={"age": 2})
    assert ra.anonymize(patients, k=6, schema=bound).to_arrow().equals(by_names.to_arrow())


def test_frames_in_and_out(points: pa.Table, tmp_path: Path) -> None:
    expected = ra.anonymize(points, k=8, quasi=["x", "y"], sensitive=["s"])
    table = expected.to_arrow()
    path = tmp_path / "points.csv"
    points.to_pandas().to_csv(path, index=False)
    for source in (points.to_pandas(), pl.from_arrow(points), points.to_batches(), str(path), path):
        if isinstance(source, list):
            source = pa.RecordBatchReader.from_batches(points.schema, source)
        release = ra.anonymize(source, k=8, quasi=["x", "y"], sensitive=["s"])
        assert release.to_arrow().to_pylist() == table.to_pylist()
    frame = expected.to_pandas()
    assert isinstance(frame, pd.DataFrame) and frame["x_lo"].tolist() == table.column("x_lo").to_pylist()
    lazy = expected.to_polars("text", layout="groups")
    assert (
        isinstance(lazy, pl.DataFrame) and lazy.columns == ["x", "y", "count", "s"] and lazy.height == expected.n_groups
    )
    assert ra.check(frame, quasi=["x", "y"]).k >= 8


def test_release_describes_itself(points: pa.Table) -> None:
    release = ra.anonymize(points, k=8, quasi=["x", "y"], method="greedy", compact=False)
    assert repr(release) == f"<Release k=8: 800 rows in {release.n_groups} groups of x, y>"
    assert (release.method, release.compact, release.quasi, release.version) == ("greedy", False, ("x", "y"), None)
    assert release.group_sizes.sum() == 800


# --- the same result, whatever the machine -----------------------------------------------------------------------


@pytest.mark.parametrize("quality", ["fast", "balanced", "best"])
def test_threads_do_not_change_the_result(quality: str) -> None:
    table = ra.generate("agrawal", 20_000, seed=5)
    quasi = ["salary", "age", "zipcode", "hvalue"]
    one, three = (
        ra.anonymize(table, k=10, quasi=quasi, sensitive=["loan"], quality=quality, threads=threads, seed=7)
        for threads in (1, 3)
    )
    assert one.to_arrow().equals(three.to_arrow())
    again = ra.anonymize(table, k=10, quasi=quasi, sensitive=["loan"], quality=quality, seed=7)
    assert again.to_arrow().equals(one.to_arrow())


def test_better_grades_are_better(patients: pa.Table) -> None:
    quasi = ["age", "sex", "zip", "birth_date", "marital_status"]
    quasi = [name for name in quasi if name in patients.column_names]
    certainty = {
        quality: ra.anonymize(patients, k=10, quasi=quasi, quality=quality).quality()["certainty"]
        for quality in ("fast", "best")
    }
    assert certainty["best"] <= certainty["fast"]


# --- weights and bias --------------------------------------------------------------------------------------------


def mean_width(release: ra.Release, name: str) -> float:
    table = release.to_arrow()
    return float(np.mean(table.column(f"{name}_hi").to_numpy() - table.column(f"{name}_lo").to_numpy()))


def test_weights_narrow_the_attribute_that_matters(points: pa.Table) -> None:
    plain, weighted = (ra.anonymize(points, k=10, quasi=["x", "y"], weights=weights) for weights in (None, {"x": 50.0}))
    assert mean_width(weighted, "x") < mean_width(plain, "x") / 2
    assert mean_width(weighted, "y") > mean_width(plain, "y")


def test_bias_cuts_one_attribute_only(points: pa.Table) -> None:
    """Figure 4 of the paper: a tree that is split on one attribute only answers queries on it almost exactly."""
    plain, biased = (ra.anonymize(points, k=10, quasi=["x", "y"], bias=bias) for bias in ((), ["x"]))
    assert mean_width(biased, "x") < mean_width(plain, "x") / 2
    x = points.column("x").to_numpy()
    errors = {}
    for name, release in (("plain", plain), ("biased", biased)):
        found = [release.count(x=(lo, lo + 60)) for lo in range(0, 900, 30)]
        true = [int(((x >= lo) & (x <= lo + 60)).sum()) for lo in range(0, 900, 30)]
        assert all(found[i] >= true[i] for i in range(len(true)))
        errors[name] = sum(found) - sum(true)
    assert errors["biased"] < errors["plain"] / 2
    assert ra.anonymize(points, k=10, quasi=["x", "y"], bias="x").to_arrow().equals(biased.to_arrow())


# --- the steps that are told -------------------------------------------------------------------------------------


def test_steps_are_told_in_their_order(points: pa.Table) -> None:
    steps: list[tuple[str, int | None]] = []
    ra.anonymize(points, k=[5, 9], quasi=["x"], on_step=lambda step, k: steps.append((step, k)))
    assert steps == [("reading", None), ("cutting", None), ("grouping", 5), ("grouping", 9)]
