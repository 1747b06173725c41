"""Uncompacted releases: the value is the region that the cuts leave, and regions of leaves tile the whole domain."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from tests.release.mixed import NUMBERS, Mixed, labels_of, make_mixed, mixed_tables, range_of

ONE_AXIS = ("int", "domain", "limits", "wide", "float", "float32", "tenths", "decimal", "date", "moment")


@settings(max_examples=40, deadline=None)
@given(
    mixed=mixed_tables(flavours=(*NUMBERS, "few", "bool")),
    k=st.integers(1, 6),
    method=st.sampled_from(["optimal", "greedy"]),
)
def test_the_region_contains_the_compacted_value(mixed: Mixed, k: int, method: str) -> None:
    k = min(k, mixed.table.num_rows)
    tight, loose = (
        ra.anonymize(mixed.table, k=k, base_k=min(k, 2), method=method, compact=compact, threads=1, **mixed.options)
        .to_arrow(layout="groups")
        .to_pylist()
        for compact in (True, False)
    )
    assert [group["count"] for group in tight] == [group["count"] for group in loose]
    for small, large in zip(tight, loose, strict=True):
        for name in mixed.names:
            state = large.get(f"{name}_missing", "none")
            assert state in ("some", small.get(f"{name}_missing", "none"))
            if f"{name}_lo" in small and small[f"{name}_lo"] is not None:
                assert large[f"{name}_lo"] <= small[f"{name}_lo"] <= small[f"{name}_hi"] <= large[f"{name}_hi"]
            elif small.get(name) is not None:
                assert set(labels_of(small[name])) <= set(labels_of(large[name]))


def next_value(value: Any, data_type: pa.DataType) -> Any:
    """The next value of the type: what a region begins with where the one before it ends with `value`."""
    if pa.types.is_floating(data_type):
        own = data_type.to_pandas_dtype()
        return float(np.nextafter(own(value), own(np.inf)))
    if pa.types.is_decimal(data_type):
        return value + value.__class__(1).scaleb(-data_type.scale)
    if pa.types.is_date(data_type):
        return value + np.timedelta64(1, "D").item()
    return value + (np.timedelta64(1, "us").item() if pa.types.is_timestamp(data_type) else 1)


@pytest.mark.parametrize("flavour", ONE_AXIS)
@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_regions_of_leaves_touch_and_reach_to_the_ends_of_the_domain(flavour: str, gap: float) -> None:
    mixed = make_mixed(11, 120, [flavour], [gap])
    release = ra.anonymize(mixed.table, k=3, base_k=3, method="hierarchical", compact=False, **mixed.options)
    groups = release.to_arrow(layout="groups")
    data_type = groups.schema.field("q0_lo").type
    regions = sorted((group["q0_lo"], group["q0_hi"]) for group in groups.to_pylist() if group["q0_lo"] is not None)
    assert len(regions) > 1
    assert groups.column("q0_lo").null_count <= 1
    values = [value for value in mixed.table.column("q0").to_pylist() if value is not None]
    domain = {"domain": (-1000, 1000), "float": (-1e6, 1e6)}.get(flavour, (min(values), max(values)))
    assert (regions[0][0], regions[-1][1]) == domain
    for before, after in pairwise(regions):
        if flavour == "tenths":  # floats that are coded as tenths
            assert after[0] == pytest.approx(before[1] + 0.1)
        elif flavour == "float32" and next_value(before[1], data_type) != after[0]:
            assert after[0] - before[1] == pytest.approx(0, abs=1e-6)  # coded by decimals or by bits
        else:
            assert next_value(before[1], data_type) == after[0]


def test_regions_of_sets_are_disjoint_and_cover_all_categories() -> None:
    rng = np.random.default_rng(4)
    table = pa.table({"c": pa.array(rng.choice(list("ABCDEFGH"), 60), mask=rng.random(60) < 0.2)})
    attribute = ra.Categorical("c", order=list("ABCDEFGHXYZ"))
    release = ra.anonymize(table, k=4, base_k=4, quasi=[attribute], method="hierarchical", compact=False)
    groups = release.to_arrow(layout="groups").to_pylist()
    listed = [label for group in groups if group["c"] is not None for label in labels_of(group["c"])]
    assert sorted(listed) == list("ABCDEFGHXYZ")
    assert sum(group["c_missing"] != "none" for group in groups) == 1


def test_regions_of_many_categories_are_ranges_in_the_given_order() -> None:
    order = [f"z{(value * 37) % 100:03}" for value in range(100)]
    table = pa.table({"c": order})
    release = ra.anonymize(
        table, k=4, base_k=4, quasi=[ra.Categorical("c", order=order)], method="hierarchical", compact=False
    )
    groups = release.to_arrow(layout="groups")
    ranges = sorted(tuple(order.index(end) for end in range_of(text)) for text in groups.column("c").to_pylist())
    assert (ranges[0][0], ranges[-1][1]) == (0, 99)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(ranges))
    penalties = [(hi - lo) / 99 for lo, hi in ranges]
    sizes = [hi - lo + 1 for lo, hi in ranges]
    assert release.quality()["certainty"] == pytest.approx(np.average(penalties, weights=sizes))
    # By value and never by code, although the order of the codes is another one.
    for wanted in ("z000", "z037", ["z001", "z099"]):
        assert release.count(c=wanted) >= (len(wanted) if isinstance(wanted, list) else 1)


def test_two_attributes_tile_the_plane() -> None:
    rng = np.random.default_rng(6)
    table = pa.table({"x": rng.integers(0, 12, 200), "y": rng.integers(0, 12, 200)})
    release = ra.anonymize(table, k=5, base_k=5, quasi=["x", "y"], method="hierarchical", compact=False)
    covered = np.zeros((12, 12), int)
    for group in release.to_arrow(layout="groups").to_pylist():
        covered[group["x_lo"] : group["x_hi"] + 1, group["y_lo"] : group["y_hi"] + 1] += 1
    assert (covered == 1).all()


def test_a_region_that_no_cut_parted_from_missing_values_says_so() -> None:
    """All rows have a value, but missing ones of another leaf were never cut away: the region holds both."""
    table = pa.table({"x": [1, 2, None, None, 3, 4], "y": [0, 0, 9, 9, 0, 0]})
    release = ra.anonymize(table, k=2, base_k=2, quasi=["x", "y"], bias=["y"], compact=False)
    for group in release.to_arrow(layout="groups").to_pylist():
        if group["y_lo"] <= 0:
            assert group["x_missing"] in ("some", "none")
        assert group["x_missing"] != "none" or group["x_lo"] is not None
