"""Every error that users meet. Each says what happened, where, and what to do; each knows its exit code.

The exit codes are those of the command line: 1 the data or the privacy model says no, 2 wrong usage, 3 a damaged or
unreadable index. Errors subclass the builtin that a caller would expect (``ValueError``, ``OSError``), so that code
that does not know this package still catches them sensibly.
"""

from __future__ import annotations

from typing import ClassVar


class AnonError(Exception):
    """Base class of all errors that this package raises on purpose."""

    exit_code: ClassVar[int] = 1


class UsageError(AnonError, ValueError):
    """The call itself is wrong: an unknown option value, k < 1, an output that exists already."""

    exit_code = 2


class SchemaError(UsageError):
    """The schema does not fit the data or itself: an unknown column, a column named twice, a bad TOML file."""


class InputError(AnonError, ValueError):
    """The data cannot be read as the schema says. Names the source, the row and the column where they are known."""

    def __init__(
        self, problem: str, *, source: str | None = None, row: int | None = None, column: str | None = None
    ) -> None:
        self.problem, self.source, self.row, self.column = problem, source, row, column
        where = [
            source or "",
            f"row {row}" if row is not None else "",  # the first data row is row 1
            f"column {column!r}" if column is not None else "",
        ]
        prefix = ", ".join(part for part in where if part)
        super().__init__(f"{prefix}: {problem}" if prefix else problem)


class PrivacyError(AnonError, ValueError):
    """The privacy model cannot be met, or a release was found not to meet it; nothing was released."""


class StorageError(AnonError, OSError):
    """The index file cannot be used: an I/O error, a full disk, a file of another kind."""

    exit_code = 3


class CorruptionError(StorageError):
    """A file of ours is damaged: a checksum, a link or a count is wrong. Nothing was changed."""


class LockedError(StorageError):
    """Another process (or another handle of this one) is writing to the index."""

    exit_code = 1


class BudgetError(AnonError, MemoryError):
    """The memory budget does not suffice for what was asked. Nothing was changed."""
