"""The first cuts of a bulk load, from a sample: which buckets there are, and in which order they come.

A sample of a few dozen rows per bucket is cut by the same kernels as everything else (grade and all), so the top of the
index is as good as if all rows had been looked at: large nodes are judged by samples there, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rtree_anon.index.cuts import Cuts, walked
from rtree_anon.kernels.constraint import Constraint
from rtree_anon.space import Space
from rtree_anon.tree.build import Boxes, build_tree
from rtree_anon.tree.grid import needs_ranks

SAMPLE_PER_BUCKET = 48
_LEAF_FILL = 1.4  # rows of an average leaf, in units of k: leaves have k to 2k - 1 rows


@dataclass(frozen=True, eq=False)
class Seed:
    """Cuts between buckets, and the boxes of the samples in them (None where kernel codes differ by bucket)."""

    cuts: Cuts
    boxes: Boxes | None

    def box_before(self, bucket: int) -> Boxes | None:
        """The box that comes before a bucket in the order."""
        if self.boxes is None or bucket == 0:
            return None
        before = slice(bucket - 1, bucket)
        return Boxes(self.boxes.lo[before], self.boxes.hi[before], self.boxes.mask[before])


def seed_from(
    sample: NDArray[Any],
    space: Space,
    n_buckets: int,
    quality: str,
    threads: int | None,
    seed: int,
    constraint: Constraint | None = None,
) -> Seed:
    """Cuts for about `n_buckets` buckets from coded rows sample[row, axis]; both sides of each satisfy `constraint`."""
    if n_buckets <= 1 or len(sample) < 2:
        return Seed(Cuts.none(), None)
    least = max(int(len(sample) / (n_buckets * _LEAF_FILL)), 1)
    tree = build_tree(sample, space, least, quality=quality, threads=threads, seed=seed, constraint=constraint)
    order, cuts = walked(tree, None)
    if any(needs_ranks(axis) for axis in space.axes):
        return Seed(cuts, None)
    boxes = tree.boxes
    return Seed(cuts, Boxes(boxes.lo[order], boxes.hi[order], boxes.mask[order]))
