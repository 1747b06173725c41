"""What every release promises, on random tables of every kind: k, all rows, true values, nothing unasked for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from tests.release.mixed import FLAVOURS, Mixed, check_rows, make_mixed, mixed_tables

METHODS = ("optimal", "greedy", "hierarchical")


def anonymize(mixed: Mixed, k: int, **options: Any) -> ra.Release:
    return ra.anonymize(mixed.table, k=k, threads=1, **mixed.options, **options)


@settings(max_examples=120, deadline=None)
@given(
    mixed=mixed_tables(max_rows=100),
    k=st.integers(1, 12),
    base_k=st.none() | st.integers(1, 12),
    method=st.sampled_from(METHODS),
    compact=st.booleans(),
    quality=st.sampled_from(["fast", "balanced", "best"]),
)
def test_every_row_is_inside_its_group_of_k(
    mixed: Mixed, k: int, base_k: int | None, method: str, compact: bool, quality: str
) -> None:
    k = min(k, mixed.table.num_rows)
    base_k = None if base_k is None else min(base_k, k)
    release = anonymize(mixed, k, base_k=base_k, method=method, compact=compact, quality=quality)
    check_rows(mixed, release)
    for style in ("interval", "text"):
        released = release.to_arrow(style=style)
        report = ra.check(released, quasi=mixed.names)
        assert report.k >= k
        assert report.n_rows == release.n_rows == mixed.table.num_rows
        assert report.n_groups <= release.n_groups
    assert int(release.group_sizes.min()) >= k
    assert -1e-12 <= release.quality()["certainty"] <= 1 + 1e-12
    assert release.quality()["discernibility"] >= k * release.n_rows


@settings(max_examples=40, deadline=None)
@given(mixed=mixed_tables(), k=st.integers(1, 8), compact=st.booleans())
def test_mondrian_keeps_the_same_promises(mixed: Mixed, k: int, compact: bool) -> None:
    k = min(k, mixed.table.num_rows)
    schema = ra.Schema(mixed.quasi, ["illness"], key="row", keep=["ward"], weights=mixed.weights)
    release = ra.mondrian(mixed.table, k=k, schema=schema, compact=compact)
    check_rows(mixed, release)
    assert ra.check(release.to_arrow(), quasi=mixed.names).k >= k


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("gap", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("compact", [True, False])
def test_every_kind_alone(flavour: str, gap: float, compact: bool) -> None:
    mixed = make_mixed(len(flavour), 300, [flavour], [gap])
    for k in (2, 7):
        release = anonymize(mixed, k, compact=compact, base_k=2)
        check_rows(mixed, release)
        assert ra.check(release.to_arrow("text"), quasi=mixed.names).k >= k


def test_columns_are_those_of_the_schema_and_no_others() -> None:
    mixed = make_mixed(1, 60, ["int", "few", "date"], [0.0, 0.3, 0.0])
    release = anonymize(mixed, 5)
    assert release.to_arrow().column_names == [
        "q0_lo",
        "q0_hi",
        "q1",
        "q1_missing",
        "q2_lo",
        "q2_hi",
        "illness",
        "ward",
    ]
    assert release.to_arrow("text").column_names == ["q0", "q1", "q1_missing", "q2", "illness", "ward"]
    assert release.to_arrow(key=True, group_id=True).column_names[-4:] == ["group", "illness", "ward", "row"]
    groups = release.to_arrow(layout="groups")
    assert groups.num_rows == release.n_groups
    assert groups.column("count").to_pylist() == release.group_sizes.tolist()
    assert [len(illnesses) for illnesses in groups.column("illness").to_pylist()] == release.group_sizes.tolist()


def test_groups_layout_holds_the_same_rows() -> None:
    mixed = make_mixed(2, 80, ["int", "many", "bool"], [0.2, 0.2, 0.2])
    release = anonymize(mixed, 6)
    quasi = [name for name in release.to_arrow().column_names if name.startswith("q")]
    unfolded = [
        (*(group[name] for name in quasi), illness, ward)
        for group in release.to_arrow(layout="groups").to_pylist()
        for illness, ward in zip(group["illness"], group["ward"], strict=True)
    ]
    rows = [tuple(row.values()) for row in release.to_arrow().to_pylist()]
    assert unfolded == rows


@settings(max_examples=30, deadline=None)
@given(mixed=mixed_tables(max_rows=40), seed=st.integers(0, 2**32), k=st.integers(2, 5))
def test_the_order_of_equal_points_in_the_input_leaves_no_trace(mixed: Mixed, seed: int, k: int) -> None:
    """Rows with the same quasi-identifiers change places: the release must be the very same table."""
    k = min(k, mixed.table.num_rows)
    points = [tuple(row.values()) for row in mixed.table.select(mixed.names).to_pylist()]
    places: dict[Any, list[int]] = {}
    for place, point in enumerate(points):
        places.setdefault(tuple(map(str, point)), []).append(place)
    rng = np.random.default_rng(seed)
    source = np.arange(len(points))
    for same in places.values():
        source[same] = rng.permutation(same)
    shuffled = Mixed(mixed.table.take(pa.array(source)), mixed.flavours, mixed.weights)
    assert anonymize(mixed, k).to_arrow().equals(anonymize(shuffled, k).to_arrow())


@settings(max_examples=30, deadline=None)
@given(mixed=mixed_tables(max_rows=40), k=st.integers(2, 5))
def test_rows_of_a_group_are_sorted_and_nothing_is_lost(mixed: Mixed, k: int) -> None:
    k = min(k, mixed.table.num_rows)
    rows = anonymize(mixed, k).to_arrow(group_id=True).to_pylist()
    keys = [(row["group"], row["illness"], row["ward"] is not None, row["ward"] or 0) for row in rows]
    assert keys == sorted(keys)
    payload = Counter((row["illness"], row["ward"]) for row in mixed.table.to_pylist())
    assert payload == Counter((row["illness"], row["ward"]) for row in rows)


def test_many_carried_columns_are_sorted_in_their_order() -> None:
    """More columns than fit in one 64-bit sorting key."""
    rng = np.random.default_rng(5)
    names = [f"s{place}" for place in range(6)]
    wide = {name: pa.array(rng.choice([-(2**30), 0, 5, 2**30 - 1], 200)) for name in names[:3]}
    texts = {
        name: pa.array([None if pick == 0 else f"t{pick}" for pick in rng.integers(0, 150, 200)]) for name in names[3:]
    }
    table = pa.table({"x": pa.array(rng.integers(0, 3, 200)), **wide, **texts})
    rows = ra.anonymize(table, k=40, quasi=["x"], sensitive=names).to_arrow(group_id=True).to_pylist()
    keys = [(row["group"], *((row[name] is not None, row[name] or 0) for name in names[:3]),
             *((row[name] is not None, row[name] or "") for name in names[3:])) for row in rows]  # fmt: skip
    assert keys == sorted(keys)


def test_a_single_group_and_k_1() -> None:
    mixed = make_mixed(3, 9, ["int", "weird", "tree"], [0.3, 0.3, 0.3])
    single = anonymize(mixed, 9)
    assert single.n_groups == 1
    check_rows(mixed, single)
    check_rows(mixed, anonymize(mixed, 1))


def test_one_row_at_k_1_is_exact() -> None:
    release = ra.anonymize(pa.table({"x": [5], "c": ["a"]}), k=1, quasi=["x", "c"])
    assert release.to_arrow().to_pylist() == [{"x_lo": 5, "x_hi": 5, "c": "a"}]
    assert release.quality()["certainty"] == 0


def test_releases_without_carried_columns() -> None:
    release = ra.anonymize(pa.table({"x": list(range(20))}), k=4, quasi=["x"])
    assert release.to_arrow().num_rows == 20
    assert release.to_arrow(layout="groups").column_names == ["x_lo", "x_hi", "count"]


def test_asking_for_a_key_or_an_identity_that_is_not_there() -> None:
    release = ra.anonymize(pa.table({"x": list(range(20))}), k=4, quasi=["x"])
    with pytest.raises(ra.UsageError, match="no key"):
        release.to_arrow(key=True)
    with pytest.raises(ra.UsageError, match="no identity"):
        release.to_arrow(identity=True)
    with pytest.raises(ra.UsageError, match="style"):
        release.to_arrow(style="html")
    with pytest.raises(ra.UsageError, match="layout"):
        release.to_arrow(layout="pages")
