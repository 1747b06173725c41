"""The compiled form of a model says of every group what the definition says; and what the theory says about unions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.kernels.constraint import Constraint
from rtree_anon.models import Model
from rtree_anon.models.compiling import CodedColumn, compile_model, groups_satisfy
from rtree_anon.models.possible import require_possible
from tests.models.drawn import coded_world, make_world, models, totals_of
from tests.models.naive_models import World, doubtful, holds, margin


@st.composite
def grouped_worlds(draw: st.DrawFn) -> tuple[World, list[list[int]]]:
    """A table and disjoint groups of its rows, in any order."""
    n = draw(st.integers(1, 60))
    world = make_world(draw(st.integers(0, 2**32)), n, draw(st.integers(1, 7)), skew=draw(st.sampled_from([0.0, 1.5])))
    rows = np.random.default_rng(draw(st.integers(0, 2**32))).permutation(n).tolist()
    cuts = sorted({0, n, *draw(st.lists(st.integers(0, n), max_size=5))})
    return world, [rows[a:b] for a, b in pairwise(cuts)]


def compiled(model: Model, world: World) -> Constraint:
    columns, people = coded_world(world)
    return compile_model(model, columns, people, n_rows=len(world.people))


def satisfied(constraint: Constraint, groups: list[list[int]]) -> list[bool]:
    starts = np.cumsum([0, *map(len, groups)])
    numbers = np.array([row for group in groups for row in group], np.int32)
    return groups_satisfy(constraint, numbers, starts).tolist()  # type: ignore[no-any-return]


@settings(max_examples=400, deadline=None)
@given(models, grouped_worlds())
def test_kernel_and_definition_agree(model: Model, world_and_groups: tuple[World, list[list[int]]]) -> None:
    world, groups = world_and_groups
    found = satisfied(compiled(model, world), groups)
    for group, answer in zip(groups, found, strict=True):
        assert answer == holds(model, world, group) or doubtful(model, world, group)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([("ordered", 0.02), ("ordered", 0.05), ("ordered", 0.1), ("ordered", 0.3), ("equal", 0.9)]),
    st.integers(1, 40),
    st.integers(200, 3000),
)
def test_many_values(seed: int, bound: tuple[str, float], size: int, n_values: int) -> None:
    """Where a group has few of many values, distances are computed from those alone."""
    world = make_world(seed, 400, n_values, skew=0.3)
    model = ra.TCloseness(bound[1], "pay", bound[0])
    groups = [list(range(begin, begin + size)) for begin in range(0, 10 * size, size)]
    for group, answer in zip(groups, satisfied(compiled(model, world), groups), strict=True):
        assert answer == holds(model, world, group) or doubtful(model, world, group)


@settings(max_examples=400, deadline=None)
@given(models, grouped_worlds())
def test_unions_of_valid_groups_are_valid(model: Model, world_and_groups: tuple[World, list[list[int]]]) -> None:
    """What leaf scans and the test for possibility rely on; by the definitions alone."""
    world, groups = world_and_groups
    valid = [group for group in groups if margin(model, world, group) >= 0]
    if valid:
        assert holds(model, world, [row for group in valid for row in group])


@settings(max_examples=300, deadline=None)
@given(models, grouped_worlds())
def test_upward_constraints_are_never_spoilt(model: Model, world_and_groups: tuple[World, list[list[int]]]) -> None:
    world, groups = world_and_groups
    if compiled(model, world).upward and holds(model, world, groups[0]):
        assert holds(model, world, [row for group in groups for row in group])


@settings(max_examples=300, deadline=None)
@given(models, grouped_worlds())
def test_least_rows_is_a_lower_bound(model: Model, world_and_groups: tuple[World, list[list[int]]]) -> None:
    world, groups = world_and_groups
    least = compiled(model, world).least_rows
    assert all(len(group) >= least for group in groups if holds(model, world, group))


@settings(max_examples=300, deadline=None)
@given(models, grouped_worlds())
def test_a_model_is_possible_where_the_whole_table_satisfies_it(
    model: Model, world_and_groups: tuple[World, list[list[int]]]
) -> None:
    world, groups = world_and_groups
    columns, people = coded_world(world)
    everything = [row for group in groups for row in group]
    if doubtful(model, world, everything):
        return
    try:
        require_possible(model, len(everything), totals_of(columns), people.totals)
    except PrivacyError:
        assert not holds(model, world, everything)
    else:
        assert holds(model, world, everything)


def test_a_part_of_a_table_is_compared_with_the_whole_table() -> None:
    """The distribution comes from outside: 2 of 4 rows here, but 1 of 10 in the table."""
    column = CodedColumn(np.array([0, 0, 1, 1], np.int32), np.array([90, 10]))
    near, far = (compile_model(ra.TCloseness(t, "pay"), {"pay": column}) for t in (0.4, 0.39))
    starts = np.array([0, 4])
    assert groups_satisfy(near, np.arange(4, dtype=np.int32), starts).all()
    assert not groups_satisfy(far, np.arange(4, dtype=np.int32), starts).any()


@pytest.mark.parametrize(
    ("model", "totals", "said"),
    [
        (ra.KAnonymity(11), [5, 5], "11.*it has 10 rows. Use a k of at most 10"),
        (ra.DistinctLDiversity(3, "pay"), [5, 5], "2 distinct values of 'pay'. Use an l of at most 2"),
        (ra.EntropyLDiversity(2, "pay"), [8, 2], r"entropy l of 'pay' is 1\.6493"),
        (ra.RecursiveCLDiversity(2, 2, "pay"), [8, 2], r"has 8 rows, those from the 2nd on have 2. Use a c above 4\."),
        (ra.AlphaKAnonymity(0.5, 2, "pay"), [7, 3], r"a share of 0\.7000. Allow at least"),
        (ra.IdentityKAnonymity(3), [5, 5], "it has 2 people. Use a k of at most 2"),
        (
            ra.KAnonymity(2) & ra.DistinctLDiversity(4, "pay"),
            [5, 5],
            r"DistinctLDiversity\(4, on='pay'\) cannot be met",
        ),
    ],
)
def test_what_cannot_be_met_is_explained(model: Model, totals: list[int], said: str) -> None:
    counts = np.array(totals)
    with pytest.raises(PrivacyError, match=said):
        require_possible(model, 10, {"pay": counts}, counts)


def test_missing_columns_and_people_are_named() -> None:
    column = CodedColumn.of(np.zeros(3, np.int32), 1)
    with pytest.raises(UsageError, match="'disease', which is not a sensitive column"):
        compile_model(ra.DistinctLDiversity(2, "disease"), {"pay": column})
    with pytest.raises(UsageError, match="name the identity column"):
        compile_model(ra.IdentityKAnonymity(2), {"pay": column})
