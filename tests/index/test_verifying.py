"""`Index.verify` finds every way in which an index can be wrong though each of its pages is as it was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtree_anon as ra
from rtree_anon.index.cuts import Cuts
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.index.view import View
from rtree_anon.storage import open_snapshot, open_store
from tests.index.making import tiny

ROWS = 800


@pytest.fixture
def path(tmp_path: Path) -> Path:
    source = ra.generate("patients", ROWS, seed=2)
    schema = ra.Schema(["age", "zip", "sex", "education"], sensitive=["diagnosis"])
    with tiny(), ra.Index.create(tmp_path / "people.idx", schema, k=4) as index:
        index.load(source)
        assert index.verify().n_bundles > 10
    return tmp_path / "people.idx"


def rewritten(path: Path, change: Callable[[UpperTree], UpperTree], **catalog_entries: Any) -> None:
    """Commit the index with another upper tree or catalog, pages accounted for."""
    from rtree_anon.index.catalog import catalog_pages

    with open_store(path) as store:
        with View(open_snapshot(path), str(path), 10**7) as view:
            catalog, tree = replace(view.catalog, **catalog_entries), change(view.tree)
            old = catalog_pages(view.pages)
        metadata = catalog.write(store, tree)
        store.free(old)
        store.commit(metadata)


def damage(path: Path) -> str:
    with pytest.raises(ra.CorruptionError) as caught, ra.Index.open(path) as index:
        index.verify()
    return str(caught.value)


def moved(array: np.ndarray, place: tuple[int, ...] | int, by: int) -> np.ndarray:
    changed = array.copy()
    changed[place] += by
    return changed


def test_nothing_is_wrong_with_a_rewritten_index(path: Path) -> None:
    rewritten(path, lambda tree: tree)
    with ra.Index.open(path) as index:
        report = index.verify()
        assert report.ok and report.n_rows == ROWS and report.smallest_leaf >= report.k == 4


@pytest.mark.parametrize("which", ["lo", "hi"])
@pytest.mark.parametrize("by", [-1, 1])
def test_a_box_that_is_not_tight(path: Path, which: str, by: int) -> None:
    bundle = 3
    with ra.Index.open(path) as index:
        edge = int(getattr(index._current.tree, which)[bundle, 0])
        axis = index._current.space.axes[0]
    if not axis.lo <= edge + by <= axis.hi:
        by = -by
    rewritten(path, lambda tree: replace(tree, **{which: moved(getattr(tree, which), (bundle, 0), by)}))
    assert "box" in damage(path) or "cut" in damage(path)


def test_a_set_with_a_category_too_many(path: Path) -> None:
    def change(tree: UpperTree) -> UpperTree:
        mask = tree.mask.copy()
        mask[2] ^= np.uint64(1)
        return replace(tree, mask=mask)

    rewritten(path, change)
    assert "box" in damage(path) or "cut" in damage(path)


def test_a_cut_in_another_place(path: Path) -> None:
    """Rows that a cut would send elsewhere."""

    def change(tree: UpperTree) -> UpperTree:
        numeric = np.flatnonzero(~tree.cuts.is_set)
        cuts = replace(tree.cuts, threshold=moved(tree.cuts.threshold, int(numeric[0]), 7))
        return replace(tree, cuts=cuts)

    rewritten(path, change)
    assert "wrong side of a cut" in damage(path)


def test_cuts_that_are_turned_round(path: Path) -> None:
    def change(tree: UpperTree) -> UpperTree:
        return replace(tree, cuts=replace(tree.cuts, flipped=~tree.cuts.flipped))

    rewritten(path, change)
    assert "wrong side of a cut" in damage(path)


def test_another_tree_above_the_same_bundles(path: Path) -> None:
    def change(tree: UpperTree) -> UpperTree:
        order = np.arange(len(tree))
        order[[1, 2]] = 2, 1
        parts = {field.name: getattr(tree, field.name)[order] for field in fields(tree) if field.name != "cuts"}
        return UpperTree(**parts, cuts=tree.cuts)

    rewritten(path, change)
    assert "wrong side of a cut" in damage(path)


@pytest.mark.parametrize("entries", [{"n_rows": ROWS - 1}, {"n_rows": ROWS + 1, "next_id": ROWS + 1}])
def test_a_wrong_number_of_rows(path: Path, entries: dict[str, int]) -> None:
    rewritten(path, lambda tree: tree, **entries)
    assert "another number of rows" in damage(path)


def test_an_id_that_was_never_given(path: Path) -> None:
    """The rows of a load are numbered consecutively: make one bundle begin elsewhere."""
    shift_ids(path, ROWS + 5)
    assert "never given" in damage(path) or "directory" in damage(path)


def test_an_id_that_is_there_twice(path: Path) -> None:
    shift_ids(path, 0)
    assert "two rows have the id" in damage(path) or "directory" in damage(path)


def shift_ids(path: Path, first_id: int) -> None:
    from rtree_anon.index.bulkload import BUNDLE_KIND
    from rtree_anon.kernels.bundles import HEADER_WORDS

    with open_store(path) as store:
        with View(open_snapshot(path), str(path), 10**7) as view:
            page, n_columns = int(view.tree.page[4]), view.reader.n_columns
        content = store.read(page).copy()
        content.view(np.uint64)[HEADER_WORDS + 2 * (n_columns - 1)] = first_id
        store.write(page, content, BUNDLE_KIND)
        store.commit()


def test_leaves_that_are_too_small(path: Path) -> None:
    rewritten(path, lambda tree: tree, k=6, model=ra.KAnonymity(6))
    assert "rows where k is 6" in damage(path)


@pytest.mark.parametrize(
    "further",
    ["distinct_l=4 on diagnosis", "entropy_l=3 on diagnosis", "t=0.6 on diagnosis", "beta=9 on diagnosis"],
)
def test_leaves_that_break_the_privacy_model(path: Path, further: str) -> None:
    rewritten(path, lambda tree: tree, model=ra.KAnonymity(4) & ra.model_from_text(further))
    assert "a leaf breaks the privacy model KAnonymity(4) & " in damage(path)


@pytest.mark.parametrize("model", [ra.KAnonymity(5), ra.KAnonymity(4) & ra.DistinctLDiversity(2, "age")])
def test_a_model_that_cannot_be_that_of_the_index(path: Path, model: ra.models.Model) -> None:
    rewritten(path, lambda tree: tree, model=model)
    assert "the description of the index is damaged: its model" in damage(path)


def test_a_page_that_nothing_uses(path: Path) -> None:
    with open_store(path) as store:
        store.write(store.allocate(), b"forgotten", 17)
        store.commit()
    assert "pages that nothing uses" in damage(path)


def test_a_depth_that_cannot_be(path: Path) -> None:
    def change(tree: UpperTree) -> UpperTree:
        return replace(tree, cuts=Cuts(np.zeros_like(tree.cuts.depth), *_looks(tree.cuts)))

    rewritten(path, change)
    assert "its place in the tree" in damage(path)


def _looks(cuts: Cuts) -> tuple[np.ndarray, ...]:
    return cuts.axis, cuts.is_set, cuts.flipped, cuts.threshold, cuts.left_set


def test_a_flipped_bit(path: Path) -> None:
    content = bytearray((path / "data").read_bytes())
    content[len(content) // 2] ^= 4
    (path / "data").write_bytes(content)
    with pytest.raises(ra.CorruptionError), ra.Index.open(path) as index:
        index.verify()
