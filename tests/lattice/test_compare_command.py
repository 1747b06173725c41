"""`rtree-anon compare`: one row per method and k, the same measures for all, a plot."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
import pytest
from click.testing import CliRunner

from rtree_anon.cli.compare import command
from rtree_anon.datasets import generate
from rtree_anon.errors import UsageError


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("compare") / "people.csv"
    pyarrow.csv.write_csv(generate("patients", 400, seed=1), file)
    return file


def test_every_method_is_measured_alike(people: Path, tmp_path: Path) -> None:
    plot = tmp_path / "comparison.svg"
    arguments = [str(people), "-q", "age,sex", "-k", "5,20", "--queries", "20", "--plot", str(plot), "--json"]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    facts = json.loads(done.stdout)
    rows = {(row["k"], row["method"]): row for row in facts["rows"]}
    assert set(rows) == {(k, name) for k in (5, 20) for name in ("R+-tree", "Mondrian", "full-domain")}
    for row in rows.values():
        assert 0 <= row["certainty"] <= 1 and row["discernibility"] >= 400 * row["k"] and row["query_error"] >= 0
    for k in (5, 20):
        assert rows[k, "R+-tree"]["certainty"] < rows[k, "full-domain"]["certainty"]
    assert 0 < facts["queries"] <= 20
    assert "<svg" in plot.read_text()


def test_in_words_and_wrong_plots(people: Path) -> None:
    done = CliRunner().invoke(command, [str(people), "-q", "age,sex", "-k", "5", "--queries", "0"])
    assert done.exit_code == 0 and "full-domain" in done.stdout and "query error" in done.stdout
    wrong = CliRunner().invoke(command, [str(people), "-q", "age", "-k", "5", "--plot", "x.gif"])
    assert isinstance(wrong.exception, UsageError)
