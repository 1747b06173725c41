"""The dial between speed and quality: what `fast`, `balanced` and `best` mean to the kernels.

The figures were chosen by measuring certainty and time on the Adult table, on Agrawal's data and on Lands End's
(`bench/quality.py`, `bench/speed.py`, `bench/updates.py`); `Effort` in kernels/blocks.py says what each one does.
"""

from __future__ import annotations

from typing import NamedTuple

from rtree_anon.errors import UsageError
from rtree_anon.kernels.blocks import Effort

QUALITIES = ("fast", "balanced", "best")


class Upkeep(NamedTuple):
    """Which subtrees are cut again after inserts: time against leaves that are not full. All are numbers of rows."""

    region_rows: int  # that a subtree may have
    rows_per_leaf: int  # that may be cut again, which would not be otherwise, for each leaf more


def effort_for(quality: str, k: int, n_axes: int) -> Effort:
    """The effort of a grade, for a tree at this k over this many axes (those that have more than one value)."""
    # Weights do not matter: the best boxes are narrower on heavy axes by a factor that is the same at every size.
    growth = -0.7 / max(n_axes, 1)  # nearer to -1/d, thin slices win on uniform data and ruin the tree
    if quality == "fast":
        return Effort(16 * k, 0, 2**62, 0, 32, 0, 0, 0, growth)
    if quality == "balanced":
        return Effort(max(8 * k, 64), 2, 4096, 64, 256, 8, 0, 0, growth)
    if quality == "best":
        return Effort(16 * k, n_axes, 0, 0, 2048, 32, 8 * k, 3, growth)
    raise UsageError(f"quality={quality!r} is not known; choose one of {', '.join(QUALITIES)}.")


def upkeep_for(quality: str, k: int) -> Upkeep:
    """The upkeep of a grade, by which batch after batch stays within 3 % of a fresh load (`bench.updates growth`).

    At `best` a fresh load is better than many small repairs, so that more has to be cut again.
    """
    return Upkeep(32 * k, 9 * k) if quality == "best" else Upkeep(24 * k, 5 * k)
