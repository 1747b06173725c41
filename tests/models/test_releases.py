"""Releases under every model, from frames to tables: verified by the definitions and by the checker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.models import Model
from tests.models.drawn import make_world, models
from tests.models.naive_models import World, doubtful, holds

QUALITIES = ("fast", "balanced", "best")
METHODS = ("optimal", "greedy", "hierarchical")


def frame_of(world: World, seed: int) -> pa.Table:
    """A world as a table, with its row numbers kept, so that groups can be read off the release."""
    n = len(world.people)
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(0, 40, n),
            "zip": [f"z{code}" for code in rng.integers(0, 9, n)],
            "person": world.people,
            "row": list(range(n)),
            **world.values,
        }
    )


def groups_of(release: Any) -> list[list[int]]:
    rows = release.to_arrow(layout="groups")
    return rows.column("row").to_pylist()  # type: ignore[no-any-return]


def anonymized(table: pa.Table, model: Model | str | None, k: Any = 2, **options: Any) -> Any:
    return ra.anonymize(
        table,
        k,
        ["age", "zip"],
        sensitive=["disease", "pay"],
        keep=["row"],
        identity=options.pop("identity", "person"),
        model=model,
        threads=1,
        **options,
    )


@settings(max_examples=120, deadline=None)
@given(
    models,
    st.integers(1, 90),
    st.integers(0, 2**32),
    st.sampled_from(["fast", "balanced", "best"]),
    st.sampled_from(METHODS),
)
def test_every_group_of_every_release_satisfies_the_model(
    model: Model, n: int, seed: int, quality: str, method: str
) -> None:
    world = make_world(seed, n, 4, skew=0.5)
    whole = list(range(n))
    try:
        releases = anonymized(frame_of(world, seed), model, [1, 3, 8], base_k=1, quality=quality, method=method)
    except PrivacyError as error:
        largest = ra.IdentityKAnonymity(8) & model
        assert "cannot be" in str(error) and "bug" not in str(error)
        assert not holds(largest, world, whole) or doubtful(largest, world, whole)
        return
    for k, release in releases.items():
        groups = groups_of(release)
        assert sorted(row for group in groups for row in group) == whole
        for group in groups:
            assert holds(model, world, group) and len({world.people[row] for row in group}) >= k
    # Whoever has all releases knows of a row that it is in the intersection of its groups: Lemma 1 with a model.
    together = model.with_k_at_most(1)
    places = [{row: set(group) for group in groups_of(release) for row in group} for release in releases.values()]
    for row in whole[:: max(1, n // 10)]:
        common = set.intersection(*(place[row] for place in places))
        assert holds(together, world, sorted(common))


@settings(max_examples=60, deadline=None)
@given(models, st.integers(8, 80), st.integers(0, 2**32))
def test_the_checker_confirms_what_the_release_says(model: Model, n: int, seed: int) -> None:
    world = make_world(seed, n, 3, skew=0.3)
    try:
        release = anonymized(frame_of(world, seed), model, 2)
    except PrivacyError:
        return
    table = release.to_arrow(identity=True)
    report = ra.check(table, ["age", "zip"], ["disease", "pay"], "person")
    assert report.unmet(model.demands()) == [] and report.individuals >= 2


@settings(max_examples=60, deadline=None)
@given(models, st.integers(2, 80), st.integers(0, 2**32))
def test_mondrian_satisfies_the_model_too(model: Model, n: int, seed: int) -> None:
    world = make_world(seed, n, 3, skew=0.3)
    try:
        release = ra.mondrian(
            frame_of(world, seed),
            2,
            ["age", "zip"],
            sensitive=["disease", "pay"],
            keep=["row"],
            identity="person",
            model=model,
        )
    except PrivacyError:
        return
    assert all(holds(ra.IdentityKAnonymity(2) & model, world, group) for group in groups_of(release))


def test_k_counts_people_where_there_is_an_identity() -> None:
    """Table 1 of the identity paper: by rows, Mike is a group of his own; by people he is not."""
    table = pa.table(
        {
            "name": ["Mike", "Mike", "Emily", "Tim", "Jane", "Ella"],
            "sex": ["M", "M", "F", "M", "F", "F"],
            "postcode": [10085, 10085, 10075, 10075, 10086, 10087],
            "disease": ["hypertension", "hyperlipemia", "diabetes", "heart", "cancer", "flu"],
        }
    )
    quasi = ["sex", "postcode"]
    by_rows = ra.anonymize(table, 2, quasi, sensitive=["disease"], keep=["name"], quality="best")
    assert ra.check(by_rows.to_arrow(), quasi, identity="name").individuals == 1
    by_people = ra.anonymize(table, 2, quasi, sensitive=["disease"], identity="name", quality="best")
    released = by_people.to_arrow(identity=True)
    assert ra.check(released, quasi, identity="name").individuals == 2
    assert by_people.model == "IdentityKAnonymity(2)" == by_people.safe_together_at
    assert "name" not in by_people.to_arrow().column_names
    assert set(released["name"].to_pylist()) == {1, 2, 3, 4, 5}


def test_rows_of_one_person_with_the_same_values_stay_together() -> None:
    """Forty people with three equal rows each: however finely the table is cut, a person is in one group."""
    person = np.repeat(np.arange(40), 3)
    table = pa.table({"age": np.repeat(np.arange(40) * 2, 3), "person": person, "pay": np.arange(120), "row": person})
    for quality in QUALITIES:
        release = ra.anonymize(table, 2, "age", sensitive=["pay"], keep=["row"], identity="person", quality=quality)
        groups = [set(group) for group in groups_of(release)]
        assert len(groups) > 10 and sum(map(len, groups)) == 40


def test_pseudonyms_are_drawn_anew() -> None:
    world = make_world(1, 60, 3)
    release = anonymized(frame_of(world, 1), None)
    first, second = (release.to_arrow(identity=True)["person"].to_pylist() for _ in range(2))
    assert first != second and len(set(first)) == len(set(world.people))


def test_a_stricter_release_says_at_which_model_releases_are_safe_together() -> None:
    world = make_world(2, 200, 6, skew=0.0)
    model = ra.DistinctLDiversity(2, "disease") & ra.AlphaKAnonymity(0.9, 20, "disease")
    release = anonymized(frame_of(world, 2), model, 10, identity=None)
    assert release.model == f"KAnonymity(10) & {model}"
    assert release.safe_together_at == (
        "KAnonymity(5) & DistinctLDiversity(2, on='disease') & AlphaKAnonymity(0.9, k=5, on='disease')"
    )
    assert release.smallest_group >= 20


def test_models_can_be_given_as_text(tmp_path: Any) -> None:
    world = make_world(3, 200, 6, skew=0.0)
    release = anonymized(frame_of(world, 3), "distinct_l=3 on disease, pay", 5, identity=None)
    report = ra.check(release.to_arrow(), ["age", "zip"], ["disease", "pay"])
    assert report.distinct_l is not None and report.distinct_l >= 3
    release.write(tmp_path / "out.parquet")
    assert ra.check(tmp_path / "out.parquet", ["age", "zip"], ["disease"]).distinct_l >= 3  # type: ignore[operator]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (ra.DistinctLDiversity(3, "illness"), "'illness', which is not a sensitive column .disease, pay."),
        ("t=0.3 on row", "'row', which is not a sensitive column"),
        (ra.IdentityKAnonymity(3), "name the identity column"),
        (5, "model must be a privacy model"),
    ],
)
def test_models_that_do_not_fit_the_schema_are_refused(model: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        anonymized(frame_of(make_world(0, 20), 0), model, identity=None)


def test_impossible_models_name_the_best_that_is_possible() -> None:
    table = frame_of(make_world(0, 50, 3), 0)
    with pytest.raises(PrivacyError, match=r"DistinctLDiversity\(9, on='pay'\) cannot be met.*Use an l of at most 3"):
        anonymized(table, ra.DistinctLDiversity(9, "pay"))
    n_people = len(set(table["person"].to_pylist()))
    with pytest.raises(PrivacyError, match=f"IdentityKAnonymity.45. cannot be met.*it has {n_people} people"):
        anonymized(table, None, 45)


def test_missing_values_are_a_value_of_their_own() -> None:
    table = pa.table({"age": list(range(12)), "pay": pa.array([None, 1, None, 1] * 3)})
    release = ra.anonymize(table, 2, ["age"], sensitive=["pay"], model=ra.DistinctLDiversity(2, "pay"))
    assert ra.check(release.to_arrow(), ["age"], ["pay"]).distinct_l == 2
    assert release.n_groups > 1
