"""No kernel reads or writes outside its arrays: every kind of axis, every grade, in a process with numba's checks on.

Compiled without checks (as always else), such an access is silent. With them it is an IndexError.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

BUILDS = """
import numba
import numpy as np
from rtree_anon.kernels.boxes import widths_of_boxes
from rtree_anon.kernels.jit import _cache_directory
from rtree_anon.kernels.multiplicity import log_multiplicities
from rtree_anon.tree import QUALITIES, build_tree
from rtree_anon.tree.build import METHODS, build_mondrian
from tests.tables import FLAVOURS, make_table

@numba.njit
def beyond(values):
    return values[values.shape[0]]

try:
    beyond(np.zeros(3))
except IndexError:
    print("checked", str(_cache_directory("boxes")).endswith("-checked"))

def use(tree):
    for k1 in (1, 7, 300, 10**6):
        for method in METHODS:
            tree.group_boxes(tree.group(k1, method), compact=False)
    tree.group_boxes(tree.group(5))
    boxes = tree.boxes
    widths_of_boxes(tree.grid.gauge, boxes.lo, boxes.hi, boxes.mask, np.empty(tree.n_leaves))
    log_multiplicities(tree.rows, tree.starts)

n_built = 0
shapes = [(1, 1, 0.0), (9, 5, 0.0), (10, 5, 0.0), (400, 1, 0.0), (9000, 3, 0.0), (9000, 20, 0.95)]
for seed, (n, k, duplicates) in enumerate(shapes):
    for flavours in (FLAVOURS, ["set"], ["limits", "limits"], ["linear", "set", "tree"]):
        gaps = [0.1 if a % 2 else 0.0 for a in range(len(flavours))]
        table = make_table(seed, n, flavours, gaps=gaps, duplicates=duplicates)
        for quality in QUALITIES:
            for bias in ((), (0,)):
                use(build_tree(table.codes, table.space, k, quality=quality, threads=2, bias=bias))
                n_built += 1
        use(build_mondrian(table.codes, table.space, k))
print("built", n_built)
"""


def test_no_kernel_leaves_its_arrays(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BUILDS],
        cwd=ROOT,
        env={**kept, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["checked True", "built 144"]
