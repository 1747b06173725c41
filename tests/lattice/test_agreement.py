"""Brute force agrees with every algorithm and variant on random small tables, with suppression, models and limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon import lattice
from rtree_anon.errors import UsageError
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.lattice import frequency, samples, search
from rtree_anon.lattice.result import Result
from rtree_anon.models import Model
from tests.lattice.naive_lattice import Holds, all_satisfying, bind, groups_at, minimal_of, suppressed_at
from tests.models import naive_models
from tests.models.naive_models import World

HIERARCHIES = {
    "age": Hierarchy.intervals(widths=[2, 4]),
    "zip": Hierarchy.digits(2),
    "sex": Hierarchy.from_tree({"person": ["f", "m"]}),
    "job": Hierarchy.from_tree({"any": {"office": ["clerk", "manager"], "field": ["farmer", "driver", "smith"]}}),
}
ROWS = st.lists(
    st.tuples(
        st.integers(0, 7).map(str),
        st.sampled_from(["10", "11", "12", "20", "21"]),
        st.sampled_from(["f", "m"]),
        st.sampled_from(["clerk", "manager", "farmer", "driver", "smith"]),
        st.integers(0, 5),  # the person
        st.sampled_from(["flu", "ulcer", "cold"]),
    ),
    min_size=1,
    max_size=25,
)

COMPLETE: dict[str, Callable[..., Result]] = {
    "basic": lattice.incognito,
    "superroots": lambda *a, **o: lattice.incognito(*a, variant="superroots", **o),
    "cube": lambda *a, **o: lattice.incognito(*a, variant="cube", **o),
    "samarati": lattice.samarati,
    "bottom_up": lattice.bottom_up,
    "without_rollup": lambda *a, **o: lattice.bottom_up(*a, rollup=False, **o),
    "exhaustive": lattice.exhaustive,
    "little_memory": lambda *a, **o: lattice.incognito(*a, variant="cube", memory_bytes=200, **o),
}


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.table(dict(zip([*HIERARCHIES, "person", "disease"], map(list, columns), strict=True)))


def quasi(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return [row[:4] for row in rows]


@settings(deadline=None, max_examples=30)
@given(ROWS, st.integers(1, 5), st.integers(0, 6))
def test_k_anonymity_with_suppression(rows: list[tuple[Any, ...]], k: int, max_suppressed: int) -> None:
    table, bound = table_of(rows), bind(quasi(rows), HIERARCHIES)
    expected = all_satisfying(quasi(rows), bound, lambda group: len(group) >= k, max_suppressed)
    for name, algorithm in COMPLETE.items():
        result = algorithm(table, HIERARCHIES, k=k, max_suppressed=max_suppressed)
        assert set(result.generalizations) == expected, name
        assert set(result.minimal) == minimal_of(expected), name
    matrix = lattice.samarati(table, HIERARCHIES, k=k, max_suppressed=max_suppressed, matrix=True)
    assert set(matrix.minimal) == minimal_of(expected)
    first = lattice.samarati(table, HIERARCHIES, k=k, max_suppressed=max_suppressed, first_only=True).minimal
    assert [sum(levels) for levels in first[:1]] == sorted(map(sum, expected))[:1]
    greedy = lattice.datafly(table, HIERARCHIES, k=k, max_suppressed=max_suppressed).generalizations
    assert set(greedy) <= expected and bool(greedy) == bool(expected)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, k=st.integers(1, 5), max_suppressed=st.integers(0, 6))
def test_the_ways_of_large_tables(
    monkeypatch: pytest.MonkeyPatch, rows: list[tuple[Any, ...]], k: int, max_suppressed: int
) -> None:
    """Partitions and early dismissal by a sample, which small tables do not meet by themselves."""
    for module, name, value in (
        (frequency, "MAX_CELLS", 4),
        (frequency, "KEYS_PER_PARTITION", 2),
        (samples, "SHARE", 2),
        (search, "MANY_KEYS", 2),
    ):
        monkeypatch.setattr(module, name, value)
    expected = all_satisfying(
        quasi(rows), bind(quasi(rows), HIERARCHIES), lambda group: len(group) >= k, max_suppressed
    )
    for name, algorithm in COMPLETE.items():
        result = algorithm(table_of(rows), HIERARCHIES, k=k, max_suppressed=max_suppressed)
        assert set(result.generalizations) == expected, name
    model = ra.IdentityKLDiversity(k, 2, "disease")
    by_person = lattice.incognito(table_of(rows), HIERARCHIES, model=model, identity="person")
    everybody = lattice.exhaustive(table_of(rows), HIERARCHIES, model=model, identity="person")
    assert by_person.generalizations == everybody.generalizations


MODELS: dict[str, Model] = {
    "distinct l": ra.DistinctLDiversity(2, "disease"),
    "identity k": ra.IdentityKAnonymity(2),
    "identity kl": ra.IdentityKLDiversity(3, 2, "disease"),
    "both": ra.DistinctLDiversity(2, "disease") & ra.KAnonymity(4),
    "two columns": ra.DistinctLDiversity(2, ["disease", "job"]),
    "entropy l": ra.EntropyLDiversity(1.8, "disease"),
    "recursive": ra.RecursiveCLDiversity(1.5, 2, "disease"),
    "alpha k": ra.AlphaKAnonymity(0.6, 2, "disease"),
    "alpha beta": ra.IdentityAlphaBeta(0.5, 0.7, "disease"),
    "t equal": ra.TCloseness(0.3, "disease"),
    "t ordered": ra.TCloseness(0.3, "disease", distance="ordered"),
    "beta": ra.BetaLikeness(0.8, "disease"),
    "beta enhanced": ra.BetaLikeness(1.5, "disease", enhanced=True),
    "delta": ra.DeltaDisclosure(0.9, "disease"),
    "mixed": ra.IdentityKAnonymity(2) & ra.TCloseness(0.4, "disease"),
}
PRUNING_WITH_SUPPRESSION = {"distinct l", "identity k", "identity kl", "both", "two columns"}


def group_test(rows: list[tuple[Any, ...]], name: str) -> Holds:
    world = World({"disease": [row[5] for row in rows], "job": [row[3] for row in rows]}, [row[4] for row in rows])
    return lambda group: naive_models.holds(MODELS[name], world, group)


@settings(deadline=None, max_examples=12)
@pytest.mark.parametrize("name", MODELS)
@given(ROWS, st.integers(0, 4))
def test_models(name: str, rows: list[tuple[Any, ...]], max_suppressed: int) -> None:
    if name not in PRUNING_WITH_SUPPRESSION:
        max_suppressed = 0
    table, bound = table_of(rows), bind(quasi(rows), HIERARCHIES)
    expected = all_satisfying(quasi(rows), bound, group_test(rows, name), max_suppressed)
    for algorithm in COMPLETE.values():
        result = algorithm(table, HIERARCHIES, model=MODELS[name], max_suppressed=max_suppressed, identity="person")
        assert set(result.generalizations) == expected


@settings(deadline=None, max_examples=12)
@pytest.mark.parametrize("name", sorted(set(MODELS) - PRUNING_WITH_SUPPRESSION))
@given(ROWS, st.integers(1, 6))
def test_models_that_do_not_prune_are_searched_exhaustively(
    name: str, rows: list[tuple[Any, ...]], max_suppressed: int
) -> None:
    table, bound = table_of(rows), bind(quasi(rows), HIERARCHIES)
    options = {"model": MODELS[name], "max_suppressed": max_suppressed, "identity": "person"}
    expected = all_satisfying(quasi(rows), bound, group_test(rows, name), max_suppressed)
    result = lattice.exhaustive(table, HIERARCHIES, **options)
    assert set(result.generalizations) == expected
    assert set(result.minimal) == minimal_of(expected)
    for refused in (lattice.incognito, lattice.samarati, lattice.bottom_up):
        with pytest.raises(UsageError, match=r"does not allow the lattice to be pruned.*lattice\.exhaustive"):
            refused(table, HIERARCHIES, **options)


@settings(deadline=None, max_examples=20)
@given(ROWS, st.integers(1, 4), st.integers(0, 3), st.integers(0, 2), st.integers(0, 1))
def test_limits(rows: list[tuple[Any, ...]], k: int, max_suppressed: int, highest_age: int, lowest_zip: int) -> None:
    table, bound = table_of(rows), bind(quasi(rows), HIERARCHIES)
    limits = {"sex": 0, "age": highest_age, "zip": (lowest_zip, 2)}
    everything = all_satisfying(quasi(rows), bound, lambda group: len(group) >= k, max_suppressed)
    expected = {g for g in everything if g[2] == 0 and g[0] <= highest_age and lowest_zip <= g[1] <= 2}
    for name, algorithm in COMPLETE.items():
        result = algorithm(table, HIERARCHIES, k=k, max_suppressed=max_suppressed, limits=limits)
        assert set(result.generalizations) == expected, name
    matrix = lattice.samarati(table, HIERARCHIES, k=k, max_suppressed=max_suppressed, limits=limits, matrix=True)
    assert set(matrix.minimal) == minimal_of(expected)


@settings(deadline=None, max_examples=30)
@given(ROWS, st.integers(1, 4), st.tuples(*(st.integers(0, h) for h in (3, 2, 1, 2))))
def test_statistics_of_a_generalization(rows: list[tuple[Any, ...]], k: int, levels: tuple[int, ...]) -> None:
    bound = bind(quasi(rows), HIERARCHIES)
    levels = tuple(min(level, tree.height) for level, tree in zip(levels, bound, strict=True))
    found = lattice.datafly(table_of(rows), HIERARCHIES, k=k).statistics(levels)
    groups = groups_at(quasi(rows), levels, bound).values()
    assert found.n_suppressed == suppressed_at(quasi(rows), levels, bound, lambda group: len(group) >= k)
    assert found.n_groups == sum(len(group) >= k for group in groups)
