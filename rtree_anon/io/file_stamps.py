"""Noticing that a file was written to or replaced between two looks at it: its rows may then be of two versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rtree_anon.errors import InputError

Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp:
    """What changes when a file is written to or replaced."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def unchanged(path: Path, before: Stamp) -> Iterator[None]:
    """Refuses a file whose stamp is, or becomes meanwhile, another one than before."""
    _check(path, before)
    yield
    _check(path, before)


def _check(path: Path, before: Stamp) -> None:
    if stamp(path) != before:
        raise InputError("the file was changed while it was read; try again", source=str(path))
