"""Lemma 1 of the R+-tree paper on releases: whoever has all releases of one tree still sees base k candidates per row.

And the releases that come with a release: pseudonyms, which must not tell one release's people from another's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.io.table import read_table
from rtree_anon.release import Release, Rows
from rtree_anon.release.from_tree import release_tree
from rtree_anon.tree import build_tree
from tests.release.by_hand import interval
from tests.release.mixed import Mixed, mixed_tables


def group_of_rows(release: Release) -> dict[int, int]:
    table = release.to_arrow(group_id=True, key=True)
    return dict(zip(table.column("row").to_pylist(), table.column("group").to_pylist(), strict=True))


def fewest_candidates(releases: list[Release]) -> int:
    """Rows that share all of their groups with the row that shares them with the fewest."""
    groups = [group_of_rows(release) for release in releases]
    together: dict[Any, int] = {}
    for row in groups[0]:
        key = tuple(group[row] for group in groups)
        together[key] = together.get(key, 0) + 1
    return min(together.values())


@settings(max_examples=40, deadline=None)
@given(
    mixed=mixed_tables(max_rows=90), base_k=st.integers(1, 5), ks=st.lists(st.integers(1, 30), min_size=1, max_size=4)
)
def test_releases_of_one_call_are_safe_together(mixed: Mixed, base_k: int, ks: list[int]) -> None:
    n = mixed.table.num_rows
    base_k = min(base_k, n)
    ks = [min(max(k, base_k), n) for k in ks]
    releases = ra.anonymize(mixed.table, k=ks, base_k=base_k, threads=1, **mixed.options)
    assert sorted(releases) == sorted(set(ks))
    assert all(release.k == k and release.base_k == base_k for k, release in releases.items())
    assert fewest_candidates(list(releases.values())) >= base_k


@settings(max_examples=40, deadline=None)
@given(
    mixed=mixed_tables(max_rows=90),
    base_k=st.integers(1, 5),
    wanted=st.lists(
        st.tuples(st.integers(1, 30), st.sampled_from(["optimal", "greedy", "hierarchical"]), st.booleans()),
        min_size=1,
        max_size=4,
    ),
)
def test_any_methods_of_one_tree_are_safe_together(
    mixed: Mixed, base_k: int, wanted: list[tuple[int, str, bool]]
) -> None:
    n = mixed.table.num_rows
    base_k = min(base_k, n)
    table = read_table(mixed.table, ra.Schema(mixed.quasi, ["illness"], key="row", weights=mixed.weights))
    tree = build_tree(table.codes, table.space, base_k, threads=1)
    releases = [
        release_tree(table, tree, min(max(k, base_k), n), method=method, compact=compact)
        for k, method, compact in wanted
    ]
    assert fewest_candidates(releases) >= base_k


def test_releases_of_different_trees_need_not_be_safe_together() -> None:
    """The lemma speaks of one tree; this shows that the test above can fail at all."""
    rng = np.random.default_rng(2)
    table = pa.table({"x": rng.integers(0, 99, 200), "y": rng.integers(0, 99, 200), "row": np.arange(200)})
    options: dict[str, Any] = {"k": 5, "base_k": 5, "quasi": ["x", "y"], "key": "row"}
    releases = [ra.anonymize(table, bias=[name], **options) for name in ("x", "y")]
    assert fewest_candidates(releases) < 5


def people(n_people: int = 40, rows_each: int = 3) -> Release:
    names = [f"person {number:02}" for number in range(n_people)] * rows_each
    sizes = np.array([len(names) // 2, len(names) - len(names) // 2])
    rows = Rows(
        pa.table({"illness": ["flu"] * len(names), "person": [*names[:-1], None]}),
        np.arange(len(names)),
        sensitive=("illness",),
        identity="person",
    )
    return Release((interval("age", [(1, 2), (3, 4)], 3),), sizes, rows, k=2)


def test_identities_are_left_out_unless_asked_for() -> None:
    assert people().to_arrow().column_names == ["age_lo", "age_hi", "illness"]


def test_pseudonyms_are_consistent_in_a_release_and_fresh_in_every_other() -> None:
    release = people()
    # Random numbers instead of names; the groups know how often each of them occurs.
    first, second = (release.to_arrow(identity=True).column("person") for _ in range(2))
    assert first.type == pa.int64()
    assert first.null_count == 1
    counts = sorted(first.value_counts().to_pylist(), key=lambda entry: entry["counts"])
    present = [entry["counts"] for entry in counts if entry["values"] is not None]
    assert sorted(present) == [2] + [3] * 39
    assert set(first.drop_null().to_pylist()) == set(range(1, 41))
    assert first.to_pylist() != second.to_pylist()  # 40! permutations


def test_pseudonyms_do_not_follow_the_names_order() -> None:
    names = pa.array([f"person {number:03}" for number in range(300)])
    rows = Rows(pa.table({"person": names}), np.arange(300), identity="person")
    release = Release((interval("age", [(1, 2)], 3),), np.array([300]), rows, k=2)
    # Rows are sorted by what is released, so the numbers ascend: nothing is left of the order of the names.
    assert release.to_arrow(identity=True).column("person").to_pylist() == list(range(1, 301))
    both = [release.to_arrow(identity=True, layout="groups").column("person").to_pylist() for _ in range(2)]
    assert both[0] == both[1] == [list(range(1, 301))]
