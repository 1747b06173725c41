"""Loads and releases under every privacy model: leaves and groups satisfy it by the definitions, whatever comes in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.models import Model
from rtree_anon.models.fitting import with_k
from tests.index.making import pages_of, tiny
from tests.models.drawn import make_world, models
from tests.models.naive_models import World, doubtful, holds
from tests.models.test_releases import frame_of, groups_of

SCHEMA = ra.Schema(["age", "zip"], sensitive=["disease", "pay"], keep=["row"], identity="person")
METHODS = ("optimal", "greedy", "hierarchical")
ORDERS = ("as drawn", "by disease", "by person", "a rare value in one corner", "one person has most rows")


@contextmanager
def created(model: Model | str | None, schema: ra.Schema = SCHEMA, k: int = 2, **options: Any) -> Iterator[ra.Index]:
    """An index of small pages and little memory."""
    with (
        TemporaryDirectory() as directory,
        tiny(**options),
        ra.Index.create(Path(directory) / "index", schema, k=k, model=model) as index,
    ):
        yield index


def leaves_of(index: ra.Index) -> list[list[int]]:
    """The values of the column `row` in every leaf."""
    view = index._current
    rows = view.reader.rows(0, len(view.tree), np.int64)
    numbers = view.carried.decode(rows.carried)["row"].to_pylist()
    return [numbers[a:b] for a, b in zip(rows.starts[:-1].tolist(), rows.starts[1:].tolist(), strict=True)]


def ordered(world: World, table: pa.Table, order: str) -> tuple[World, pa.Table]:
    """A world and its table, made harder; row numbers are given anew."""
    values = {name: list(column) for name, column in world.values.items()}
    people, age = list(world.people), table["age"].to_pylist()
    n = len(people)
    if order == "by disease":
        age = [disease * 8 + number % 3 for number, disease in enumerate(values["disease"])]
    elif order == "by person":
        age = [person % 40 for person in people]
    elif order == "a rare value in one corner":
        values["disease"] = [9 if years < 2 else 1 for years in age]
    elif order == "one person has most rows":
        people = [0 if number % 5 else person for number, person in enumerate(people)]
    columns = {**values, "person": people, "age": age}
    for name, column in columns.items():
        table = table.set_column(table.schema.names.index(name), name, pa.array(column))
    by = np.argsort(np.array(values["disease"]), kind="stable") if order == "by disease" else np.arange(n)
    table = table.take(by).drop_columns(["row"]).append_column("row", pa.array(np.arange(n)))
    world = World({name: table[name].to_pylist() for name in values}, table["person"].to_pylist())
    return world, table


@settings(max_examples=50, deadline=None)
@given(
    models,
    st.sampled_from([3, 30, 150, 400]),
    st.integers(0, 2**32),
    st.sampled_from(ORDERS),
    st.sampled_from(METHODS),
    st.booleans(),
)
def test_every_leaf_and_every_group_satisfies_the_model(
    model: Model, n: int, seed: int, order: str, method: str, names_are_text: bool
) -> None:
    world = make_world(seed, n, 4, skew=0.5)
    world, table = ordered(world, frame_of(world, seed), order)
    if names_are_text:
        texts = pa.array([None if person == 1 else f"person {person}" for person in world.people])
        table = table.set_column(table.schema.names.index("person"), "person", texts)
    whole, leaf_model = list(range(n)), with_k(2, "person", model).with_k_at_most(2)
    with created(model) as index:
        try:
            index.load(table)
        except PrivacyError as error:
            assert "cannot be met" in str(error) and "bug" not in str(error)
            assert not holds(leaf_model, world, whole) or doubtful(leaf_model, world, whole)
            assert len(index) == 0 and index.verify().n_rows == 0
            return
        index.verify()
        leaves = leaves_of(index)
        assert sorted(row for leaf in leaves for row in leaf) == whole
        assert all(holds(leaf_model, world, leaf) for leaf in leaves)
        for k in (2, 7):
            try:
                release = index.release(k, method)
            except PrivacyError as error:
                assert "cannot be" in str(error) and "bug" not in str(error)
                whole_model = with_k(k, "person", model)
                assert not holds(whole_model, world, whole) or doubtful(whole_model, world, whole)
                continue
            groups = groups_of(release)
            assert sorted(row for group in groups for row in group) == whole
            assert all(holds(with_k(k, "person", model), world, group) for group in groups)
            assert release.safe_together_at == str(leaf_model)
            released = ra.check(release.to_arrow(identity=True), ["age", "zip"], ["disease", "pay"], "person")
            assert released.unmet(with_k(k, "person", model).demands()) == []


@settings(max_examples=40, deadline=None)
@given(models, models, st.sampled_from([40, 200, 400]), st.integers(0, 2**32), st.sampled_from(METHODS))
def test_stricter_releases(own: Model, stricter: Model, n: int, seed: int, method: str) -> None:
    """More than the index asks for: segments that do not satisfy it alone go together, or the error says what to do."""
    world = make_world(seed, n, 4, skew=0.2)
    with created(own) as index:
        try:
            index.load(frame_of(world, seed))
        except PrivacyError:
            return
        asked = with_k(3, "person", own, stricter)
        try:
            release = index.release(3, method, model=stricter)
        except PrivacyError as error:
            assert "cannot be" in str(error) and "bug" not in str(error)
            assert not holds(asked, world, list(range(n))) or doubtful(asked, world, list(range(n)))
            return
        groups = groups_of(release)
        assert sorted(row for group in groups for row in group) == list(range(n))
        assert all(holds(asked, world, group) for group in groups)
        assert release.model == str(asked)
        assert release.safe_together_at == str(with_k(2, "person", own).with_k_at_most(2))


def test_clustered_values_are_cut_where_both_sides_are_valid() -> None:
    """Every value of the sensitive column has a region of its own: leaves lie across the borders, more than one."""
    n = 3000
    age = np.arange(n) % 100
    table = pa.table({"age": age, "zip": (age * 7) % 5, "disease": age // 10, "pay": age, "row": np.arange(n)})
    schema = ra.Schema(["age", "zip"], sensitive=["disease", "pay"], keep=["row"])
    with created(ra.DistinctLDiversity(3, "disease"), schema, k=5, bucket_rows=40) as index:
        index.load(table)
        assert index.verify().n_leaves > 1
        diseases = table["disease"].to_pylist()
        assert all(len({diseases[row] for row in leaf}) >= 3 for leaf in leaves_of(index))


def test_a_model_that_cannot_be_met_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    world = make_world(0, 200, 3)
    path = tmp_path / "index"
    with tiny(), ra.Index.create(path, SCHEMA, k=2, model="distinct_l=3 on disease") as index:
        index.load(frame_of(world, 0))
        before = pages_of(path)
    for model, said in (
        ("distinct_l=9 on pay", r"DistinctLDiversity\(9, on='pay'\) cannot be met.*Use an l of at most 3"),
        ("people=500", r"IdentityKAnonymity\(500\) cannot be met.*people"),
    ):
        with tiny(), ra.Index.open(path) as index, pytest.raises(PrivacyError, match=said):
            index.release(2, model=model)
    other = tmp_path / "other"
    with tiny(), ra.Index.create(other, SCHEMA, k=2, model="distinct_l=9 on pay") as index:
        with pytest.raises(PrivacyError, match="Use an l of at most 3"):
            index.load(frame_of(world, 0))
        assert len(index) == 0 and index.verify().n_rows == 0
    assert pages_of(path) == before


def test_the_model_is_kept_with_the_index(tmp_path: Path) -> None:
    path, model = tmp_path / "index", ra.TCloseness(0.4, "pay", "ordered") & ra.AlphaKAnonymity(0.9, 20, "disease")
    with tiny(), ra.Index.create(path, SCHEMA, k=3, model=str(model)) as index:
        index.load(frame_of(make_world(1, 300, 4), 1))
    with ra.Index.open(path) as index:
        assert str(index.model) == f"IdentityKAnonymity(3) & {model}" == index.stats()["model"]
        assert index.verify().model == str(index.model).replace("k=20", "k=3")
        release = index.release(5)
        assert release.smallest_group >= 20 and release.model == str(index.model).replace(
            "Anonymity(3)", "Anonymity(5)"
        )


def test_more_rows_into_an_index_with_a_model() -> None:
    """A second load may change what every group is compared with."""
    model = ra.TCloseness(0.4, "disease") & ra.DistinctLDiversity(2, "pay")
    worlds = [make_world(seed, 300, 5, skew=skew) for seed, skew in ((1, 0.0), (2, 3.0))]
    tables = [frame_of(world, seed) for seed, world in enumerate(worlds)]
    tables[1] = tables[1].set_column(3, "row", pa.array(np.arange(300, 600)))
    world = World(
        {name: worlds[0].values[name] + worlds[1].values[name] for name in ("disease", "pay")},  # type: ignore[operator]
        [*worlds[0].people, *worlds[1].people],
    )
    with created(model, k=3) as index:
        for table in tables:
            index.load(table)
            index.verify()
        assert all(holds(with_k(3, "person", model), world, leaf) for leaf in leaves_of(index))


def test_threads_do_not_matter(tmp_path: Path) -> None:
    table = frame_of(make_world(5, 500, 4), 5)
    found = []
    for threads in (1, 3):
        path = tmp_path / f"index {threads}"
        with tiny(), ra.Index.create(path, SCHEMA, k=2, model="t=0.4 on disease", threads=threads) as index:
            index.load(table)
        found.append(pages_of(path))
    assert found[0] == found[1]


def test_people_are_stored_as_hashes_and_released_as_random_numbers(tmp_path: Path) -> None:
    table = frame_of(make_world(4, 200, 4), 4)
    names = [f"Somebody Nr {person}" for person in table["person"].to_pylist()]
    table = table.set_column(table.schema.names.index("person"), "person", pa.array(names))
    path = tmp_path / "index"
    with tiny(), ra.Index.create(path, SCHEMA, k=3) as index:
        index.load(table)
        assert not any(b"Somebody" in page for page in pages_of(path).values())
        first, second = (index.release(4).to_arrow(identity=True) for _ in range(2))
        assert "person" not in index.release(4).to_arrow().schema.names
    assert set(first["person"].to_pylist()).isdisjoint(second["person"].to_pylist())
    by_row = dict(zip(first["row"].to_pylist(), first["person"].to_pylist(), strict=True))
    numbers = [by_row[row] for row in table["row"].to_pylist()]
    assert len(set(zip(names, numbers, strict=True))) == len(set(names)) == len(set(numbers))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (ra.DistinctLDiversity(3, "illness"), "'illness', which is not a sensitive column .disease, pay."),
        ("t=0.3 on row", "'row', which is not a sensitive column"),
        (5, "model must be a privacy model"),
    ],
)
def test_models_that_do_not_fit_the_schema_are_refused(tmp_path: Path, model: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ra.Index.create(tmp_path / "index", SCHEMA, k=2, model=model)
    assert not (tmp_path / "index").exists()
    with ra.Index.create(tmp_path / "index", SCHEMA, k=2) as index, pytest.raises(UsageError, match=said):
        index.release(2, model=model)
    with pytest.raises(UsageError, match="name the identity column"):
        ra.Index.create(tmp_path / "other", ra.Schema(["age"]), k=2, model=ra.IdentityKAnonymity(3))
