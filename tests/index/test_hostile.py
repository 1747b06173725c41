"""P5, P9: whatever an index holds, with every checksum right, it is a named error or a sound answer; never a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtree_anon as ra
from rtree_anon.errors import AnonError
from rtree_anon.index.bulkload import BUNDLE_KIND
from rtree_anon.index.catalog import BLOB_KIND
from rtree_anon.storage import open_store
from rtree_anon.storage.blob import read_blob, write_blob
from tests.index.making import tiny
from tests.release.mixed import make_mixed

N_MUTATIONS = 150


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with sets, floats, a hierarchy, a dictionary and missing values, on small pages."""
    path = tmp_path_factory.mktemp("hostile") / "people.idx"
    mixed = make_mixed(11, 600, ["int", "few", "float", "tree", "many"], [0.1] * 5)
    schema = ra.Schema(mixed.quasi, sensitive=["illness"], keep=["ward"])
    with tiny(), ra.Index.create(path, schema, k=3) as index:
        index.load(mixed.table)
    return path


def use(path: Path) -> str:
    """Do everything with an index; "sound", or the name of the error that it raised."""
    try:
        with tiny(), ra.Index.open(path, threads=1) as index:
            index.stats()
            if len(index) >= 4:
                index.release(4).to_arrow()
                index.release(4, compact=False).to_arrow()
                index.release(9, method="hierarchical").quality()
            index.verify()
    except AnonError as error:
        assert isinstance(error, ra.StorageError | ra.PrivacyError | ra.UsageError), error
        return type(error).__name__
    return "sound"


