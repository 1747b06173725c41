"""Arguments that several public functions take, checked in one way: k, seeds, threads, choices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral

from rtree_anon.errors import UsageError


def checked_k(k: object, name: str) -> int:
    """A number of rows that groups can have."""
    number = whole_number(k, name)
    if number < 1:
        raise UsageError(f"{name}={number} is not possible; it must be 1 or more (2 or more to protect anybody).")
    return number


def checked_seed(seed: object) -> int:
    """A seed that the kernels can use."""
    number = whole_number(seed, "seed")
    if not 0 <= number < 2**63:
        raise UsageError(f"seed={seed} is not possible; use a whole number from 0 to 2**63 - 1.")
    return number


def checked_threads(threads: object) -> int | None:
    """A number of threads, or None for all cores."""
    if threads is None:
        return None
    number = whole_number(threads, "threads")
    if number < 1:
        raise UsageError(f"threads={threads} is not possible; use 1 or more, or None for all cores ({os.cpu_count()}).")
    return number


def check_choice(name: str, value: object, known: Sequence[str]) -> None:
    """One of the names that are known."""
    if value not in known:
        raise UsageError(f"{name}={value!r} is not known; choose one of {', '.join(known)}.")


def whole_number(value: object, name: str) -> int:
    """A whole number of any integer type; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UsageError(f"{name} must be a whole number, not {value!r}.")
    return int(value)
