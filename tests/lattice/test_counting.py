"""Packing, counting and rolling up, against dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.hierarchy import BoundHierarchy, Hierarchy
from rtree_anon.lattice.frequency import DROPPED, FrequencySet, Generalizer, count_chunks
from rtree_anon.lattice.packing import Layout


def hierarchy_of(n_leaves: int) -> BoundHierarchy:
    """Leaves, thirds, `*`."""
    return Hierarchy.intervals(widths=[3]).bind([str(i) for i in range(n_leaves)])


def counted(frequencies: FrequencySet, layout: Layout) -> dict[tuple[int, ...], int]:
    columns = [layout.column(frequencies.keys, i).tolist() for i in range(len(layout.fields))]
    return dict(zip(zip(*columns, strict=True), frequencies.counts.tolist(), strict=True))


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=12), st.randoms())
def test_pack_and_unpack(sizes: list[int], random: object) -> None:
    layout = Layout.for_sizes(sizes)
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, size, 20) for size in sizes]
    keys = layout.pack(columns)
    for i, column in enumerate(columns):
        assert (layout.column(keys, i) == column).all()
    assert all(field.shift + field.bits <= 64 for field in layout.fields)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=14),
    st.integers(0, 3000),
    st.integers(1, 700),
    st.data(),
)
def test_counting_in_chunks_and_rolling_up(sizes: list[int], n_rows: int, chunk: int, data: st.DataObject) -> None:
    """Up to 14 columns of 4 bits and one wide extra: keys of one and of two words, tables that grow, many chunks."""
    bound = tuple(hierarchy_of(size) for size in sizes)
    layout = Layout.for_sizes([*sizes, 1 << 20])
    generalizer = Generalizer(layout, bound)
    rng = np.random.default_rng(n_rows)
    columns = [*(rng.integers(0, size, n_rows) for size in sizes), rng.integers(0, 5, n_rows) * 1000]
    exact = (0,) * len(sizes)
    chunks = [[column[i : i + chunk] for column in columns] for i in range(0, n_rows, chunk)]
    base = count_chunks(generalizer, chunks, exact)
    assert counted(base, layout) == Counter(zip(*(column.tolist() for column in columns), strict=True))
    low = tuple(data.draw(st.sampled_from([0, 1, 2, DROPPED]), label="low") for _ in sizes)
    high = tuple(data.draw(st.sampled_from([level for level in (0, 1, 2) if level >= lo] + [DROPPED])) for lo in low)
    high = tuple(DROPPED if lo == DROPPED else hi for lo, hi in zip(low, high, strict=True))
    there = generalizer.roll_up(generalizer.roll_up(base, low), high)
    generalized = [
        (column * 0 if level == DROPPED else tree.ancestors[level][column]).tolist()
        for column, level, tree in zip(columns, high, bound, strict=False)
    ]
    expected = Counter(zip(*generalized, columns[-1].tolist(), strict=True))
    assert counted(there, layout) == expected
    groups, keys = generalizer.assign(base.keys, exact, high)
    assert keys.shape[1] == len({key[:-1] for key in expected})
    assert len(groups) == len(base) and (not len(groups) or groups.max() == keys.shape[1] - 1)


def test_an_empty_table_has_no_groups() -> None:
    generalizer = Generalizer(Layout.for_sizes([3]), (hierarchy_of(3),))
    base = count_chunks(generalizer, [], (0,))
    assert len(base) == 0 and len(generalizer.roll_up(base, (1,))) == 0


@pytest.mark.parametrize("n_groups", [1, 511, 512, 513, 5000])
def test_hash_table_growth(n_groups: int) -> None:
    generalizer = Generalizer(Layout.for_sizes([n_groups]), (hierarchy_of(n_groups),))
    codes = np.tile(np.arange(n_groups), 3)
    base = count_chunks(generalizer, [[codes]], (0,))
    assert base.counts.tolist() == [3] * n_groups
    assert generalizer.layout.column(base.keys, 0).tolist() == list(range(n_groups)), "numbered by first appearance"
