"""Counting what the storage tests really did; the summary at the end of a run is printed by tests/conftest.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Callable[[str, int | str], None]:
    """Add a number (or a line of text) to the summary at the end of the run; works with xdist, as it travels in the
    report.
    """

    def add(what: str, value: int | str) -> None:
        request.node.user_properties.append((f"storage: {what}", value))

    return add
