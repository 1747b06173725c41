"""Progress of long work: a bar on a terminal, a call for programs, silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

OnProgress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with the phase, the rows that are done, and how many there are (None where that is not known)."""


@contextmanager
def shown(on_progress: OnProgress | None) -> Iterator[OnProgress]:
    """What to call: the caller's own function where there is one, else a bar where somebody watches."""
    if on_progress is not None:
        yield on_progress
    elif not sys.stderr.isatty():
        yield lambda phase, done, total: None
    else:
        with _bar() as update:
            yield update


@contextmanager
def _bar() -> Iterator[OnProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} rows"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def update(phase: str, done: int, total: int | None) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total, rate="")
            speed = bar.tasks[list(tasks).index(phase)].speed
            total = None if total is None else max(total, done)
            bar.update(tasks[phase], completed=done, total=total, rate=f"{speed:,.0f} rows/s" if speed else "")

        yield update
