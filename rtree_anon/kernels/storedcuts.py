"""Cuts as bundles store them (kernels/bundles.py): what is stored of them, and how much room that takes; taken apart,
and looked at before anything relies on them.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.bundles import bits_of
from rtree_anon.kernels.jit import kernel

SOUND, WRONG_DEPTH, WRONG_AXIS, WRONG_KIND, WRONG_PLACE = 0, 1, 2, 3, 4
MOST_DEPTH = 2**20
_MOST_AXIS = 2**15  # axes are 16-bit numbers


@kernel
def looks_of_cuts(axis, is_set, flipped, looks_at):
    """Axis, kind and turn of every cut as one number."""
    for i in range(axis.shape[0]):
        looks_at[i] = (np.uint64(axis[i]) << np.uint64(2)) | np.uint64(2 * is_set[i] + flipped[i])


@kernel
def bits_of_cuts(depth, looks_at, threshold, left_set):
    """How many bits a cut takes at most, stored with others as what it is above the smallest of them."""
    if depth.shape[0] == 0:
        return 0
    return _bits_between(depth) + _bits_between(looks_at) + _bits_between(threshold) + _bits_between(left_set)


@kernel
def _bits_between(numbers):
    least = numbers[0]
    most = numbers[0]
    for i in range(numbers.shape[0]):
        least = min(least, numbers[i])
        most = max(most, numbers[i])
    return bits_of(np.uint64(most) - np.uint64(least))  # modulo 2**64


@kernel
def take_apart(stored_depth, looks_at, depth, axis, is_set, flipped):
    """Depth, axis, kind and turn of stored cuts; what is out of all range becomes -1."""
    for i in range(looks_at.shape[0]):
        depth[i] = stored_depth[i] if 0 <= stored_depth[i] < MOST_DEPTH else -1
        axis[i] = looks_at[i] >> 2 if 0 <= looks_at[i] < 4 * _MOST_AXIS else -1
        is_set[i] = looks_at[i] & 2 != 0
        flipped[i] = looks_at[i] & 1 != 0


@kernel
def problem_of_cuts(depth, axis, is_set, second, set_axes):
    """SOUND, or why these cannot be the cuts of a tree over axes of which those in set_axes are cut by sets.

    second[i] is the second child of cut i; the first one is deeper by construction.
    """
    for i in range(depth.shape[0]):
        if not 0 <= depth[i] < MOST_DEPTH:
            return WRONG_DEPTH
        if not 0 <= axis[i] < set_axes.shape[0]:
            return WRONG_AXIS
        if is_set[i] != set_axes[axis[i]]:
            return WRONG_KIND
    for i in range(depth.shape[0]):
        if second[i] >= 0 and depth[second[i]] <= depth[i]:
            return WRONG_PLACE
    return SOUND
