"""A picture of the lattice: its nodes by height, and what the search knows about each; a summary where there are many.

The picture is first a list of plain shapes, then written: as SVG by the few lines below, as PNG by matplotlib where
that is installed. Heights grow upward, as in the figures of the papers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from rtree_anon.errors import UsageError
from rtree_anon.lattice.frequency import Levels
from rtree_anon.lattice.graph import edges
from rtree_anon.lattice.result import Result
from rtree_anon.lattice.walk import Status

MAX_DRAWN_NODES = 200

_FILLS = {
    Status.UNSEEN: "#ffffff",
    Status.PRUNED: "#d9d9d9",
    Status.FAILED: "#f4b6a6",
    Status.SATISFIED: "#8fd19e",
    Status.IMPLIED: "#d5efdb",
}
_MEANINGS = {
    Status.UNSEEN: "not looked at",
    Status.PRUNED: "pruned: cannot satisfy",
    Status.FAILED: "checked: does not satisfy",
    Status.SATISFIED: "checked: satisfies",
    Status.IMPLIED: "implied: satisfies",
}
_INK, _MINIMAL, _CHOSEN = "#333333", "#0b5d1e", "#b8860b"


@dataclass(frozen=True)
class Box:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = _INK
    stroke_width: float = 1.0


@dataclass(frozen=True)
class Line:
    """A thin line."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True)
class Text:
    """Text, centred on x or starting at it."""

    x: float
    y: float
    text: str
    centred: bool = True
    size: float = 11.0


@dataclass(frozen=True)
class Picture:
    """Shapes on a canvas; y grows downward."""

    width: float
    height: float
    shapes: tuple[Box | Line | Text, ...]


def draw(result: Result, chosen: Levels | None = None) -> Picture:
    """The lattice of a result, or a summary by height where it has more than `MAX_DRAWN_NODES` nodes."""
    return _nodes(result, chosen) if result.n_nodes <= MAX_DRAWN_NODES else _summary(result, chosen)


def write_picture(picture: Picture, path: str | Path) -> None:
    """Write `.svg`, or `.png` with matplotlib."""
    target = Path(path)
    if target.suffix == ".svg":
        target.write_text(to_svg(picture), encoding="utf-8")
    elif target.suffix == ".png":
        _write_png(picture, target)
    else:
        raise UsageError(f"a picture is written as .svg or .png, not as {target.name!r}")


