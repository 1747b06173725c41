"""Cuts look ahead to the room that a model leaves: no side is used up early, and no tree gets deep for a few rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import rtree_anon as ra
from rtree_anon.kernels.constraint import Constraint, tally_for
from rtree_anon.kernels.guard import weigh_cuts
from rtree_anon.kernels.room import LITTLE, can_be_weighed, dearer, sides_have_room
from rtree_anon.models import Model
from rtree_anon.models.compiling import CodedColumn, compile_model
from rtree_anon.space import Axis, Kind, Space
from rtree_anon.tree import QUALITIES, build_tree
from rtree_anon.tree.build import LeafTree
from tests.models.drawn import coded_world, make_world, models
from tests.models.naive_models import World, doubtful, holds
from tests.tables import make_table

N_ROWS = 40_000


def grown(points: NDArray[np.int64], sensitive: NDArray[np.int64], model: Model, quality: str) -> LeafTree:
    column = CodedColumn.of(sensitive.astype(np.int32), int(sensitive.max()) + 1)
    constraint = compile_model(model, {"s": column})
    space = Space(tuple(Axis(f"q{a}", Kind.LINEAR, 0, 999) for a in range(points.shape[1])))
    return build_tree(points.astype(np.int32), space, 5, quality=quality, constraint=constraint, threads=1)


@pytest.mark.parametrize("quality", QUALITIES)
def test_rare_values_in_a_corner_do_not_make_the_tree_deep(quality: str) -> None:
    """Every leaf needs one of 400 rows that lie in one corner: many leaves, and the tree stays far from a list."""
    rng = np.random.default_rng(1)
    points, sensitive = rng.integers(0, 1000, (N_ROWS, 4)), np.zeros(N_ROWS, np.int64)
    points[:400], sensitive[:400] = rng.integers(900, 1000, (400, 4)), 1
    tree = grown(points, sensitive, ra.DistinctLDiversity(2, "s"), quality)
    assert tree.n_leaves > 100
    assert tree.depth.max() < tree.n_leaves // 4


@pytest.mark.parametrize("quality", QUALITIES)
def test_no_side_is_used_up_where_it_can_be_avoided(quality: str) -> None:
    """The share of a value rises along the widest axis: cut there, one side has it as often as is allowed at most."""
    rng = np.random.default_rng(2)
    points = rng.integers(0, [1000, 900, 900], (N_ROWS, 3))
    sensitive = (rng.random(N_ROWS) < 0.1 + 0.4 * points[:, 0] / 1000).astype(np.int64)
    tree = grown(points, sensitive, ra.AlphaKAnonymity(0.76, 5, "s"), quality)
    assert tree.sizes.max() < N_ROWS // 100


def test_a_side_is_dearer_the_more_rows_its_groups_need() -> None:
    factors = [dearer(10, needed, 0.3) for needed in (0.0, 10.0, 20.0, 500.0)]
    assert factors[0] == factors[1] == 1.0 < factors[2] < factors[3]


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize(
    "model",
    [
        ra.DistinctLDiversity(2, "s"),
        ra.EntropyLDiversity(1.2, "s"),
        ra.RecursiveCLDiversity(50, 2, "s"),
        ra.AlphaKAnonymity(0.95, 5, "s"),
        ra.TCloseness(0.8, "s"),
        ra.TCloseness(0.8, "s", "ordered"),
        ra.BetaLikeness(4.5, "s"),
    ],
    ids=str,
)
def test_a_model_that_does_not_bind_leaves_the_tree_of_k_alone(model: Model, quality: str) -> None:
    """Six values, equally frequent everywhere: forty rows of them satisfy a lax model whatever they are."""
    table = make_table(3, 12_000, ["linear", "set", "linear", "float"], gaps=[0.1, 0.0, 0.0, 0.0], duplicates=0.2)
    column = CodedColumn.of(np.random.default_rng(3).integers(0, 6, 12_000).astype(np.int32), 6)
    constraint = compile_model(model, {"s": column})
    for bias in ((), (1,)):
        alone = build_tree(table.codes, table.space, 40, quality=quality, threads=1, bias=bias)
        found = build_tree(table.codes, table.space, 40, quality=quality, threads=1, bias=bias, constraint=constraint)
        for name in ("starts", "rows", "depth", "axis"):
            assert np.array_equal(getattr(found, name), getattr(alone, name)), name


def slowly_needed(constraint: Constraint, rows: list[int], node: list[int]) -> float:
    """`needed_rows` of valid rows from its definition, clause by clause; the node says how much single rows vary."""
    n, found = len(rows), [0.0]

    def scattered(variance: float, slack: float) -> None:
        found.append(n if slack <= 0 else 1 / (slack**2 / variance + 1 / n) if variance > 0 else 0.0)

    for j in range(len(constraint.n_values)):
        shares, of_node = (
            np.bincount(constraint.codes[each, j], minlength=int(constraint.n_values[j])) / len(each)
            for each in (rows, node)
        )
        offset = constraint.offset[j]
        table = constraint.share[offset : offset + len(shares)]
        present, there, largest = shares[shares > 0], of_node[of_node > 0], shares.max()
        if constraint.distinct[j] > 1:
            found.append((constraint.distinct[j] - 1) / (1 - largest))
        if constraint.largest[j] < 1:
            scattered(largest * (1 - largest), constraint.largest[j] - largest)
        if constraint.entropy[j] > 0:
            slack = -(present * np.log(present)).sum() - constraint.entropy[j]
            found.append((len(present) - 1) / (2 * slack) if slack > 0 else n)
            scattered(there @ np.log(there) ** 2 - (there @ np.log(there)) ** 2, slack)
        if constraint.tail_rank[j] > 0:
            times, tail = constraint.tail_times[j], np.sort(shares)[::-1][constraint.tail_rank[j] - 1 :].sum()
            slack = times * tail - largest
            scattered(times**2 * tail + largest - slack**2, slack)
        if constraint.bounded[j]:
            for value in np.flatnonzero(shares):
                share, most, least = shares[value], constraint.most[offset + value], constraint.least[offset + value]
                if most < 1:
                    scattered(share * (1 - share), most - share)
                if least > 0:
                    scattered(share * (1 - share), share - least)
        if constraint.moved[j] < np.inf:
            scattered((0.4 * np.sqrt(there * (1 - there)).sum()) ** 2, constraint.moved[j] - moved(shares, table))
        if constraint.moved_ordered[j] < np.inf:
            distance = np.abs(np.cumsum(shares - table)).sum() / max(len(shares) - 1, 1)
            scattered(0.31**2, constraint.moved_ordered[j] - distance)
    return float(min(max(found), n))


def moved(shares: NDArray[np.float64], table: NDArray[np.float64]) -> float:
    return float(np.abs(shares - table).sum() / 2)


def world_of(seed: int, n: int, model: Model) -> tuple[World, Constraint]:
    world = make_world(seed, n, 5, skew=0.7)
    columns, people = coded_world(world)
    return world, compile_model(model, columns, people, n_rows=n)


@settings(max_examples=150, deadline=None)
@given(models, st.integers(1, 60), st.integers(1, 4), st.integers(0, 2**32))
def test_every_cut_is_weighed_as_if_it_were_the_only_one(model: Model, m: int, k: int, seed: int) -> None:
    """Validity against the definitions of the models, needed rows against their formula, at every position."""
    rng = np.random.default_rng(seed)
    world, constraint = world_of(seed, m + 10, model)
    order, keys = rng.permutation(m + 10)[:m].astype(np.uint32), np.sort(rng.integers(0, m, m))
    rows = order.tolist()
    tally, valid = tally_for(constraint), np.zeros(m + 1, np.bool_)
    left_needed, right_needed = np.zeros(m + 1), np.zeros(m + 1)
    if not can_be_weighed(constraint.codes, order, 0, m, constraint, tally):
        assert not any(holds(model, world, rows[:at]) and holds(model, world, rows[at:]) for at in range(1, m))
        return
    first, last = weigh_cuts(constraint.codes, order, keys, m, k, constraint, tally, valid, left_needed, right_needed)
    assert tally.n_rows[0] == 0 and not tally.count.any()
    for at in range(k, m - k + 1):
        sides = rows[:at], rows[at:]
        expected = keys[at] != keys[at - 1] and all(holds(model, world, side) for side in sides)
        answer = first <= at <= last and valid[at]
        assert answer == expected or any(doubtful(model, world, side) for side in sides)
        if answer and not any(doubtful(model, world, side) for side in sides):
            needed = [slowly_needed(constraint, side, rows) for side in sides]
            assert [left_needed[at], right_needed[at]] == pytest.approx(needed, rel=1e-6, abs=1e-9)


@settings(max_examples=150, deadline=None)
@given(models, st.integers(2, 100), st.integers(1, 12), st.integers(0, 2**32), st.data())
def test_sides_have_room_if_they_are_valid_and_small_groups_will_do(
    model: Model, m: int, k: int, seed: int, data: st.DataObject
) -> None:
    world, constraint = world_of(seed, m, model)
    numbers = np.random.default_rng(seed).permutation(m).astype(np.uint32)
    middle = data.draw(st.integers(1, m - 1))
    sides = numbers[:middle].tolist(), numbers[middle:].tolist()
    if any(doubtful(model, world, side) for side in sides):
        return
    expected = all(holds(model, world, side) for side in sides)
    if expected:
        needed = [slowly_needed(constraint, side, side) for side in sides if len(side) >= 2 * k]
        if any(abs(rows - LITTLE * k) < 1e-6 for rows in needed):
            return
        expected = all(rows < LITTLE * k for rows in needed)
    tally = tally_for(constraint)
    assert sides_have_room(constraint.codes, numbers, 0, middle, m, k, constraint, tally) == expected
    assert tally.n_rows[0] == 0 and not tally.count.any()
