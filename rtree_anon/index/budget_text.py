"""Amounts of memory as people write them: "256MB", "1 GiB", 64_000_000."""

from __future__ import annotations

import re
from numbers import Integral
from typing import Final

from rtree_anon.errors import UsageError

LEAST_BYTES: Final = 16_000_000
_AMOUNT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?\s*", re.IGNORECASE)
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def memory_bytes(amount: str | int) -> int:
    """The number of bytes that an amount stands for.

    >>> memory_bytes("256MB"), memory_bytes("1 GiB"), memory_bytes(64_000_000)
    (256000000, 1073741824, 64000000)
    """
    n_bytes = _bytes(amount)
    if n_bytes < LEAST_BYTES:
        raise UsageError(f"memory={amount!r} is not enough; an index needs {LEAST_BYTES // 10**6} MB or more.")
    return n_bytes


def _bytes(amount: object) -> int:
    if not isinstance(amount, str | bool) and isinstance(amount, Integral):
        return int(amount)
    found = _AMOUNT.fullmatch(amount) if isinstance(amount, str) else None
    if found is None:
        raise UsageError(f"memory={amount!r} is not an amount of memory; write it as '256MB', '1GB' or a number.")
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.upper()])