def to_svg(picture: Picture) -> str:
    """The picture as the text of an SVG file."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width:g}" height="{picture.height:g}" '
        f'viewBox="0 0 {picture.width:g} {picture.height:g}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for shape in picture.shapes:
        if isinstance(shape, Line):
            lines.append(
                f'<line x1="{shape.x1:g}" y1="{shape.y1:g}" x2="{shape.x2:g}" y2="{shape.y2:g}" stroke="#bbbbbb"/>'
            )
        elif isinstance(shape, Box):
            lines.append(
                f'<rect x="{shape.x:g}" y="{shape.y:g}" width="{shape.width:g}" height="{shape.height:g}" rx="3" '
                f'fill="{shape.fill}" stroke="{shape.stroke}" stroke-width="{shape.stroke_width:g}"/>'
            )
        else:
            anchor = "middle" if shape.centred else "start"
            lines.append(
                f'<text x="{shape.x:g}" y="{shape.y:g}" font-size="{shape.size:g}" text-anchor="{anchor}" '
                f'dominant-baseline="central" fill="{_INK}">{escape(shape.text)}</text>'
            )
    return "\n".join([*lines, "</svg>", ""])


def _nodes(result: Result, chosen: Levels | None) -> Picture:
    """Every node as a box, its generalizations above it."""
    low = np.array(result.search.low)
    by_height: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for node in np.ndindex(result.statuses.shape):
        by_height[sum(node)].append(node)
    width = 7.0 * (3 * result.statuses.ndim) + 8
    widest = max(map(len, by_height.values()))
    canvas = max(widest * (width + 12) + 40, 640)
    top = max(by_height)
    place = {
        node: (canvas / 2 + (i - (len(nodes) - 1) / 2) * (width + 12), 60 + (top - height) * 58)
        for height, nodes in by_height.items()
        for i, node in enumerate(nodes)
    }
    shapes: list[Box | Line | Text] = [
        Line(*place[start], *place[end]) for start, end in edges(np.ones(result.statuses.shape, dtype=bool))
    ]
    minimal = set(result.minimal)
    for node, (x, y) in place.items():
        levels = tuple((np.array(node) + low).tolist())
        stroke = _CHOSEN if levels == chosen else _MINIMAL if levels in minimal else _INK
        thick = 4.0 if levels == chosen else 2.5 if levels in minimal else 1.0
        fill = _FILLS[Status(int(result.statuses[node]))]
        shapes.append(Box(x - width / 2, y - 13, width, 26, fill, stroke, thick))
        shapes.append(Text(x, y, ",".join(map(str, levels))))
    return _framed(result, chosen, shapes, canvas, 60 + top * 58 + 40)


def _summary(result: Result, chosen: Levels | None) -> Picture:
    """One bar per height, divided by status."""
    heights = np.indices(result.statuses.shape).sum(axis=0)
    top = int(heights.max())
    counts = np.zeros((top + 1, len(Status)), dtype=np.int64)
    np.add.at(counts, (heights.ravel(), result.statuses.ravel()), 1)
    canvas, left = 760.0, 70.0
    scale = (canvas - left - 190) / counts.sum(axis=1).max()
    lowest = sum(result.search.low)
    n_minimal = np.bincount([sum(levels) - lowest for levels in result.minimal], minlength=top + 1)
    shapes: list[Box | Line | Text] = []
    for height in range(top + 1):
        x, y = left, 60 + (top - height) * 24.0
        shapes.append(Text(12, y, f"height {height + lowest}", centred=False))
        for status in Status:
            width = counts[height, status] * scale
            if width:
                shapes.append(Box(x, y - 9, width, 18, _FILLS[status]))
                x += width
        note = f"{counts[height].sum():,} nodes"
        if n_minimal[height]:
            note += f", {n_minimal[height]} minimal"
        shapes.append(Text(x + 8, y, note, centred=False))
    return _framed(result, chosen, shapes, canvas, 60 + top * 24 + 40)


def _framed(
    result: Result, chosen: Levels | None, shapes: list[Box | Line | Text], width: float, height: float
) -> Picture:
    """Title above, legend below."""
    search = result.search
    title = f"{result.algorithm}: {search.condition.name}, {', '.join(result.names)}"
    checked = f"{result.nodes_checked:,} checked" + (" (with subsets)" if result.algorithm.startswith("incog") else "")
    note = f"{result.n_nodes:,} nodes, {checked}, {len(result.minimal):,} minimal"
    legend: list[Box | Line | Text] = [Text(12, 16, title, centred=False, size=13), Text(12, 34, note, centred=False)]
    marks = [(_FILLS[status], _INK, 1.0, _MEANINGS[status]) for status in Status]
    marks.append(("#ffffff", _MINIMAL, 2.5, "minimal"))
    if chosen is not None:
        marks.append(("#ffffff", _CHOSEN, 4.0, f"chosen: {','.join(map(str, chosen))}"))
    for i, (fill, stroke, thick, meaning) in enumerate(marks):
        x, y = 14 + (i % 3) * 205.0, height + (i // 3) * 24.0
        legend += [Box(x, y - 8, 22, 16, fill, stroke, thick), Text(x + 30, y, meaning, centred=False)]
    return Picture(width, height + 24.0 * ((len(marks) + 2) // 3) + 8, (*shapes, *legend))


def _write_png(picture: Picture, path: Path) -> None:
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle
    except ImportError:
        raise UsageError("PNG pictures need matplotlib (pip install 'rtree-anon[plot]'); SVG does not") from None
    figure = Figure(figsize=(picture.width / 100, picture.height / 100), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, picture.width), ylim=(picture.height, 0))
    axes.set_axis_off()
    for order, shape in enumerate(picture.shapes):
        if isinstance(shape, Line):
            axes.plot([shape.x1, shape.x2], [shape.y1, shape.y2], color="#bbbbbb", linewidth=0.7, zorder=order)
        elif isinstance(shape, Box):
            corner = (shape.x, shape.y)
            axes.add_patch(
                Rectangle(
                    corner,
                    shape.width,
                    shape.height,
                    facecolor=shape.fill,
                    edgecolor=shape.stroke,
                    linewidth=shape.stroke_width * 0.7,
                    zorder=order,
                )
            )
        else:
            align = "center" if shape.centred else "left"
            axes.text(
                shape.x, shape.y, shape.text, size=shape.size * 0.7, ha=align, va="center", color=_INK, zorder=order
            )
    figure.savefig(path)
