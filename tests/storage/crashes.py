"""The crash explorer: every changing operation of a workload is a crash point, every point has many outcomes.

One run of the workload; after each operation the disk is crashed in `n_outcomes` different ways and each image is
checked. A violation names the seed, the workload, the operation and the outcome, and the command that repeats it.
"""

from __future__ import annotations

from tests.storage.disk import CHANGING, SimulatedDisk, crash_fates
from tests.storage.workloads import WORKLOADS, Script, ViolationError, check


def explore_crashes(workload: str, seed: int, n_outcomes: int, first_outcome: int = 0) -> int:
    """Run one workload with all its crash points; the number of different images that were checked."""
    disk = SimulatedDisk(seed)
    script = Script(disk, seed)
    n_images = n_operations = 0

    def crash_here(operation: str, path: str) -> None:
        nonlocal n_images, n_operations
        if operation not in CHANGING:
            return
        n_operations += 1
        seen = set()
        for outcome in range(first_outcome, first_outcome + n_outcomes):
            fates = crash_fates(outcome, seed * 7919 + n_operations)
            image = disk.crash(fates)
            taken = tuple(fates.taken)
            if taken in seen:
                continue
            seen.add(taken)
            n_images += 1
            try:
                check(image, script.model, depth=n_images)
            except ViolationError as violation:
                again = f"python -m tests.storage.crashes {workload!r} {seed} {n_outcomes} {first_outcome}"
                raise ViolationError(
                    f"{violation} -- workload {workload!r}, seed {seed}, operation {n_operations} ({operation} {path}),"
                    f" outcome {outcome}; repeat with: {again}"
                ) from violation

    disk.after = crash_here
    WORKLOADS[workload](script)
    return n_images


def explore_second_crashes(workload: str, seed: int, every: int) -> tuple[int, int]:
    """Crash the recovery from a crash, at all of its operations; (first crashes, images)."""
    disk = SimulatedDisk(seed)
    script = Script(disk, seed)
    n_first = n_images = n_operations = 0

    def crash_here(operation: str, path: str) -> None:
        nonlocal n_first, n_images, n_operations
        if operation not in CHANGING:
            return
        n_operations += 1
        if n_operations % every != seed % every:
            return
        image = disk.crash(crash_fates(3 + n_operations % 9, seed * 104_729 + n_operations))
        n_first += 1
        n_inner = 0

        def crash_again(inner: str, inner_path: str) -> None:
            nonlocal n_images, n_inner
            if inner not in CHANGING:
                return
            n_inner += 1
            for outcome in (0, 1, 5 + n_inner % 7):
                second = image.crash(crash_fates(outcome, seed + n_operations * 31 + n_inner))
                n_images += 1
                check_named(second, f"second crash at {inner} {inner_path}, outcome {outcome}")

        def check_named(target: SimulatedDisk, what: str) -> None:
            try:
                check(target, script.model, depth=n_images % 2)  # the model knows nothing of going on
            except ViolationError as violation:
                raise ViolationError(
                    f"{violation} -- workload {workload!r}, seed {seed}, operation {n_operations} ({operation} {path}),"
                    f" {what}; repeat with: python -m tests.storage.crashes second {workload!r} {seed} {every}"
                ) from violation

        image.after = crash_again
        check_named(image, "first crash")

    disk.after = crash_here
    WORKLOADS[workload](script)
    return n_first, n_images


if __name__ == "__main__":
    import sys

    if sys.argv[1] == "second":
        print(explore_second_crashes(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        print(explore_crashes(sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:])))
