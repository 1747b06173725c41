"""The dial between speed and quality: what `fast`, `balanced` and `best` mean to the kernels.

The figures were chosen by measuring certainty and time on the Adult table and on Agrawal's data (`bench/quality.py`,
`bench/speed.py`); `Effort` in kernels/blocks.py says what each one does.
"""

from __future__ import annotations

from rtree_anon.errors import UsageError
from rtree_anon.kernels.blocks import Effort

QUALITIES = ("fast", "balanced", "best")


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
