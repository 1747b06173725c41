"""Samarati's own examples: Figures 4, 6, 8 and 11, Examples 3.5, 4.2, 5.1 and 6.1, and Datafly in Section 7."""

from __future__ import annotations

import numpy as np
import pytest

from rtree_anon import lattice
from rtree_anon.lattice.distance import DistanceMatrix
from tests.lattice.paper_tables import FIGURE_4, FIGURE_6, FIGURE_6_HIERARCHIES, FIGURE_8, RACE_AND_ZIP

# Figure 11, the rows of t1, t3, t5, t7, t9 and t11 (rows 2i-1 and 2i agree but for each other)
FIGURE_11 = {
    0: "00000 01000 02101 02101 13111 13111 11021 11021 13112 13112 13021",
    2: "02101 02101 00000 01000 13010 13010 12120 12120 13012 13012 13121",
    4: "13111 13111 13010 13010 00000 01000 03120 03120 13002 13002 13121",
    6: "11021 11021 12120 12120 03120 03120 00000 01000 13122 13122 13011",
    8: "13112 13112 13012 13012 13002 13002 13122 13122 00000 01000 02122",
    10: "13021 13021 13121 13121 13121 13121 13011 13011 02122 02122 00000",
}


@pytest.mark.parametrize(
    ("generalization", "largest_k"), [((0, 1), 2), ((1, 0), 3), ((0, 2), 4), ((1, 1), 6), ((1, 2), 12)]
)
def test_figure_4_is_anonymous_up_to_k(generalization: tuple[int, int], largest_k: int) -> None:
    for k in range(1, 13):
        found = lattice.samarati(FIGURE_4, RACE_AND_ZIP, k=k).generalizations
        assert (generalization in found) == (k <= largest_k)


@pytest.mark.parametrize("matrix", [False, True])
def test_minimal_generalizations_of_example_3_5(matrix: bool) -> None:
    assert set(lattice.samarati(FIGURE_4, RACE_AND_ZIP, k=2, matrix=matrix).minimal) == {(1, 0), (0, 1)}
    assert set(lattice.samarati(FIGURE_4, RACE_AND_ZIP, k=3, matrix=matrix).minimal) == {(1, 0), (0, 2)}


@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize(
    ("max_suppressed", "minimal"),
    [(0, {(1, 1)}), (1, {(1, 0), (0, 2)}), (2, {(1, 0), (0, 1)}), (3, {(1, 0), (0, 1)}), (4, {(0, 0)}), (7, {(0, 0)})],
)
def test_suppression_of_example_4_2(max_suppressed: int, minimal: set[tuple[int, int]], matrix: bool) -> None:
    result = lattice.samarati(FIGURE_8, RACE_AND_ZIP, k=2, max_suppressed=max_suppressed, matrix=matrix)
    assert set(result.minimal) == minimal
    assert set(lattice.incognito(FIGURE_8, RACE_AND_ZIP, k=2, max_suppressed=max_suppressed).minimal) == minimal


def test_suppressed_rows_of_figure_8() -> None:
    result = lattice.incognito(FIGURE_8, RACE_AND_ZIP, k=2)
    suppressed = {levels: result.statistics(levels).n_suppressed for levels in np.ndindex(2, 3)}
    assert suppressed == {(0, 0): 4, (1, 0): 1, (0, 1): 2, (0, 2): 1, (1, 1): 0, (1, 2): 0}


@pytest.mark.parametrize(
    ("max_suppressed", "policy", "preferred"),
    [
        (1, "absolute", {(1, 0)}),
        (1, "relative", {(1, 0), (0, 2)}),
        (1, "distribution", {(1, 0), (0, 2)}),
        (1, "suppression", {(1, 0), (0, 2)}),
        (2, "absolute", {(1, 0), (0, 1)}),
        (2, "suppression", {(1, 0)}),
        (2, "relative", {(0, 1)}),
        (2, "distribution", {(0, 1)}),
    ],
)
def test_preferences_of_example_6_1(max_suppressed: int, policy: str, preferred: set[tuple[int, int]]) -> None:
    result = lattice.samarati(FIGURE_8, RACE_AND_ZIP, k=2, max_suppressed=max_suppressed)
    assert set(result.preferred(policy)) == preferred


@pytest.mark.parametrize("matrix", [False, True])
def test_figure_6_and_figure_7(matrix: bool) -> None:
    result = lattice.samarati(FIGURE_6, FIGURE_6_HIERARCHIES, k=2, matrix=matrix)
    assert result.heights == (1, 4, 1, 2, 2)
    assert set(result.minimal) == {(0, 2, 1, 2, 2), (1, 3, 0, 1, 1)}
    one_less = lattice.samarati(FIGURE_6, FIGURE_6_HIERARCHIES, k=2, max_suppressed=1, matrix=matrix)
    assert one_less.minimal == [(0, 1, 0, 0, 0)]


def test_distance_vectors_of_figure_11_and_bounds_of_example_5_1() -> None:
    search = lattice.samarati(FIGURE_6, FIGURE_6_HIERARCHIES, k=2, matrix=True).search
    matrix = DistanceMatrix.of(search.generalizer, search.base, k=2)
    assert len(matrix.outliers) == 11
    for row, expected in FIGURE_11.items():
        assert ["".join(map(str, vector)) for vector in matrix.vectors[row].tolist()] == expected.split()
    assert (matrix.vectors == matrix.vectors.transpose(1, 0, 2)).all()
    assert matrix.lowest_height(max_suppressed=0) == 6
    assert matrix.upper_bound == (1, 3, 1, 2, 2)


def test_find_vector_returns_one_of_the_lowest_height() -> None:
    for matrix in (False, True):
        found = lattice.samarati(FIGURE_6, FIGURE_6_HIERARCHIES, k=2, first_only=True, matrix=matrix)
        assert found.minimal == found.generalizations == [(1, 3, 0, 1, 1)]
        assert not found.complete


def test_the_matrix_saves_checks() -> None:
    plain = lattice.samarati(FIGURE_6, FIGURE_6_HIERARCHIES, k=2, first_only=True)
    bounded = lattice.samarati(FIGURE_6, FIGURE_6_HIERARCHIES, k=2, first_only=True, matrix=True)
    assert bounded.nodes_checked < plain.nodes_checked
    assert (bounded.scans, plain.scans) == (1, plain.nodes_checked)


def test_datafly_overgeneralizes_figure_4() -> None:
    result = lattice.datafly(FIGURE_4, RACE_AND_ZIP, k=3)
    assert result.generalizations == [(1, 1)]
    assert (1, 1) not in lattice.samarati(FIGURE_4, RACE_AND_ZIP, k=3).minimal
