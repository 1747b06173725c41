"""`rtree-anon report`: a page that says what the files hold, and says so where they break a promise."""

from __future__ import annotations

import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rtree_anon.cli.report_page import size_shares
from tests.cli.running import run


class Page(HTMLParser):
    """The words of a page; fails where a tag is closed that was not opened."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.words = ""
        self.open: list[str] = []
        self.feed(path.read_text("utf-8"))
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data + " "


@pytest.fixture
def published(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    people = pa.table({"age": rng.integers(20, 60, 300), "<b>": rng.choice(["x", "y"], 300), "ill": ["a", "b"] * 150})
    pq.write_table(people, tmp_path / "people.parquet")
    done = run("anonymize", tmp_path / "people.parquet", "-q", "age,<b>", "-s", "ill", "-k", "3,9", "-l", "2", "-o",
               tmp_path / "out")  # fmt: skip
    assert done.code == 0, done.err
    return tmp_path / "out"


def test_the_page_has_the_figures_of_every_release(published: Path) -> None:
    page = published.parent / "report.html"
    done = run("report", published, "-o", page)
    assert (done.code, done.err) == (0, "") and "2 releases were checked" in done.out
    words = Page(page).words
    for expected in ("300 rows", "k3.parquet", "k9.parquet", "DistinctLDiversity(2, on='ill')", "Sensitive: ill",
                     "every group keeps what its release promises", "What is not promised"):  # fmt: skip
        assert expected in words
    assert "<b>" in words and "<b>" not in page.read_text()  # a name is text, whatever it looks like
    facts = json.loads((published / "manifest.json").read_text())
    assert all(digest["sha256"] in words for digest in facts["files"].values())
    assert "http" not in page.read_text()  # nothing is loaded from anywhere


def test_a_page_that_exists_is_not_replaced(published: Path) -> None:
    page = published.parent / "report.html"
    page.write_text("mine")
    done = run("report", published, "-o", page)
    assert done.code == 2 and "exists already" in done.sentence and page.read_text() == "mine"


def test_a_file_that_was_changed_is_refused(published: Path) -> None:
    with (published / "k3.parquet").open("ab") as file:
        file.write(b"more")
    done = run("report", published, "-o", published.parent / "report.html")
    assert done.code == 3 and "is not the one that was published" in done.sentence
    assert not (published.parent / "report.html").exists()


def test_a_release_that_breaks_its_promise_is_named(published: Path) -> None:
    """The manifest is whole and says k = 3, and a row of the file stands alone."""
    table = pq.read_table(published / "k3.parquet")
    lonely = table.slice(0, 1).set_column(0, "age_lo", pa.array([1], table.schema.field("age_lo").type))
    pq.write_table(pa.concat_tables([table, lonely]), published / "k3.parquet")
    manifest = json.loads((published / "manifest.json").read_text())
    content = (published / "k3.parquet").read_bytes()
    manifest["files"]["k3.parquet"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    del manifest["manifest_sha256"]

    def canonical(facts: object) -> bytes:
        return (json.dumps(facts, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode()

    manifest["manifest_sha256"] = hashlib.sha256(canonical(manifest)).hexdigest()
    (published / "manifest.json").write_bytes(canonical(manifest))
    page = published.parent / "report.html"
    done = run("report", published, "-o", page, "--json")
    problems = " ".join(json.loads(done.out)["problems"])
    assert done.code == 1 and "k3.parquet" in problems and "k9.parquet" not in problems and "301 rows" in problems
    assert "Do not publish" in Page(page).words


@pytest.mark.parametrize("what", ["missing", "file", "empty"])
def test_what_is_no_directory_of_releases(tmp_path: Path, what: str) -> None:
    place = tmp_path / "place"
    if what == "file":
        place.write_text("")
    if what == "empty":
        place.mkdir()
    done = run("report", place, "-o", tmp_path / "report.html")
    assert done.code in (2, 3) and done.sentence and not (tmp_path / "report.html").exists()


def test_shares_of_rows_by_group_size() -> None:
    shares = size_shares(np.array([5, 5, 6, 10, 100]), 5)
    assert shares.sum() == pytest.approx(1) and shares[0] == pytest.approx(10 / 126)
    assert shares[1] == pytest.approx(6 / 126) and shares[-1] == pytest.approx(100 / 126)
