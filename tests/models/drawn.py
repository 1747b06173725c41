"""Random models and tables for property tests."""

from __future__ import annotations

from functools import reduce
from operator import and_

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import rtree_anon as ra
from rtree_anon.models import Model
from rtree_anon.models.compiling import CodedColumn
from tests.models.naive_models import World

COLUMNS = ("disease", "pay")
_on = st.sampled_from(["disease", "pay", ("disease", "pay")])
_share = st.sampled_from([0.2, 0.3, 0.34, 0.5, 0.6, 0.75, 1.0])

single_models: st.SearchStrategy[Model] = st.one_of(
    st.builds(ra.KAnonymity, st.integers(1, 6)),
    st.builds(ra.DistinctLDiversity, st.integers(1, 4), _on),
    st.builds(ra.EntropyLDiversity, st.sampled_from([1.0, 1.5, 2.0, 2.5, 3.0]), _on),
    st.builds(ra.RecursiveCLDiversity, st.sampled_from([0.5, 1.0, 1.5, 3.0]), st.integers(1, 4), _on),
    st.builds(ra.TCloseness, st.sampled_from([0.0, 0.1, 0.2, 0.35, 0.5]), _on, st.sampled_from(["equal", "ordered"])),
    st.builds(ra.AlphaKAnonymity, _share, st.integers(1, 5), _on),
    st.builds(ra.IdentityKAnonymity, st.integers(1, 5)),
    st.builds(ra.IdentityKLDiversity, st.integers(1, 4), st.integers(1, 4), _on),
    st.builds(ra.IdentityAlphaBeta, _share, _share, _on),
    st.builds(ra.BetaLikeness, st.sampled_from([0.3, 1.0, 2.5]), _on, st.booleans()),
    st.builds(ra.DeltaDisclosure, st.sampled_from([0.5, 1.0, 2.0]), _on),
)

models: st.SearchStrategy[Model] = st.lists(single_models, min_size=1, max_size=3).map(
    lambda parts: reduce(and_, parts)
)


def make_world(seed: int, n: int, n_values: int = 5, n_people: int | None = None, skew: float = 1.0) -> World:
    """n rows with two sensitive columns of up to n_values values, more or less skewed, and people with several rows."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, n_values + 1, dtype=float) ** -skew
    weights /= weights.sum()
    values = {name: rng.choice(n_values, n, p=weights).tolist() for name in COLUMNS}
    return World(values, rng.integers(0, n_people or max(1, n * 2 // 3), n).tolist())


def coded(values: list[int]) -> CodedColumn:
    """A column of a world, coded."""
    distinct, codes = np.unique(np.asarray(values), return_inverse=True)
    return CodedColumn.of(codes.astype(np.int32), len(distinct))


def coded_world(world: World) -> tuple[dict[str, CodedColumn], CodedColumn]:
    """The sensitive columns and the people of a world, coded."""
    return {name: coded(list(values)) for name, values in world.values.items()}, coded(list(world.people))


def totals_of(columns: dict[str, CodedColumn]) -> dict[str, NDArray[np.int64]]:
    return {name: column.totals for name, column in columns.items()}
