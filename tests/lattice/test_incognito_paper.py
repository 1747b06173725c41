"""Incognito's own examples: Patients (Figures 1, 5, 6 and 7)."""

from __future__ import annotations

import numpy as np
import pytest

from rtree_anon import lattice
from rtree_anon.lattice.graph import edges, join_and_prune, nodes_by_height, roots
from tests.lattice.paper_tables import PATIENT_HIERARCHIES, PATIENTS

SEX_AND_ZIP = {name: PATIENT_HIERARCHIES[name] for name in ("Sex", "Zipcode")}
VARIANTS = ["basic", "superroots", "cube"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_sex_and_zipcode_of_example_3_1(variant: str) -> None:
    result = lattice.incognito(PATIENTS, SEX_AND_ZIP, k=2, variant=variant)
    assert result.generalizations == [(1, 0), (0, 2), (1, 1), (1, 2)]
    assert result.minimal == [(1, 0), (0, 2)]
    assert (0, 0) not in result.generalizations and (0, 1) not in result.generalizations


@pytest.mark.parametrize("variant", VARIANTS)
def test_whole_quasi_identifier(variant: str) -> None:
    result = lattice.incognito(PATIENTS, PATIENT_HIERARCHIES, k=2, variant=variant)
    assert set(result.minimal) == {(1, 1, 0), (1, 0, 2), (0, 1, 2)}
    assert set(result.generalizations) == {(1, 1, 0), (1, 1, 1), (1, 0, 2), (0, 1, 2), (1, 1, 2)}


def test_what_each_variant_scans() -> None:
    """Three families of one attribute, three of two, one of three. The last one's three roots (Section 3.3.1) have an
    attribute at its top each, so the families of two have settled them.
    """
    scans = {v: lattice.incognito(PATIENTS, PATIENT_HIERARCHIES, k=2, variant=v).scans for v in VARIANTS}
    assert scans == {"basic": 3 + 3, "superroots": 3 + 3, "cube": 1}


def test_all_variants_check_the_same_nodes() -> None:
    checked = {lattice.incognito(PATIENTS, PATIENT_HIERARCHIES, k=2, variant=v).nodes_checked for v in VARIANTS}
    assert len(checked) == 1


def test_nodes_and_edges_of_figure_6() -> None:
    sex_by_zip = np.ones((2, 3), dtype=bool)
    assert nodes_by_height(sex_by_zip).tolist() == [[0, 0], [0, 1], [1, 0], [0, 2], [1, 1], [1, 2]]
    assert edges(sex_by_zip) == [
        ((0, 0), (0, 1)),
        ((0, 0), (1, 0)),
        ((0, 1), (0, 2)),
        ((0, 1), (1, 1)),
        ((0, 2), (1, 2)),
        ((1, 0), (1, 1)),
        ((1, 1), (1, 2)),
    ]


def test_three_attribute_graph_of_figure_7a() -> None:
    survivors = {}
    names = list(PATIENT_HIERARCHIES)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        pair = {names[i]: PATIENT_HIERARCHIES[names[i]], names[j]: PATIENT_HIERARCHIES[names[j]]}
        found = lattice.incognito(PATIENTS, pair, k=2)
        survivors[(i, j)] = found.statuses >= 3
    candidates = join_and_prune((0, 1, 2), survivors)
    assert set(map(tuple, np.argwhere(roots(candidates)).tolist())) == {(1, 1, 0), (1, 0, 2), (0, 1, 2)}
    assert set(map(tuple, np.argwhere(candidates).tolist())) == {
        (1, 1, 0),
        (1, 1, 1),
        (1, 0, 2),
        (0, 1, 2),
        (1, 1, 2),
    }
    assert len(edges(candidates)) == 4, "B1S1Z0-B1S1Z1-B1S1Z2, B1S0Z2-B1S1Z2, B0S1Z2-B1S1Z2"