class Changed:
    """The index with a change; put back as it was afterwards."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_store(path) as store:
            self.metadata = store.metadata
            self.pages = {page: store.read(page).copy() for page in store.page_ids().tolist()}
            self.kinds = dict.fromkeys(self.pages, BUNDLE_KIND)

    def pages_with(self, change: Callable[[dict[int, np.ndarray]], None]) -> str:
        """What `use` says once pages were changed."""
        pages = {page: content.copy() for page, content in self.pages.items()}
        change(pages)
        return self._with(self.metadata, {p: c for p, c in pages.items() if not np.array_equal(c, self.pages[p])})

    def metadata_with(self, **entries: Any) -> str:
        return self._with({**self.metadata, **entries}, {})

    def blob_with(self, name: str, content: bytes) -> str:
        with open_store(self.path) as store:
            reference = write_blob(store, content, BLOB_KIND)
            store.commit({**self.metadata, name: reference})
        try:
            return use(self.path)
        finally:
            self._forget(reference, len(content))

    def _forget(self, reference: dict[str, int], n_bytes: int) -> None:
        with open_store(self.path) as store:
            n_pages = max(1, -(-n_bytes // store.payload_bytes))
            store.free(np.arange(reference["first"], reference["first"] + n_pages, dtype=np.uint64))
            store.commit(self.metadata)

    def _with(self, metadata: dict[str, Any], pages: dict[int, np.ndarray]) -> str:
        for content in (pages, {page: self.pages[page] for page in pages}):
            with open_store(self.path) as store:
                for page, bytes_ in content.items():
                    store.write(page, bytes_, BUNDLE_KIND)
                store.commit(metadata)
            if content is pages:
                found = use(self.path)
                metadata = self.metadata
        return found


@pytest.fixture
def changed(path: Path) -> Changed:
    found = Changed(path)
    assert use(path) == "sound"
    return found


EXTREME = [0, 1, 2, 63, 64, 255, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


def test_changed_bundles(changed: Changed) -> None:
    """Words of bundles (counts, bases, bits, entries) set to other values, one at a time."""
    rng = np.random.default_rng(1)
    blobs = {changed.metadata[name]["first"] for name in ("about", "tree")}
    bundles = [page for page in changed.pages if page not in blobs and len(changed.pages[page]) % 8 == 0]
    outcomes = []
    for number in range(N_MUTATIONS):
        page = bundles[int(rng.integers(len(bundles)))]
        n_words = len(changed.pages[page]) // 8
        place = int(rng.integers(min(n_words, 40))) if number % 3 else int(rng.integers(n_words))
        value = EXTREME[int(rng.integers(len(EXTREME)))]

        def change(pages: dict[int, np.ndarray], page: int = page, place: int = place, value: int = value) -> None:
            words = pages[page].view(np.uint64)
            words[place] = np.uint64(value) if rng.random() < 0.6 else words[place] ^ np.uint64(1 << (value % 64))

        outcomes.append(changed.pages_with(change))
    # A carried value or an id that is another one, or a word that was so before: nobody can tell.
    assert outcomes.count("CorruptionError") > 0.5 * N_MUTATIONS, outcomes


def test_a_changed_upper_tree(changed: Changed) -> None:
    rng = np.random.default_rng(2)
    with open_store(changed.path) as store:
        blob = np.frombuffer(read_blob(store, changed.metadata["tree"]), np.uint64).copy()
    outcomes = []
    for _ in range(N_MUTATIONS):
        words = blob.copy()
        place = int(rng.integers(len(words))) if rng.random() < 0.8 else int(rng.integers(3))
        value = EXTREME[int(rng.integers(len(EXTREME)))]
        words[place] = np.uint64(value) if rng.random() < 0.6 else words[place] ^ np.uint64(1 << (value % 64))
        outcomes.append(changed.blob_with("tree", words.tobytes()))
    assert outcomes.count("CorruptionError") > 0.8 * N_MUTATIONS, outcomes
    for length in (0, 1, 8, 24, len(blob) * 8 - 8):
        assert changed.blob_with("tree", blob.tobytes()[:length]) == "CorruptionError"


@pytest.mark.parametrize(
    "entries",
    [
        {"what": "photographs"},
        {"what": None},
        {"format": 99},
        {"format": "1"},
        {"k": 0},
        {"k": -3},
        {"k": 2**70 % 2**63},
        {"k": "five"},
        {"k": True},
        {"n_rows": 599},
        {"n_rows": 2**62},
        {"next_id": 10},
        {"next_id": 2**62},
        {"quality": "superb"},
        {"quality": None},
        {"seed": -1},
        {"about": None},
        {"about": {"first": 0, "bytes": 2**60}},
        {"tree": {"first": 2**62, "bytes": 1}},
        {"tree": [1, 2, 3]},
    ],
    ids=str,
)
def test_changed_metadata(changed: Changed, entries: dict[str, Any]) -> None:
    found = changed.metadata_with(**entries)
    if "what" in entries or "format" in entries:
        assert found == "StorageError"
    elif entries == {"next_id": 2**62}:  # possible: ids need not be dense
        assert found == "sound"
    elif entries != {"k": 2**70 % 2**63}:
        assert found == "CorruptionError"


@pytest.mark.parametrize(
    "change",
    [
        lambda about: {},
        lambda about: [],
        lambda about: "text",
        lambda about: {**about, "schema": "= ["},
        lambda about: {**about, "schema": 'quasi = ["a"]'},
        lambda about: {**about, "schema": about["schema"].replace("float", "int")},
        lambda about: {**about, "schema": about["schema"].replace("q1", "q9")},
        lambda about: {**about, "model": "k=five"},
        lambda about: {**about, "model": "__import__('os').system('true')"},
        lambda about: {**about, "model": 5},
        lambda about: {**about, "carried": None},
        lambda about: {**about, "carried": [["illness", "string", "whole"]]},
        lambda about: {**about, "carried": [["illness"]]},
        lambda about: {**about, "carried": about["carried"][:1]},
        lambda about: {**about, "parts": {"illness": [{"first": 2**61, "bytes": 5}]}},
        lambda about: {**about, "parts": {"nobody": []}},
        lambda about: {**about, "parts": {}},
        lambda about: {**about, "parts": {"illness": "x"}},
    ],
)
def test_a_changed_description(changed: Changed, change: Callable[[Any], Any]) -> None:
    with open_store(changed.path) as store:
        about = json.loads(read_blob(store, changed.metadata["about"]))
    assert changed.blob_with("about", json.dumps(change(about)).encode()) != "sound"
    assert changed.blob_with("about", b"\xff\xfe" + b"[" * 100_000) == "CorruptionError"


def test_a_store_of_something_else(tmp_path: Path) -> None:
    from rtree_anon.storage import create_store

    create_store(tmp_path / "other").close()
    with pytest.raises(ra.StorageError, match="is not an index of rtree-anon"):
        ra.Index.open(tmp_path / "other")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ra.StorageError):
        ra.Index.open(tmp_path / "empty")
