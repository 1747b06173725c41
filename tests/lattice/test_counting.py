"""Packing, counting and rolling up, against dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.hierarchy import BoundHierarchy, Hierarchy
from rtree_anon.kernels.counting import _mix
from rtree_anon.lattice import frequency, samples
from rtree_anon.lattice.frequency import DROPPED, FrequencySet, Generalizer, count_chunks
from rtree_anon.lattice.packing import Layout
from rtree_anon.lattice.samples import Samples


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
    st.sampled_from([5, 1 << 13, 1 << 40]),
    st.data(),
)
def test_counting_in_chunks_and_rolling_up(
    sizes: list[int], n_rows: int, chunk: int, n_extra: int, data: st.DataObject
) -> None:
    """Up to 14 columns of 4 bits and one extra: keys of one and of two words, a counter for each cell or partitions."""
    bound = tuple(hierarchy_of(size) for size in sizes)
    layout = Layout.for_sizes([*sizes, n_extra])
    generalizer = Generalizer(layout, bound)
    rng = np.random.default_rng(n_rows)
    columns = [*(rng.integers(0, size, n_rows) for size in sizes), rng.integers(0, 5, n_rows) * (n_extra // 5)]
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


@pytest.mark.parametrize("n_groups", [1, 8191, 8192, 100_000])
@pytest.mark.parametrize("max_cells", [0, 1 << 19])
def test_many_groups(n_groups: int, max_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition and several, and one counter per group."""
    monkeypatch.setattr(frequency, "MAX_CELLS", max_cells)
    generalizer = Generalizer(Layout.for_sizes([n_groups]), (hierarchy_of(n_groups),))
    codes = np.tile(np.arange(n_groups), 3)
    base = count_chunks(generalizer, [[codes]], (0,))
    assert base.counts.tolist() == [3] * n_groups
    assert sorted(generalizer.layout.column(base.keys, 0).tolist()) == list(range(n_groups))


@pytest.mark.parametrize("shift", [0, 20, 40, 52])
def test_keys_that_differ_in_few_bits_get_different_hashes(shift: int) -> None:
    """Both ends of the hash are used: the high bits choose a partition, the low ones a slot."""
    hashes = [int(_mix(np.uint64(0), np.uint64(i << shift))) for i in range(1024)]
    for part in ({one % 4096 for one in hashes}, {one >> 52 for one in hashes}):
        assert len(part) > 800, "1024 random numbers below 4096 take 906 different values on average"


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 400), st.tuples(*[st.sampled_from([0, 1, 2, DROPPED])] * 3), st.integers(0, 5))
def test_samples_hold_whole_groups(n_rows: int, levels: tuple[int, ...], seed: int) -> None:
    if all(level == DROPPED for level in levels):
        levels = (0, *levels[1:])
    sizes = [40, 7, 3]
    generalizer = Generalizer(Layout.for_sizes(sizes), tuple(hierarchy_of(size) for size in sizes))
    rng = np.random.default_rng(seed)
    columns = [np.minimum(rng.geometric(0.1, n_rows) - 1, 39), *(rng.integers(0, size, n_rows) for size in sizes[1:])]
    base = count_chunks(generalizer, [columns], (0, 0, 0))
    everything = counted(generalizer.roll_up(base, levels), generalizer.layout)
    sample = Samples(generalizer, base).rarest(levels)
    if sample is not None:
        found = counted(sample, generalizer.layout)
        assert found.items() <= everything.items()
        assert 0 < sum(found.values()) <= n_rows / samples.SHARE


def test_samples_tell_how_many_groups_there_are() -> None:
    rng = np.random.default_rng(1)
    sizes = [20_000, 50, 4]
    generalizer = Generalizer(Layout.for_sizes(sizes), tuple(hierarchy_of(size) for size in sizes))
    columns = [np.minimum(rng.geometric(0.0005, 200_000) - 1, 19_999), rng.integers(0, 50, 200_000)]
    base = count_chunks(generalizer, [[*columns, columns[1] % 4]], (0, 0, 0))
    some = Samples(generalizer, base)
    for levels in [(0, 0, 0), (0, 0, DROPPED), (0, DROPPED, 0), (1, 1, 0)]:
        assert some.n_groups(levels) == pytest.approx(len(generalizer.roll_up(base, levels)), rel=0.1)
    assert some.n_groups((DROPPED, DROPPED, 0)) is None, "four values are too few to take every sixty-fourth"
