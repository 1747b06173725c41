"""Cuts as bundles store them (kernels/bundles.py), taken apart and looked at before anything relies on them."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from rtree_anon.kernels.jit import kernel

SOUND, WRONG_DEPTH, WRONG_AXIS, WRONG_KIND, WRONG_PLACE = 0, 1, 2, 3, 4
MOST_DEPTH = 2**20
_MOST_AXIS = 2**15  # axes are 16-bit numbers


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
