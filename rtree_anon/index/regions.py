"""Regions of leaves: what the cuts above a leaf leave of the domain. Uncompacted releases show them.

Regions of neighbours touch and together they are the whole domain; the rows of a leaf lie somewhere inside.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.cuts import Cuts
from rtree_anon.io.coding import Coder, ContinuousCoder
from rtree_anon.kernels.regions import restrict_regions
from rtree_anon.release.bounds import MISSING_BIT, Regions, codes_below
from rtree_anon.space import Kind, Space, missing_code

_FULL_FLOAT_BITS = 64


def whole_domain(space: Space, dtype: Any) -> Regions:
    """One region: the domain, and missing values where there are any. Their code is that of `dtype`."""
    missing, d = missing_code(dtype), len(space)
    region = Regions(np.zeros((1, d), np.int64), np.zeros((1, d), np.int64), np.zeros((1, d), np.uint64))
    for number, axis in enumerate(space.axes):
        if axis.kind == Kind.SET:
            region.mask[0, number] = np.uint64((1 << axis.n_categories) - 1)
            region.mask[0, number] |= MISSING_BIT if axis.has_missing else np.uint64(0)
            continue
        region.lo[0, number] = missing if axis.has_missing else axis.lo
        region.hi[0, number] = axis.hi if axis.lo <= axis.hi else missing
    return region


def divided(region: Regions, cuts: Cuts) -> Regions:
    """The regions of the things that cuts separate, inside the one region that is given."""
    n = len(cuts) + 1
    regions = Regions(
        np.repeat(region.lo, n, axis=0), np.repeat(region.hi, n, axis=0), np.repeat(region.mask, n, axis=0)
    )
    looks = (cuts.axis, cuts.is_set, cuts.flipped, cuts.threshold, cuts.left_set)
    restrict_regions(*cuts.links, *looks, regions.lo, regions.hi, regions.mask)
    return regions


def joined_regions(parts: Sequence[Regions]) -> Regions:
    """Regions one after the other."""
    return Regions(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("lo", "hi", "mask")))


def with_own_ends(regions: Regions, space: Space, coders: Sequence[Coder]) -> Regions:
    """Ends of regions of floats as floats of the attribute's own type, where that is narrower than a code."""
    hi: NDArray[np.int64] = regions.hi.copy()
    for number, (axis, coder) in enumerate(zip(space.axes, coders, strict=True)):
        if isinstance(coder, ContinuousCoder) and coder.data_type.bit_width < _FULL_FLOAT_BITS:
            inner = (hi[:, number] >= axis.lo) & (hi[:, number] < axis.hi)  # made by a cut at the next code
            hi[inner, number] = codes_below(coder, hi[inner, number] + 1)
    return Regions(regions.lo, hi, regions.mask)
