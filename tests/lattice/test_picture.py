"""The picture of a lattice: every node once, all marks, and a summary for large lattices."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rtree_anon import lattice
from rtree_anon.errors import UsageError
from rtree_anon.lattice import picture
from rtree_anon.lattice.picture import Box, Line, Text, draw, to_svg, write_picture
from tests.lattice.paper_tables import FIGURE_6, FIGURE_6_HIERARCHIES, PATIENT_HIERARCHIES, PATIENTS


def test_every_node_and_edge_is_drawn_once() -> None:
    result = lattice.incognito(PATIENTS, PATIENT_HIERARCHIES, k=2)
    shapes = draw(result, (1, 1, 0)).shapes
    labels = [shape.text for shape in shapes if isinstance(shape, Text) and re.fullmatch(r"\d,\d,\d", shape.text)]
    assert sorted(labels) == sorted(f"{b},{s},{z}" for b in range(2) for s in range(2) for z in range(3))
    assert sum(isinstance(shape, Line) for shape in shapes) == 20, "edges of a 2 x 2 x 3 grid"
    thick = [shape for shape in shapes if isinstance(shape, Box) and shape.stroke_width == 2.5]
    assert len(thick) == 2 + 1, "two minimal nodes beside the chosen one, and the legend"


def test_higher_nodes_are_drawn_higher() -> None:
    result = lattice.incognito(PATIENTS, PATIENT_HIERARCHIES, k=2)
    place = {shape.text: shape.y for shape in draw(result).shapes if isinstance(shape, Text)}
    assert place["1,1,2"] < place["1,1,0"] < place["0,0,1"] < place["0,0,0"]


def test_svg_is_well_formed_and_escapes_names(tmp_path: Path) -> None:
    renamed = PATIENTS.rename_columns(["a<b & c", "Sex", "Zipcode"])
    hierarchies = dict(zip(renamed.column_names, PATIENT_HIERARCHIES.values(), strict=True))
    result = lattice.incognito(renamed, hierarchies, k=2)
    file = tmp_path / "lattice.svg"
    write_picture(draw(result), file)
    assert "a<b & c" in "".join(ElementTree.parse(file).getroot().itertext())


def test_large_lattices_are_summed_up_by_height(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MAX_DRAWN_NODES", 100)
    result = lattice.samarati(FIGURE_6, FIGURE_6_HIERARCHIES, k=2)
    texts = [shape.text for shape in draw(result).shapes if isinstance(shape, Text)]
    counted = [int(found[1]) for text in texts if (found := re.match(r"(\d+) nodes(, \d minimal)?$", text))]
    assert sum(counted) == result.n_nodes == 180
    assert "31 nodes, 1 minimal" in texts


def test_png_and_unknown_formats(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = draw(lattice.incognito(PATIENTS, PATIENT_HIERARCHIES, k=2))
    write_picture(drawn, tmp_path / "lattice.png")
    assert (tmp_path / "lattice.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    with pytest.raises(UsageError, match=r"\.svg or \.png"):
        write_picture(drawn, tmp_path / "lattice.gif")
    assert to_svg(drawn).startswith("<svg")
