"""At the end of a run: what the tests of reliability did, in numbers (crash images, flips, kills, seeded bugs and who
caught them).

It stands here and not in tests/storage, because with xdist the process that prints loads only this file. The numbers
come with the reports of the tests (`user_properties`), see the fixture `tally`.
"""

from __future__ import annotations

from typing import Any

import pytest


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Sum up the numbers, list the texts."""
    sums: dict[str, int] = {}
    lines: list[str] = []
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        if not isinstance(report, pytest.TestReport) or report.when != "call":
            continue
        for name, value in report.user_properties:
            if not name.startswith(("storage: ", "index: ")):
                continue
            what = name.removeprefix("storage: ")
            if isinstance(value, int):
                sums[what] = sums.get(what, 0) + value
            else:
                lines.append(f"{what}: {value}")
    if sums or lines:
        terminalreporter.section("storage and index: what was tried (violations would be failures)")
        for what, total in sorted(sums.items()):
            terminalreporter.write_line(f"{total:>12,}  {what}")
        for line in sorted(lines):
            terminalreporter.write_line(line)
