"""Slow, obvious twins of the kernels: plain Python over rows of the space's own codes, written from the definitions.

Nothing here knows kernel codes, masks, gauges or ranks: a width is measured on the values that occur, a cut is two
lists of rows, a tree is nested nodes. A twin that agrees with a kernel therefore also checks the way from codes to
kernel codes.

Every twin that chooses (the nearer child, the widest axis) states by how much one choice beats another, so that tests
can let a tie of rounded sums go either way.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from rtree_anon.space import Axis, Kind, Space

Row = tuple[int, ...]
Rows = Sequence[Row]


# --- widths (Definition 4 of the R+-tree paper) -------------------------------------------------------------------


def float_of(code: int) -> Fraction:
    """The value of a FLOAT code: negative numbers have their bits below the sign bit reversed, so that codes sort."""
    bits = code if code >= 0 else code ^ (2**63 - 1)
    return Fraction(struct.unpack("<d", struct.pack("<q", bits))[0])


def code_of_float(value: float) -> int:
    bits = int(struct.unpack("<q", struct.pack("<d", value))[0])
    return bits if bits >= 0 else bits ^ (2**63 - 1)


def axis_share(axis: Axis, values: Sequence[int], missing: int) -> Fraction:
    """How much of the axis is covered by what would be released for these values: 0 for one value, 1 for everything."""
    distinct = set(values)
    if len(distinct) == 1:
        return Fraction(0)
    if missing in distinct:
        return Fraction(1)
    lo, hi = min(distinct), max(distinct)
    if axis.kind == Kind.FLOAT:
        return (float_of(hi) - float_of(lo)) / (float_of(axis.hi) - float_of(axis.lo))
    if axis.kind == Kind.LINEAR:
        return Fraction(hi - lo, axis.hi - axis.lo)
    if axis.kind == Kind.SPAN:
        return Fraction(hi - lo, axis.n_categories - 1)
    if axis.kind == Kind.SET:
        return Fraction(len(distinct) - 1, axis.n_categories - 1)
    return Fraction(leaves_below_common_ancestor(axis, distinct) - 1, axis.n_categories - 1)


def leaves_below_common_ancestor(axis: Axis, leaves: set[int]) -> int:
    """Climb the hierarchy until all leaves have the same ancestor; the leaves that this one has below it."""
    assert axis.ancestors is not None
    for level in axis.ancestors.tolist():
        ancestors = {level[leaf] for leaf in leaves}
        if len(ancestors) == 1:
            return int(level.count(ancestors.pop()))
    return axis.n_categories


def axis_width(space: Space, a: int, rows: Rows, missing: int) -> float:
    axis = space.axes[a]
    total_weight = sum(Fraction(other.weight) for other in space.axes)
    return float(Fraction(axis.weight) * axis_share(axis, [row[a] for row in rows], missing) / total_weight)


def width(space: Space, rows: Rows, missing: int) -> float:
    """The width of the tight box around rows, in units of the certainty penalty."""
    return sum(axis_width(space, a, rows, missing) for a in range(len(space)))


# --- cuts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    left: list[Row]
    right: list[Row]


def cuts_of_axis(space: Space, a: int, rows: Rows, k: int, missing: int) -> Iterator[Cut]:
    """Every cut of the axis that leaves k rows on both sides: between neighbouring values, missing before all others;
    categories by their frequency in these rows (the most frequent first, then by code, missing last)."""
    count = Counter(row[a] for row in rows)
    if space.axes[a].kind == Kind.SET:
        ordered = sorted(count, key=lambda code: (-count[code], code == missing, code))
    else:
        ordered = sorted(count)
    for n_left in range(1, len(ordered)):
        values = set(ordered[:n_left])
        left = [row for row in rows if row[a] in values]
        if k <= len(left) <= len(rows) - k:
            yield Cut(left, [row for row in rows if row[a] not in values])


def cost_of_cut(space: Space, cut: Cut, k: int, growth: float, missing: int) -> float:
    return sum(
        len(side) * max(len(side) // k, 1) ** growth * width(space, side, missing) for side in (cut.left, cut.right)
    )


def can_be_cut(space: Space, a: int, rows: Rows, k: int, missing: int) -> bool:
    return any(True for _ in cuts_of_axis(space, a, rows, k, missing))


def median_cut(space: Space, a: int, rows: Rows, missing: int) -> tuple[int, int]:
    """Mondrian's cut of one axis: the cut between two values that is nearest to the middle, as the sizes of its sides.

    Categories are taken in the order of their codes, missing last; (0, n) where the axis has one value only.
    """
    last_if_missing = space.axes[a].kind == Kind.SET
    ordered = sorted(rows, key=lambda row: (last_if_missing and row[a] == missing, row[a]))
    places = [i for i in range(1, len(ordered)) if ordered[i - 1][a] != ordered[i][a]]
    left = min(places, key=lambda i: abs(2 * i - len(rows)), default=0)
    return left, len(rows) - left


# --- expected widths (kernels/forecast.py) ------------------------------------------------------------------------


def expected_range(positions: Sequence[float], counts: Sequence[int], n_drawn: int) -> float:
    """E[max - min] of n_drawn positions, drawn with replacement; positions ascend."""
    total = sum(counts)
    at_most = [sum(counts[: i + 1]) / total for i in range(len(counts))]
    at_least = [sum(counts[i:]) / total for i in range(len(counts))]
    largest = sum(p * (f**n_drawn - g**n_drawn) for p, f, g in zip(positions, at_most, [0.0, *at_most], strict=False))
    smallest = sum(
        p * (f**n_drawn - g**n_drawn) for p, f, g in zip(positions, at_least, [*at_least[1:], 0.0], strict=True)
    )
    return largest - smallest


def expected_distinct(counts: Sequence[int], n_drawn: int) -> float:
    """E[number of distinct categories] of n_drawn rows, drawn with replacement."""
    total = sum(counts)
    return sum(1 - (1 - count / total) ** n_drawn for count in counts)


# --- the tree above the leaves ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """An inner node; its children are inner nodes or numbers of leaves."""

    number: int
    left: Node | int
    right: Node | int


def tree_of_depths(depths: Sequence[int], first: int = 0) -> Node | int:
    """The tree whose in-order listing of inner nodes has these depths; `first` is the number of its first leaf."""
    if not depths:
        return first
    at = min(range(len(depths)), key=lambda i: depths[i])
    return Node(first + at, tree_of_depths(depths[:at], first), tree_of_depths(depths[at + 1 :], first + at + 1))


def leaves_of(node: Node | int) -> list[int]:
    return [node] if isinstance(node, int) else leaves_of(node.left) + leaves_of(node.right)


def inner_nodes(node: Node | int) -> Iterator[Node]:
    if isinstance(node, Node):
        yield node
        yield from inner_nodes(node.left)
        yield from inner_nodes(node.right)


def leaf_order(
    root: Node | int, space: Space, rows_of_leaf: Sequence[Rows], missing: int, in_ties: Sequence[int]
) -> list[int]:
    """The leaves, at each inner node the child first whose box grows less by the union with the leaf just emitted.

    Where both grow the same, to rounding, the child that comes first in `in_ties`.
    """
    order: list[int] = []

    def rows_below(node: Node | int) -> list[Row]:
        return [row for leaf in leaves_of(node) for row in rows_of_leaf[leaf]]

    def growth(node: Node | int) -> float:
        below = rows_below(node)
        return width(space, [*below, *rows_of_leaf[order[-1]]], missing) - width(space, below, missing)

    def walk(node: Node | int) -> None:
        if isinstance(node, int):
            order.append(node)
            return
        children = [node.left, node.right]
        if order:
            by_left, by_right = growth(node.left), growth(node.right)
            if abs(by_left - by_right) < 1e-9:
                children.sort(key=lambda child: min(in_ties.index(leaf) for leaf in leaves_of(child)))
            elif by_right < by_left:
                children.reverse()
        for child in children:
            walk(child)

    walk(root)
    return order


# --- groups of leaves ---------------------------------------------------------------------------------------------


def greedy_scan(order: Sequence[int], sizes: Sequence[int], k1: int) -> list[list[int]]:
    """Figure 5 of the paper: add leaves until the group has k1 rows; what is left over joins the last group."""
    groups: list[list[int]] = []
    group: list[int] = []
    for leaf in order:
        group.append(leaf)
        if sum(sizes[member] for member in group) >= k1:
            groups.append(group)
            group = []
    if groups:
        groups[-1].extend(group)
    return groups


def hierarchical_scan(node: Node | int, sizes: Sequence[int], k1: int) -> list[list[int]]:
    """Divide a node while both of its children have k1 rows."""

    def n_rows(part: Node | int) -> int:
        return sum(sizes[leaf] for leaf in leaves_of(part))

    if isinstance(node, Node) and n_rows(node.left) >= k1 and n_rows(node.right) >= k1:
        return hierarchical_scan(node.left, sizes, k1) + hierarchical_scan(node.right, sizes, k1)
    return [leaves_of(node)] if n_rows(node) >= k1 else []


def blocks_of(order: Sequence[int], sizes: Sequence[int], rows_per_block: float) -> list[list[int]]:
    """Runs of the order with at least so many rows; what is left over joins the last run."""
    blocks: list[list[int]] = []
    block: list[int] = []
    for leaf in order:
        block.append(leaf)
        if sum(sizes[member] for member in block) >= rows_per_block:
            blocks.append(block)
            block = []
    if blocks:
        blocks[-1].extend(block)
    return blocks


def least_penalty(
    blocks: Sequence[Sequence[int]], space: Space, rows_of_leaf: Sequence[Rows], k1: int, missing: int
) -> float:
    """The least certainty penalty of all divisions of blocks into runs of k1 rows or more: every last run is tried."""
    rows_of_block = [[row for leaf in block for row in rows_of_leaf[leaf]] for block in blocks]
    best = [0.0]
    for end in range(1, len(blocks) + 1):
        found = float("inf")
        for start in range(end):
            rows = [row for block in rows_of_block[start:end] for row in block]
            if len(rows) >= k1 and best[start] < float("inf"):
                found = min(found, best[start] + penalty(space, rows, missing))
        best.append(found)
    return best[-1]


def penalty(space: Space, rows: Rows, missing: int) -> float:
    """The certainty penalty of rows that are released as one group."""
    return len(rows) * width(space, rows, missing)


def least_penalty_of_all_partitions(
    order: Sequence[int], space: Space, rows_of_leaf: Sequence[Rows], k1: int, missing: int
) -> float:
    """The same for single leaves, without any idea: all 2**(n-1) ways to put bars between n leaves. For tiny inputs."""
    best = float("inf")
    for bars in range(2 ** (len(order) - 1)):
        ends = [0, *(i + 1 for i in range(len(order) - 1) if bars >> i & 1), len(order)]
        groups = [[row for leaf in order[s:e] for row in rows_of_leaf[leaf]] for s, e in pairwise(ends)]
        if all(len(group) >= k1 for group in groups):
            best = min(best, sum(penalty(space, group, missing) for group in groups))
    return best


def runs_of_bytes(content: bytes, n_bytes: int) -> list[tuple[int, int]]:
    """(number, length) of every run of Parquet's RLE encoding, byte by byte; bit-packed groups are not expected."""
    found, at = [], 0
    while at < len(content):
        head = shift = 0
        while True:
            byte = content[at]
            at += 1
            head += (byte % 128) * 2**shift
            shift += 7
            if byte < 128:
                break
        assert head % 2 == 0
        found.append((int.from_bytes(content[at : at + n_bytes], "little"), head // 2))
        at += n_bytes
    return found


def unpacked_lz4(block: bytes) -> bytes:
    """What an LZ4 block stands for, byte by byte; its end has to be as lz4_Block_format.md asks for."""
    found, at, last_copy = bytearray(), 0, None

    def length(nibble: int, at: int) -> tuple[int, int]:
        while nibble >= 15:
            nibble, at = nibble + block[at], at + 1
            if block[at - 1] < 255:
                break
        return nibble, at

    while True:
        token = block[at]
        n_literals, at = length(token // 16, at + 1)
        found += block[at : at + n_literals]
        at += n_literals
        if at == len(block):
            assert token % 16 == 0  # nothing is copied at the end
            assert last_copy is None or (n_literals >= 5 and last_copy <= len(found) - 12)
            return bytes(found)
        offset, last_copy = int.from_bytes(block[at : at + 2], "little"), len(found)
        n_copied, at = length(token % 16, at + 2)
        assert 0 < offset <= len(found)
        for _ in range(n_copied + 4):
            found.append(found[-offset])


def cut_near(codes: Sequence[int], k: int, twice: int) -> tuple[int, int | None]:
    """How many codes are left of the cut nearest to twice / 2 of them, k on both sides, and the first one on the right.

    The smaller left side where two are as near; (0, None) where there is no cut.
    """
    ordered = sorted(codes)
    places = [at for at in range(k, len(codes) - k + 1) if 0 < at < len(codes) and ordered[at - 1] != ordered[at]]
    if not places:
        return 0, None
    at = min(places, key=lambda place: (abs(2 * place - twice), place))
    return at, ordered[at]
