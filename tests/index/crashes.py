"""Crashes and faults at every operation of a workload of the index, as tests/storage/crashes.py does for the store.

A violation names the workload, the seed, the operation and the outcome, and the command that repeats it:

    python -m tests.index.crashes crash|second|fault WORKLOAD SEED …
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from rtree_anon.errors import StorageError
from tests.index.making import tiny
from tests.index.workloads import PLAIN, PRIVATE, IndexScript, ViolationError, run_workload
from tests.storage.disk import CHANGING, SimulatedDisk, crash_fates
from tests.storage.faults import Fault


def explore_crashes(workload: str, seed: int, n_outcomes: int, every: int = 1) -> int:
    """Crash at every operation, each with several outcomes; the number of images."""
    n_images = n_operations = 0
    with tempfile.TemporaryDirectory() as directory:
        disk, script = _made(workload, seed, directory)

        def crash_here(operation: str, path: str) -> None:
            nonlocal n_images, n_operations
            if operation not in CHANGING:
                return
            n_operations += 1
            if n_operations % every != seed % every:
                return
            for outcome in range(n_outcomes):
                number = outcome if n_outcomes > 4 else (n_operations * n_outcomes + outcome) % 9
                image = disk.crash(crash_fates(number, seed * 7919 + n_operations))
                n_images += 1
                where = f"operation {n_operations} ({operation} {path}), outcome {number}"
                _check(script, image, f"crash {workload} {seed} {n_outcomes} {every}", where, goes_on=n_images % 4 == 0)

        disk.after = crash_here
        run_workload(workload, script)
        disk.after = lambda operation, path: None
        script.opened.close()
    return n_images


def explore_second_crashes(workload: str, seed: int, every: int) -> tuple[int, int]:
    """Crash the recovery from a crash at each of its operations; (first crashes, images)."""
    n_first = n_images = n_operations = 0
    with tempfile.TemporaryDirectory() as directory:
        disk, script = _made(workload, seed, directory)

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
                second = image.crash(crash_fates((0, 1, 5 + n_inner % 7)[n_inner % 3], seed + n_operations + n_inner))
                n_images += 1
                where = f"operation {n_operations} ({operation} {path}), then {n_inner} ({inner} {inner_path})"
                _check(script, second, f"second {workload} {seed} {every}", where)

            image.after = crash_again
            _check(script, image, f"second {workload} {seed} {every}", f"operation {n_operations}, first crash")

        disk.after = crash_here
        run_workload(workload, script)
        disk.after = lambda operation, path: None
        script.opened.close()
    return n_first, n_images


def inject_faults(workload: str, kind: str, seed: int, *, for_good: bool, every: int = 1) -> int:
    """A fault at operation 1, 2, 3 … until none fires; how many there were."""
    position, n_faults = 1 + seed % every, 0
    while _inject(workload, kind, position, seed, for_good):
        position, n_faults = position + every, n_faults + 1
    return n_faults


def _inject(workload: str, kind: str, position: int, seed: int, for_good: bool) -> bool:
    again = f"fault {workload} {seed} {kind!r} {position} {for_good}"
    with tempfile.TemporaryDirectory() as directory:
        disk, script = _made(workload, seed, directory)
        fault = disk.before = Fault(kind, position, for_good)
        try:
            run_workload(workload, script)
        except StorageError as error:
            if kind == "short write":
                raise ViolationError(f"a short write is not an error: {error}; {_repeat(again)}") from error
        except OSError as error:
            raise ViolationError(f"an error without a name and an advice: {error!r}; {_repeat(again)}") from error
        finally:
            disk.before = lambda operation, path: None
        _go_on(script, again)
        where = f"{kind} at operation {position}{' for good' if for_good else ''}"
        if disk.n_open:
            raise ViolationError(f"{where}: a file handle was leaked; {_repeat(again)}")
        if any(Path(directory).iterdir()):
            raise ViolationError(f"{where}: a temporary file was left; {_repeat(again)}")
        if script.index is not None or disk.exists("/d/i"):
            power_cut = disk.crash(crash_fates((0, 1, 6)[position % 3], seed + position))
            _check(script, power_cut, again, f"{where}, then a power cut")
            _check(script, disk, again, where, goes_on=position % 3 == 0)
    return fault.fired


def _go_on(script: IndexScript, again: str) -> None:
    """After an error the handle has ended, or it has an allowed state and goes on."""
    if script.index is None:
        return
    with tiny():
        try:
            script.index.checkpoint()
            if script.found(script.index) not in script.states[script.durable :]:
                raise ViolationError(f"after the fault the handle has another state; {_repeat(again)}")
            script.acknowledged(False)
        except StorageError:
            pass
        finally:
            with suppress(StorageError):
                script.index.close()


def _made(workload: str, seed: int, directory: str) -> tuple[SimulatedDisk, IndexScript]:
    disk = SimulatedDisk(seed)
    model = PRIVATE if seed % 8 >= 6 else PLAIN
    return disk, IndexScript(disk, Path(directory), seed, keyed=seed % 2 == 1, model=model)


def _check(script: IndexScript, disk: SimulatedDisk, again: str, where: str, *, goes_on: bool = False) -> None:
    try:
        script.check(disk, goes_on=goes_on)
    except ViolationError as violation:
        raise ViolationError(f"{violation} -- {where}; {_repeat(again)}") from violation


def _repeat(again: str) -> str:
    return f"repeat with: python -m tests.index.crashes {again}"


if __name__ == "__main__":
    kind, name, first_seed, *rest = sys.argv[1:]
    if kind == "crash":
        print(explore_crashes(name, int(first_seed), *map(int, rest)))
    elif kind == "second":
        print(explore_second_crashes(name, int(first_seed), int(rest[0])))
    else:
        print(_inject(name, rest[0], int(rest[1]), int(first_seed), rest[2] == "True"))
