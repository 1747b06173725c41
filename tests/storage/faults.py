"""Faults at operation 1, 2, 3 … of a workload, until none fires: EIO, ENOSPC, short writes; once, or from then on for
good.

After the fault the workload must have met a named error (or none, where the fault is harmless), the store must not
leak handles or locks, and what is on disk must be an allowed state, whether the process goes on (no power cut) or the
power fails as well.
"""

from __future__ import annotations

import errno

from rtree_anon.errors import StorageError
from tests.storage.disk import SimulatedDisk, crash_fates
from tests.storage.workloads import WORKLOADS, Script, ViolationError, check

KINDS = {
    "EIO": {
        "open",
        "create",
        "read",
        "write",
        "sync",
        "rename",
        "remove",
        "make_directory",
        "sync_directory",
        "names",
        "lock",
    },
    "ENOSPC": {"create", "write", "sync", "rename", "make_directory", "sync_directory"},
    "short write": {"write"},
}


class Fault:
    """The fault at the n-th operation that can have it, once or from then on; for `SimulatedDisk.before`."""

    def __init__(self, kind: str, position: int, for_good: bool) -> None:
        self.kind, self.position, self.for_good = kind, position, for_good
        self.n_seen, self.fired = 0, False

    def __call__(self, operation: str, path: str) -> str | None:
        if operation not in KINDS[self.kind]:
            return None
        self.n_seen += 1
        if self.n_seen == self.position or (self.for_good and self.n_seen > self.position):
            self.fired = True
            if self.kind == "short write":
                return "short"
            raise OSError(getattr(errno, self.kind), f"injected {self.kind}", path)
        return None


def inject_everywhere(workload: str, kind: str, *, for_good: bool, seed: int = 0, outcomes: int = 1) -> int:
    """All positions of one fault in one workload; how many faults were injected."""
    position = 1
    while _inject(workload, kind, position, for_good, seed, outcomes):
        position += 1
    return position - 1


def _inject(workload: str, kind: str, position: int, for_good: bool, seed: int, outcomes: int = 3) -> bool:
    """False when the workload ended before the fault could fire."""
    disk = SimulatedDisk(seed)
    script = Script(disk, seed)
    fault = disk.before = Fault(kind, position, for_good)
    name = f"workload {workload!r}, {kind} at operation {position}{' for good' if for_good else ''}, seed {seed}"
    try:
        WORKLOADS[workload](script)
    except StorageError:
        if kind == "short write":
            raise ViolationError(f"a short write is not an error -- {name}") from None
    except OSError as error:
        raise ViolationError(f"an error without a name and an advice: {error!r} -- {name}") from error
    finally:
        disk.before = lambda operation, path: None
    if script.store is not None:
        script.store.close()
    try:
        if disk.n_open:
            raise ViolationError("a file handle was leaked")
        for outcome in [(0, 1, 6)[(position + number) % 3] for number in range(outcomes)]:
            check(disk.crash(crash_fates(outcome, seed + position)), script.model, depth=outcome + position)
        check(disk, script.model, depth=position % 2)
        # What that recovery found and accepted must now be durable, even if the kernel had dropped it after a failed
        # sync.
        check(disk.crash(crash_fates(0, 0)), script.model)
    except ViolationError as violation:
        again = f"python -m tests.storage.faults {workload!r} {kind!r} {position} {for_good} {seed}"
        raise ViolationError(f"{violation} -- {name}; repeat with: {again}") from violation
    return fault.fired


if __name__ == "__main__":
    import sys

    print(_inject(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "True", int(sys.argv[5])))
