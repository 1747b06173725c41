"""What every benchmark shares: repeated timing in turns, the environment, and results kept as JSON.

The machine may be noisy, so what is compared is timed in turns within one run (A B C A B C …), the median is taken,
and the conclusion is a ratio.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("numpy", "numba", "pyarrow", "scipy", "rtree-anon")


def timed_in_turns(tasks: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, dict[str, Any]]:
    """Seconds of every task: one warm-up each, then `repeats` rounds in turn; median, fastest and all."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)
    return {
        name: {"median": statistics.median(values), "fastest": min(values), "all": values}
        for name, values in seconds.items()
    }


def environment() -> dict[str, Any]:
    """Where and with what a result was measured."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "packages": packages,
    }


def peak_memory_mb() -> float:
    """Peak resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def keep(name: str, result: Mapping[str, Any]) -> Path:
    """Write a result to bench/results/<name>.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"environment": environment(), **result}, indent=2) + "\n")
    return path
