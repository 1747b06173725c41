"""The last look at a release: seeded mistakes of every kind are refused, on every kind of axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rtree_anon as ra
from rtree_anon.io.table import CodedTable, read_table
from rtree_anon.release import from_tree
from rtree_anon.release.bounds import Bounds, region_bounds, tight_bounds, tree_regions
from rtree_anon.release.columns import ALL, NONE
from rtree_anon.release.from_tree import release_tree, verified_leaves
from rtree_anon.release.verifying import VerifiedLeaves, verify_groups
from rtree_anon.space import Axis, Kind, Space
from rtree_anon.tree import build_tree
from tests.release.mixed import make_mixed

FLAVOURS = ("int", "limits", "wide", "float", "date", "bool", "few", "many", "tree")


@dataclass
class Seen:
    """What a release hands to the verification, to be spoiled."""

    table: CodedTable
    bounds: list[Bounds]
    row_numbers: Any
    sizes: Any

    def verify(self, k: int = 3, leaves: VerifiedLeaves | None = None) -> None:
        verify_groups(self.table, self.bounds, self.row_numbers, self.sizes, k, leaves)

    def verified(self) -> VerifiedLeaves:
        """The groups as leaves whose rows have been looked at."""
        return VerifiedLeaves.of(self.table, tuple(self.bounds), self.row_numbers, self.sizes)


def seen(flavour: str, gap: float, compact: bool = True) -> Seen:
    mixed = make_mixed(21, 150, [flavour, "int"], [gap, 0.0])
    table = read_table(mixed.table, ra.Schema(mixed.quasi))
    tree = build_tree(table.codes, table.space, 3, threads=1)
    grouping = tree.group(3, "leaves")
    if compact:
        bounds = tight_bounds(tree, tree.group_boxes(grouping), np.arange(table.n_rows), tree.sizes)
    else:
        bounds = region_bounds(tree.grid, tree_regions(tree, table.coders), grouping)
    return Seen(table, list(bounds), tree.rows[:, -1].astype(np.int64), tree.sizes.copy())


def spoilt_bounds(bounds: Bounds, group: int) -> Iterator[Bounds]:
    """The same bounds, each too small for one group by the least that is possible."""

    def changed(values: Any, value: Any) -> Any:
        copied = values.astype(np.int64) if values.dtype == np.int32 else values.copy()
        copied[group] = value
        return copied

    if bounds.mask is not None:
        mask = int(bounds.mask[group])
        for bit in (mask & -mask, 1 << (mask.bit_length() - 1)):
            yield replace(bounds, mask=changed(bounds.mask, mask & ~bit))
        return
    state = NONE if bounds.missing is None else int(bounds.missing[group])
    if state != NONE:
        yield replace(bounds, missing=changed(bounds.missing, NONE))
    if state != ALL:  # no row has to lie there for the box to be too small
        yield replace(bounds, first=changed(bounds.first, int(bounds.first[group]) + 1))
        yield replace(bounds, last=changed(bounds.last, int(bounds.last[group]) - 1))


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_a_correct_release_passes_and_a_box_that_is_too_small_does_not(flavour: str, gap: float) -> None:
    correct = seen(flavour, gap)
    correct.verify()
    seen(flavour, gap, compact=False).verify()
    leaves = correct.verified()
    correct.verify(leaves=leaves)
    n_spoilt = 0
    for group in range(len(correct.sizes)):
        for bounds in spoilt_bounds(correct.bounds[0], group):
            for known in (None, leaves):
                with pytest.raises(ra.PrivacyError, match=r"'q0' .*lies outside"):
                    replace(correct, bounds=[bounds, correct.bounds[1]]).verify(leaves=known)
            n_spoilt += 1
    assert n_spoilt >= len(correct.sizes)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("gap", [0.0, 0.3])
@pytest.mark.parametrize("compact", [True, False])
def test_groups_of_several_leaves_whose_rows_are_known(flavour: str, gap: float, compact: bool) -> None:
    """What is found without the rows is what is found with them: for correct bounds, and for those of other groups."""
    mixed = make_mixed(23, 400, [flavour, "int"], [gap, 0.0])
    table = read_table(mixed.table, ra.Schema(mixed.quasi))
    tree = build_tree(table.codes, table.space, 3, threads=1)
    leaves = verified_leaves(table, tree)
    release_tree(table, tree, 10, compact=compact, verified=leaves)
    grouping = tree.group(10)
    sizes = np.diff(np.cumsum(tree.sizes[grouping.order])[grouping.ends - 1], prepend=0)
    if compact:
        bounds = tight_bounds(tree, tree.group_boxes(grouping), tree.places(grouping.order), sizes)
    else:
        bounds = region_bounds(tree.grid, tree_regions(tree, table.coders), grouping)
    numbers = tree.numbers(grouping.order)

    def refused(sizes: Any, known: VerifiedLeaves | None) -> str:
        try:
            verify_groups(table, bounds, numbers, sizes, 1, known)
        except ra.PrivacyError as error:
            return str(error)
        return ""

    assert not refused(sizes, leaves)
    n_refused = 0
    for group in range(len(sizes) - 1):  # its last leaf goes to the next group
        end = grouping.ends[group]
        moved = int(tree.sizes[grouping.order[end - 1]])
        if moved < sizes[group]:
            wrong = sizes.copy()
            wrong[group : group + 2] += (-moved, moved)
            assert refused(wrong, leaves) == refused(wrong, None)
            n_refused += bool(refused(wrong, leaves))
    assert n_refused
    torn = sizes.copy()
    torn[:2] += (-1, 1)
    assert "whole leaves" in refused(torn, leaves)
    assert "whole leaves" in refused(sizes[:-1], leaves)
    assert "fewer than" in refused(sizes[:0], leaves)


def test_a_mistake_in_any_block_of_a_long_table_is_found() -> None:
    """Rows are looked at in blocks, and in threads where there are many."""
    n = 300_000
    codes = np.arange(n, dtype=np.int32)[:, None]
    table = CodedTable(codes, Space((Axis("x", Kind.LINEAR, 0, n - 1),)), (), pa.table({}), ra.Schema(["x"]), "t")
    first, sizes = np.arange(0, n, 6), np.full(n // 6, 6)
    verify_groups(table, [Bounds(first, first + 5)], np.arange(n), sizes, 6)
    for group in (0, 25_000, n // 6 - 1):
        last = first + 5
        last[group] -= 1
        with pytest.raises(ra.PrivacyError, match="'x' lies outside"):
            verify_groups(table, [Bounds(first, last)], np.arange(n), sizes, 6)


def test_a_group_below_k() -> None:
    wrong = seen("int", 0.0)
    with pytest.raises(ra.PrivacyError, match="fewer than k=200"):
        wrong.verify(k=200)
    smallest = int(wrong.sizes.min())
    wrong.verify(k=smallest)
    with pytest.raises(ra.PrivacyError, match="fewer than"):
        wrong.verify(k=smallest + 1)
    wrong.sizes = wrong.sizes[:0]
    with pytest.raises(ra.PrivacyError, match="fewer than"):
        wrong.verify()


def test_a_row_twice_and_a_row_lost() -> None:
    wrong = seen("int", 0.0)
    wrong.row_numbers[0] = wrong.row_numbers[1]
    with pytest.raises(ra.PrivacyError, match="exactly once"):
        wrong.verify()
    wrong = seen("int", 0.0)
    wrong.row_numbers, wrong.sizes[-1] = wrong.row_numbers[:-1], wrong.sizes[-1] - 1
    with pytest.raises(ra.PrivacyError, match=r"exactly once|fewer than"):
        wrong.verify(k=1)


def test_rows_of_two_groups_that_changed_places() -> None:
    wrong = seen("int", 0.0)
    first, last = wrong.row_numbers[0], wrong.row_numbers[-1]
    wrong.row_numbers[0], wrong.row_numbers[-1] = last, first
    with pytest.raises(ra.PrivacyError, match="lies outside"):
        wrong.verify()


def test_a_mistake_in_the_tree_never_becomes_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = make_mixed(22, 60, ["int"])
    table = read_table(mixed.table, ra.Schema(mixed.quasi))
    tree = build_tree(table.codes, table.space, 3, threads=1)
    assert release_tree(table, tree, 3).n_rows == 60
    rows = tree.rows.copy()
    rows[0, -1] = rows[1, -1]  # one row twice
    tree = replace(tree, rows=rows)
    with pytest.raises(ra.PrivacyError, match="Nothing was released"):
        release_tree(table, tree, 3)
    monkeypatch.setattr(from_tree, "verify_groups", lambda *arguments: None)
    release_tree(table, tree, 3)  # it was the verification that stopped it


def test_k_below_the_trees_own_and_more_than_there_are_rows() -> None:
    table = read_table(pa.table({"x": list(range(20))}), ra.Schema(["x"]))
    tree = build_tree(table.codes, table.space, 5, threads=1)
    with pytest.raises(ra.UsageError, match="below the tree's own k=5"):
        release_tree(table, tree, 4)
    with pytest.raises(ra.PrivacyError, match="20 rows cannot be released at k=21"):
        release_tree(table, tree, 21)
    with pytest.raises(ra.UsageError, match="method"):
        release_tree(table, tree, 5, method="psychic")
