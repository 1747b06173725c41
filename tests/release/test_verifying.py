"""The last look at a release: seeded mistakes of every kind are refused, on every kind of axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rtree_anon as ra
from rtree_anon.io.table import CodedTable, read_table
from rtree_anon.release import from_tree
from rtree_anon.release.from_tree import release_tree
from rtree_anon.release.verifying import verify_groups
from rtree_anon.tree import build_tree
from rtree_anon.tree.build import Boxes, LeafTree
from tests.release.mixed import make_mixed

FLAVOURS = ("int", "limits", "wide", "float", "date", "bool", "few", "many", "tree")


@dataclass
class Seen:
    """What a release hands to the verification, to be spoiled."""

    table: CodedTable
    tree: LeafTree
    boxes: Boxes
    row_numbers: Any
    sizes: Any

    def verify(self, k: int = 3) -> None:
        verify_groups(self.table, self.tree.grid, self.boxes, self.row_numbers, self.sizes, k)


def seen(flavour: str, gap: float, compact: bool = True) -> Seen:
    mixed = make_mixed(21, 150, [flavour, "int"], [gap, 0.0])
    table = read_table(mixed.table, ra.Schema(mixed.quasi))
    tree = build_tree(table.codes, table.space, 3, threads=1)
    grouping = tree.group(3, "leaves")
    boxes = tree.group_boxes(grouping, compact)
    return Seen(table, tree, boxes, tree.rows[:, -1].astype(np.int64), tree.sizes.copy())


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_a_correct_release_passes_and_a_box_that_is_too_small_does_not(flavour: str, gap: float) -> None:
    correct = seen(flavour, gap)
    correct.verify()
    seen(flavour, gap, compact=False).verify()
    grid = correct.tree.grid
    column = grid.column_of_axis[0]
    spoilt = 0
    for group in range(len(correct.sizes)):
        for side in (0, 1):
            wrong = seen(flavour, gap)
            if grid.space.axes[0].kind.name == "SET":
                mask = int(wrong.boxes.mask[group, column - grid.gauge.n_linear])
                bit = mask & -mask if side == 0 else 1 << (mask.bit_length() - 1)
                wrong.boxes.mask[group, column - grid.gauge.n_linear] = mask & ~bit
            else:
                lo, hi = int(wrong.boxes.lo[group, column]), int(wrong.boxes.hi[group, column])
                if lo == hi and (grid.ranks[0] is not None or abs(lo) >= 2**31 - 1):
                    continue  # there is no next code
                # The next kernel code inwards: no row has to lie there for the box to be too small.
                if side == 0:
                    wrong.boxes.lo[group, column] = max(lo + 1, grid.lowest_code(0))
                else:
                    wrong.boxes.hi[group, column] = hi - 1
            with pytest.raises(ra.PrivacyError, match="'q0' lies outside"):
                wrong.verify()
            spoilt += 1
            if spoilt > 12:
                return
    assert spoilt > 2


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
    tree.rows[0, -1] = tree.rows[1, -1]  # one row twice
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
