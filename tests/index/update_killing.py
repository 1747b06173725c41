"""A child that changes an index for ever, and what must be found after it was killed.

    python -m tests.index.update_killing INDEX     reports every acknowledged step as one line, until killed

Step i, where i is odd, inserts four rows with the amount i; where it is even, it deletes those of step i - 3. So the
rows that are there tell which steps happened.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa

import rtree_anon as ra
from tests.index.making import rows_by_id

SCHEMA = ra.Schema(["age", "height"], sensitive=["amount"])
N_NEW = 4


def rows_of_step(step: int) -> pa.Table:
    ages = [(step * 7 + row * 13) % 90 for row in range(N_NEW)]
    return pa.table({"age": ages, "height": [(step * 31 + row) % 60 for row in range(N_NEW)], "amount": [step] * N_NEW})


def state_after(step: int) -> Counter[int]:
    """How many rows of each amount there are."""
    there = set(range(1, step + 1, 2)) - {gone - 3 for gone in range(4, step + 1, 2)}
    return Counter(dict.fromkeys(there, N_NEW))


def found_state(index: ra.Index) -> dict[int, int]:
    """The amount of every row by id."""
    index.checkpoint()
    return {row: values[2] for row, values in rows_by_id(index).items()} if len(index) else {}


def steps_of(state: Counter[int]) -> int:
    """How many steps lead to a state; an error where none do."""
    last = max(state, default=0)
    for step in (last, last + 1):
        if state_after(step) == state:
            return step
    raise AssertionError(f"{sorted(state.items())[-6:]} is not the state after any step")


def change_for_ever(path: Path) -> None:
    with ra.Index.open(path, mode="w", threads=1) as index:
        found = found_state(index)
        step = steps_of(Counter(found.values()))
        while True:
            step += 1
            if step % 2:
                ids = index.insert(rows_of_step(step))
                found.update(dict.fromkeys(ids.tolist(), step))
            else:
                gone = [row for row, amount in found.items() if amount == step - 3]
                index.delete(gone)
                for row in gone:
                    del found[row]
            print(step, flush=True)
            if step % 5 == 0:
                index.checkpoint()


if __name__ == "__main__":
    change_for_ever(Path(sys.argv[1]))
