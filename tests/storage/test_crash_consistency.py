"""P1-P3: whatever a crash leaves of what was not synced, the store is the last acknowledged state or that plus the one
in flight.

Every changing operation (create, write, sync, rename, remove, …) of six workloads is a crash point; every pending
write is lost, kept, torn, cut into sectors, zeroed or garbled, every pending name lost or kept. Then the recovery
itself is crashed.
"""

from __future__ import annotations

import pytest

from tests.storage.crashes import explore_crashes, explore_second_crashes
from tests.storage.deep import accumulate
from tests.storage.workloads import WORKLOADS

QUICK_SEEDS = {
    "create": 4,
    "bulk load": 4,
    "commits with splits": 5,
    "deletes with merges": 5,
    "journal rotation": 6,
    "publish": 4,
}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_crash_at_any_operation_loses_nothing_acknowledged(workload, tally):
    for seed in range(QUICK_SEEDS[workload]):
        # the fixed outcomes 0-4 once, random mixtures for every seed
        n_images = explore_crashes(workload, seed, n_outcomes=8, first_outcome=0 if seed == 0 else 5)
        assert n_images > 50
        tally("crash images", n_images)


@pytest.mark.parametrize("workload", ["bulk load", "commits with splits", "journal rotation"])
def test_a_second_crash_during_recovery_loses_nothing_either(workload, tally):
    n_first, n_images = explore_second_crashes(workload, seed=1, every=2)
    assert n_first >= 40
    assert n_images > n_first
    tally("first crashes whose recovery was crashed at every operation", n_first)
    tally("crash images of recoveries", n_images)


@pytest.mark.deep
def test_a_crash_at_any_operation_loses_nothing_acknowledged_deep(tally):
    names = list(WORKLOADS)

    def step(seed: int) -> int:
        return explore_crashes(names[seed % len(names)], seed, n_outcomes=16, first_outcome=0 if seed < 1012 else 5)

    n_now, total = accumulate("crash images", 500_000, step)
    tally("crash images", n_now)
    tally("crash images, all deep runs of this code", total)


@pytest.mark.deep
def test_a_second_crash_during_recovery_loses_nothing_either_deep(tally):
    names = list(WORKLOADS)

    def step(seed: int) -> int:
        n_first, n_images = explore_second_crashes(names[seed % len(names)], seed, every=1)
        tally("crash images of recoveries", n_images)
        return n_first

    n_now, total = accumulate("first crashes whose recovery was crashed at every operation", 5_000, step)
    tally("first crashes whose recovery was crashed at every operation", n_now)
    tally("second crashes, all deep runs of this code", total)
