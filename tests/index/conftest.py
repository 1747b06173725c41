"""Counting what the tests of the index's reliability really did (see tests/storage/conftest.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import rtree_anon.index
from tests.storage.deep import STORAGE_FOLDER, Counts

INDEX = Path(rtree_anon.index.__file__).parent
COUNTS = Counts(Path(__file__).with_name("deep_counts.json"), (STORAGE_FOLDER, INDEX, INDEX.parent / "io"))


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Callable[[str, int], None]:
    """Add a number to the summary at the end of the run."""

    def add(what: str, value: int) -> None:
        request.node.user_properties.append((f"index: {what}", value))

    return add
