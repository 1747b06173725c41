"""A memory budget that everything large reserves from, so that the total is a promise and not a hope (P10).

A reservation is bookkeeping only: reserve first, allocate after. Invariant: the sum of open reservations never exceeds
the limit; whoever asks for too much gets a BudgetError that says who holds the rest.
"""

from __future__ import annotations

import threading
from typing import Self

from rtree_anon.errors import BudgetError, UsageError


class MemoryBudget:
    """So many bytes, shared by all who hold a reference to it, from any thread.

    >>> budget = MemoryBudget(1000)
    >>> with budget.reserve(600, "buffer pool"):
    ...     budget.available
    400
    >>> budget.available
    1000
    """

    def __init__(self, limit_bytes: int) -> None:
        if limit_bytes < 0:
            raise UsageError(f"A memory budget of {limit_bytes} bytes is not possible.")
        self.limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._held: dict[int, Reservation] = {}

    @property
    def reserved(self) -> int:
        """Bytes that are reserved now."""
        with self._lock:
            return self._sum()

    @property
    def available(self) -> int:
        """Bytes that could be reserved now."""
        return self.limit_bytes - self.reserved

    def reserve(self, n_bytes: int, what: str) -> Reservation:
        """Reserve, or raise BudgetError. `what` names the use in messages."""
        reservation = Reservation(self, what)
        reservation.resize(n_bytes)
        return reservation

    def _resize(self, reservation: Reservation, n_bytes: int) -> None:
        if n_bytes < 0:
            raise UsageError(f"{n_bytes} bytes cannot be reserved.")
        with self._lock:
            n_more = n_bytes - reservation.n_bytes
            if self._sum() + n_more > self.limit_bytes:
                holders = sorted(self._held.values(), key=lambda held: -held.n_bytes)[:3]
                uses = ", ".join(f"{held.what} {held.n_bytes:,}" for held in holders) or "nothing"
                raise BudgetError(
                    f"{reservation.what} needs {n_more:,} bytes more, which the budget of {self.limit_bytes:,} has"
                    f" not left (held: {uses}). Give a larger memory budget."
                )
            reservation.n_bytes = n_bytes
            if n_bytes:
                self._held[id(reservation)] = reservation
            else:
                self._held.pop(id(reservation), None)

    def _sum(self) -> int:
        return sum(held.n_bytes for held in self._held.values())


class Reservation:
    """A part of a budget; a context manager that gives it back."""

    def __init__(self, budget: MemoryBudget, what: str) -> None:
        self._budget, self.what, self.n_bytes = budget, what, 0

    def resize(self, n_bytes: int) -> None:
        """Hold this many bytes instead; BudgetError (and no change) when there are not enough."""
        self._budget._resize(self, n_bytes)

    def release(self) -> None:
        """Give everything back; releasing twice is harmless."""
        self.resize(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()
