"""Section 5 of the identity-reserved paper on Adult: the trends of its figures, with its mixture of rows per
individual.

40,000 individuals; a share of them has two or three rows with the same quasi-identifiers (Table 6 there).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import rtree_anon as ra
from rtree_anon import lattice
from rtree_anon.hierarchy import Hierarchy
from rtree_anon.release.from_nodes import LatticeRelease

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
NAMES = ["age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country"]
SHARES = {1.2: (0.85, 0.10), 1.4: (0.70, 0.20), 1.6: (0.55, 0.30), 1.8: (0.40, 0.40)}  # with one row, with two
KS = [2, 3, 5, 10]

pytestmark = pytest.mark.skipif(not (DATA / "adult.csv").exists(), reason="needs the Adult table")


@pytest.fixture(scope="module")
def hierarchies() -> dict[str, Hierarchy]:
    return {name: Hierarchy.from_csv(DATA / "hierarchies" / f"adult_hierarchy_{name}.csv") for name in NAMES}


@pytest.fixture(scope="module")
def tables() -> dict[float, pa.Table]:
    adult = pa.csv.read_csv(DATA / "adult.csv").select(NAMES).slice(0, 40_000)
    tables = {}
    for ratio, (one, two) in SHARES.items():
        individuals = np.arange(40_000)
        n_rows = np.where(individuals < one * 40_000, 1, np.where(individuals < (one + two) * 40_000, 2, 3))
        person = np.repeat(np.random.default_rng(0).permutation(40_000), n_rows)
        disease = (person * 7 + np.arange(len(person))) % 20  # different for the rows of one person
        tables[ratio] = (
            adult.take(person).append_column("person", pa.array(person)).append_column("disease", pa.array(disease))
        )
    return tables


def recode(table: pa.Table, hierarchies: dict[str, Hierarchy], k: int, identity: str | None = None) -> LatticeRelease:
    return lattice.local_recoding(table, hierarchies, k=k, identity=identity, keep=["person"], compact=False)


def individuals(release: LatticeRelease) -> np.ndarray:
    """People per group."""
    groups = release.to_arrow(layout="groups")
    return np.array([len(set(people)) for people in groups["person"].to_pylist()])


def test_vulnerable_groups_of_ordinary_k_anonymity(
    tables: dict[float, pa.Table], hierarchies: dict[str, Hierarchy]
) -> None:
    """Figures 1 and 2: fewer with larger k, more with more rows per individual; single ones only up to three rows.

    With global recoding: local recoding stops at groups of about k rows, whatever k is, so its share does not fall.
    """
    vulnerable, single = {}, {}
    for ratio, table in tables.items():
        for k in (2, 3, 5):
            release = lattice.datafly(table, hierarchies, k=k, max_suppressed=1000, keep=["person"]).best()
            people = individuals(release)
            vulnerable[ratio, k], single[ratio, k] = (people < k).mean(), (people == 1).mean()
    for ratio in SHARES:
        assert vulnerable[ratio, 2] > vulnerable[ratio, 3] > vulnerable[ratio, 5] > 0
        assert single[ratio, 2] > single[ratio, 3] > 0 == single[ratio, 5]
    for k in (2, 3, 5):
        assert [vulnerable[ratio, k] for ratio in SHARES] == sorted(vulnerable[ratio, k] for ratio in SHARES)


def test_protecting_individuals_costs_little(tables: dict[float, pa.Table], hierarchies: dict[str, Hierarchy]) -> None:
    """Figures 3 to 5: a little more distortion than k-anonymity of rows, growing with k, far below global recoding."""
    before = 0.0
    for k in KS:
        protected = recode(tables[1.4], hierarchies, k, identity="person")
        assert individuals(protected).min() >= k
        ordinary = recode(tables[1.4], hierarchies, k).distortion_ratio
        assert before < ordinary <= protected.distortion_ratio < ordinary + 0.1
        before = ordinary
    everywhere = lattice.datafly(tables[1.4], hierarchies, k=10, identity="person").best()
    assert before < 0.7 * everywhere.distortion_ratio
    suppressing = lattice.datafly(tables[1.4], hierarchies, k=10, identity="person", max_suppressed=500).best()
    assert suppressing.distortion_ratio <= everywhere.distortion_ratio


def test_stricter_models_cost_more(tables: dict[float, pa.Table], hierarchies: dict[str, Hierarchy]) -> None:
    """Figures 6 to 8: (k,l) with l, (alpha,beta) with smaller alpha or beta."""

    def distortion(model: object) -> float:
        release = lattice.local_recoding(tables[1.4], hierarchies, model, identity="person", compact=False)
        return release.distortion_ratio

    kl = [distortion(ra.IdentityKLDiversity(5, l, "disease")) for l in (2, 4, 5)]  # noqa: E741
    assert kl == sorted(kl)
    by_beta = [distortion(ra.IdentityAlphaBeta(0.5, beta, "disease")) for beta in (0.5, 0.3, 0.2)]
    assert by_beta == sorted(by_beta)
    by_alpha = [distortion(ra.IdentityAlphaBeta(alpha, 0.5, "disease")) for alpha in (0.5, 0.3, 0.2)]
    assert by_alpha == sorted(by_alpha)
