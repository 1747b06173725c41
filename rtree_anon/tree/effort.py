"""The dial between speed and quality: what `fast`, `balanced` and `best` mean to the kernels.

The figures were chosen by measuring certainty and time on the Adult table and on Agrawal's data (`bench/quality.py`,
`bench/speed.py`); `Effort` in kernels/cutting.py says what each one does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import UsageError
from rtree_anon.kernels.cutting import Effort

QUALITIES = ("fast", "balanced", "best")


def effort_for(quality: str, k: int, weights: NDArray[np.float64]) -> Effort:
    """The effort of a grade, for a tree at this k over axes of these weights (those that have more than one value)."""
    n_axes = float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 1.0  # fewer count where weights differ
    growth = -0.9 / n_axes
    if quality == "fast":
        return Effort(8 * k, 1, 2**62, 0, 32, 0, 0, 0, growth)
    if quality == "balanced":
        return Effort(max(8 * k, 96), 3, 4096, 64, 256, 8, 0, 0, growth)
    if quality == "best":
        return Effort(16 * k, len(weights), 0, 0, 512, 16, 8 * k, 3, growth)
    raise UsageError(f"quality={quality!r} is not known; choose one of {', '.join(QUALITIES)}.")
