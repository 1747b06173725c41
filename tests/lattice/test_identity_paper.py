"""Identity-reserved anonymity: the paper's tables, and local recoding's promises on random tables."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon import lattice
from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.lattice.algorithms import prepare
from rtree_anon.lattice.local import LocalRecoding, recode_locally
from tests.lattice.paper_tables import TABLE_1, TABLE_3, TABLE_3_HIERARCHIES
from tests.lattice.test_agreement import HIERARCHIES, MODELS, ROWS, group_test, quasi, table_of


def labels_of(outcome: LocalRecoding, attribute: int) -> list[str]:
    """The released label of each row."""
    bound = outcome.search.hierarchies[attribute]
    levels, nodes = outcome.levels[:, attribute], outcome.nodes[:, attribute]
    return [bound.labels[levels[group]][nodes[group]] for group in outcome.group_of_row]


def recode(table: Any, hierarchies: Any, k: int | None, model: Any = None, *, compact: bool = True) -> LocalRecoding:
    identity = "ID" if "ID" in table.column_names else "person"
    search, _ = prepare(table, hierarchies, k, 0, model, {"identity": identity}, prunes=False)
    return recode_locally(search, compact=compact)


@pytest.mark.parametrize("compact", [False, True])
def test_table_4_borrows_for_the_orphan(compact: bool) -> None:
    outcome = recode(TABLE_3, TABLE_3_HIERARCHIES, k=2, compact=compact)
    assert (outcome.n_borrowed, outcome.n_merged) == (1, 0)
    people = np.array(TABLE_3["ID"].to_pylist())
    groups = sorted(sorted(people[outcome.group_of_row == group]) for group in range(len(outcome.levels)))
    assert groups == [["1318", "1318", "8634"], ["3582", "5629", "7437", "7437"], ["4713", "5072"]]
    assert Counter(labels_of(outcome, 0)) == {"1007*": 4, "1008*": 3, "100**": 2}
    release = lattice.local_recoding(TABLE_3, TABLE_3_HIERARCHIES, k=2, identity="ID", compact=compact)
    assert release.distortion_ratio == pytest.approx((7 * 1 + 2 * 2) / (9 * 2))
    assert (release.facts.n_borrowed, release.facts.n_merged, release.n_suppressed) == (1, 0, 0)


def test_table_5_merges_the_orphan() -> None:
    outcome = recode(TABLE_3, TABLE_3_HIERARCHIES, k=3)
    assert (outcome.n_borrowed, outcome.n_merged) == (0, 1)
    assert Counter(labels_of(outcome, 0)) == {"1007*": 4, "100**": 5}
    assert len(outcome.levels) == 2


def test_table_5_also_under_alpha_beta() -> None:
    outcome = recode(TABLE_3, TABLE_3_HIERARCHIES, None, ra.IdentityAlphaBeta(0.5, 0.5, "Disease"))
    assert Counter(labels_of(outcome, 0))["100**"] <= 5, "no more than the paper's merger generalizes"
    for group in range(len(outcome.levels)):
        for column in ("ID", "Disease"):
            values = np.array(TABLE_3[column].to_pylist())[outcome.group_of_row == group].tolist()
            assert max(Counter(values).values()) <= 0.5 * len(values)


def test_table_2_is_2_anonymous_by_rows_but_not_by_individuals() -> None:
    """Mike's two rows are a group of two rows and one person: rows alone accept it, individuals do not."""
    hierarchies = {"Sex": Hierarchy.suppress(), "Postcode": Hierarchy.digits(2)}
    by_rows = recode_locally(prepare(TABLE_1, hierarchies, 2, 0, None, {})[0], compact=True)
    mike = by_rows.group_of_row[0]
    assert list(by_rows.group_of_row).count(mike) == 2 and by_rows.group_of_row[1] == mike
    by_people = recode_locally(prepare(TABLE_1, hierarchies, 2, 0, None, {"identity": "Name"})[0], compact=True)
    names = np.array(TABLE_1["Name"].to_pylist())
    for group in range(len(by_people.levels)):
        assert len(set(names[by_people.group_of_row == group])) >= 2


def test_global_recoding_counts_individuals() -> None:
    """Algorithm 1: the same search under the identity model; k means individuals where an identity is named."""
    by_model = lattice.incognito(TABLE_3, TABLE_3_HIERARCHIES, model=ra.IdentityKAnonymity(3), identity="ID")
    by_k = lattice.incognito(TABLE_3, TABLE_3_HIERARCHIES, k=3, identity="ID")
    assert by_model.minimal == by_k.minimal == [(2,)]
    with_suppression = lattice.incognito(TABLE_3, TABLE_3_HIERARCHIES, k=3, identity="ID", max_suppressed=1)
    assert with_suppression.minimal == [(1,)]
    with pytest.raises(UsageError, match="name the identity column"):
        lattice.incognito(TABLE_3, TABLE_3_HIERARCHIES, model=ra.IdentityKAnonymity(3))


def test_orphans_that_no_group_can_take_one_by_one_are_taken_together() -> None:
    """With 2 flu and 2 cold a group has no room for one more of either, but for cold, cold and flu: 4 < 1.5 * 3."""
    table = {"place": list("aaaabcd"), "disease": ["flu", "flu", "cold", "cold", "cold", "cold", "flu"]}
    model = ra.RecursiveCLDiversity(1.5, 2, "disease")
    release = lattice.local_recoding(table, {"place": Hierarchy.suppress()}, model)
    assert release.group_sizes.tolist() == [7]
    table["disease"][0] = "cold"  # 5 cold and 2 flu: not even the whole table
    with pytest.raises(PrivacyError, match="not even the whole table in one group satisfies RecursiveCLDiversity"):
        lattice.local_recoding(table, {"place": Hierarchy.suppress()}, model)


@settings(deadline=None, max_examples=15)
@pytest.mark.parametrize("name", MODELS)
@given(rows=ROWS, compact=st.booleans())
def test_local_recoding_keeps_its_promises(name: str, rows: list[tuple[Any, ...]], compact: bool) -> None:
    holds = group_test(rows, name)
    try:
        outcome = recode(table_of(rows), HIERARCHIES, None, MODELS[name], compact=compact)
    except PrivacyError:
        assert not holds(list(range(len(rows)))), "a solution exists exactly if the whole table is one"
        return
    assert outcome.group_of_row.min() >= 0
    assert set(outcome.group_of_row.tolist()) == set(range(len(outcome.levels)))
    for group in range(len(outcome.levels)):
        assert holds(np.flatnonzero(outcome.group_of_row == group).tolist())
    bounds = outcome.search.hierarchies
    for i, row in enumerate(quasi(rows)):
        for attribute, value in enumerate(row):
            level = outcome.levels[outcome.group_of_row[i], attribute]
            ancestor = bounds[attribute].ancestors[level, bounds[attribute].code_of[value]]
            assert ancestor == outcome.nodes[outcome.group_of_row[i], attribute], "the label covers the row's value"


@settings(deadline=None, max_examples=30)
@given(rows=ROWS, k=st.integers(1, 4))
def test_rows_of_one_person_with_the_same_values_stay_together(rows: list[tuple[Any, ...]], k: int) -> None:
    try:
        outcome = recode(table_of(rows), HIERARCHIES, k)
    except PrivacyError:
        return
    group_of: dict[Any, set[int]] = {}
    for i, row in enumerate(rows):
        group_of.setdefault(row[:5], set()).add(int(outcome.group_of_row[i]))
    assert all(len(groups) == 1 for groups in group_of.values())
