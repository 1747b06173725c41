"""Bad input gets one clear sentence with file, row and column, exit code 1 or 2, and leaves no partial output."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import rtree_anon as ra
from tests.cli.running import listing, run

GOOD = "age,zip,sex\n" + "".join(f"{20 + i},{53700 + i % 7},{'FM'[i % 2]}\n" for i in range(20))


@pytest.mark.parametrize(
    ("content", "arguments", "code", "expected"),
    [
        pytest.param(GOOD, ("-k", "21"), 1, ["people.csv", "20 rows", "k=21"], id="fewer rows than k"),
        pytest.param(GOOD, ("-k", "5,21"), 1, ["people.csv", "20 rows", "k=21"], id="fewer rows than one k"),
        pytest.param(GOOD, ("-q", "zap"), 2, ["people.csv", "'zap'", "'zip'"], id="unknown column, near a known one"),
        pytest.param(GOOD, ("-s", "disease"), 2, ["people.csv", "'disease'"], id="unknown sensitive column"),
        pytest.param(GOOD, ("-q", "age"), 2, ["'age'", "twice"], id="column named twice"),
        pytest.param(GOOD, ("-s", "age"), 2, ["'age'", "one role"], id="column with two roles"),
        pytest.param("age,zip,age\n1,2,3\n", (), 1, ["people.csv", "'age'", "twice"], id="duplicate column names"),
        pytest.param("", (), 1, ["people.csv", "empty"], id="empty file"),
        pytest.param("age,zip,sex\n", (), 1, ["people.csv", "no rows"], id="header only"),
        pytest.param("age,zip,sex\n1,2,F\n1,2\n", (), 1, ["people.csv", "row 2", "2 fields"], id="short row"),
        pytest.param("age,zip,sex\n1,2,F\n1,2,F,9\n", (), 1, ["people.csv", "row 2", "4 fields"], id="long row"),
        pytest.param(
            GOOD + "old,53700,F\n", (), 1, ["people.csv", "row 21", "'age'", "'old'"], id="text among numbers"
        ),
        pytest.param(GOOD + "inf,53700,F\n", (), 1, ["people.csv", "row 21", "'age'", "infinite"], id="infinity"),
        pytest.param(GOOD + "-inf,53700,F\n", (), 1, ["people.csv", "row 21", "'age'"], id="minus infinity"),
        pytest.param(GOOD, ("-k", "0"), 2, ["k=0"], id="k of zero"),
        pytest.param(GOOD, ("-k", "-5"), 2, ["k=-5"], id="negative k"),
        pytest.param(GOOD, ("-k", "five"), 2, ["'five'"], id="k that is no number"),
        pytest.param(GOOD, ("-k", "5,"), 2, ["'5,'"], id="k list that ends in a comma"),
        pytest.param(GOOD, ("--base-k", "9"), 2, ["base_k=9", "k=5"], id="base k above k"),
        pytest.param(GOOD, ("--weight", "zip"), 2, ["'zip'", "name=value"], id="weight without a number"),
        pytest.param(GOOD, ("--weight", "zip=much"), 2, ["'much'"], id="weight that is no number"),
        pytest.param(GOOD, ("--weight", "zip=1", "--weight", "zip=2"), 2, ["'zip'", "twice"], id="weight twice"),
        pytest.param(GOOD, ("--weight", "sex=2"), 2, ["'sex'"], id="weight of another column"),
        pytest.param(GOOD, ("--hierarchy", "sex=x.csv"), 2, ["'sex'"], id="hierarchy of another column"),
        pytest.param(GOOD, ("--hierarchy", "zip=none.csv"), 1, ["none.csv"], id="hierarchy that is not there"),
        pytest.param(GOOD, ("--bias", "sex"), 2, ["'sex'"], id="bias to another column"),
        pytest.param(GOOD, ("--schema", "none.toml"), 2, ["--schema"], id="schema and columns"),
        pytest.param(GOOD, ("--threads", "0"), 2, ["--threads"], id="no threads"),
        pytest.param(GOOD, ("--quality", "finest"), 2, ["'finest'", "best"], id="unknown quality"),
    ],
)
def test_one_sentence_and_no_output(
    tmp_path: Path, content: str, arguments: tuple[str, ...], code: int, expected: list[str]
) -> None:
    (tmp_path / "people.csv").write_text(content)
    before = listing(tmp_path)
    usual = ("-q", "age,zip", "-o", tmp_path / "out", *(() if "-k" in arguments else ("-k", "5")))
    done = run("anonymize", tmp_path / "people.csv", *usual, *arguments)
    assert done.code == code and done.out == "" and listing(tmp_path) == before
    for words in expected:
        assert words in done.sentence


def test_there_is_no_file(tmp_path: Path) -> None:
    done = run("anonymize", tmp_path / "nobody.csv", "-q", "age", "-k", "5", "-o", tmp_path / "out")
    assert done.code == 1 and "nobody.csv: there is no such file" in done.sentence and listing(tmp_path) == []


def test_without_quasi_identifiers(tmp_path: Path) -> None:
    done = run("anonymize", tmp_path / "nobody.csv", "-k", "5", "-o", tmp_path / "out")
    assert done.code == 2 and "-q age,zip,sex" in done.sentence


@pytest.mark.parametrize("kind", ["empty directory", "full directory", "file", "dangling link"])
def test_an_output_that_exists_is_refused_before_any_work(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("precious")
    elif kind == "dangling link":
        out.symlink_to(tmp_path / "nowhere")
    else:
        out.mkdir()
        if kind == "full directory":
            (out / "precious").write_text("precious")
    before = listing(tmp_path)
    # The input is not there either: that it is not this which is complained about shows that nothing was read.
    done = run("anonymize", tmp_path / "nobody.csv", "-q", "age", "-k", "5", "-o", out)
    assert done.code == 2 and f"{out} exists already" in done.sentence and listing(tmp_path) == before


def test_an_output_without_a_parent_is_refused_before_any_work(tmp_path: Path) -> None:
    done = run("anonymize", tmp_path / "nobody.csv", "-q", "age", "-k", "5", "-o", tmp_path / "no" / "out")
    assert done.code == 2 and "no is not a directory" in done.sentence and listing(tmp_path) == []


def test_infinity_in_a_typed_file(tmp_path: Path) -> None:
    ages = [float(age) for age in range(30)]
    pyarrow.parquet.write_table(pa.table({"age": [*ages, float("inf")]}), tmp_path / "people.parquet")
    done = run("anonymize", tmp_path / "people.parquet", "-q", "age", "-k", "5", "-o", tmp_path / "out")
    assert done.code == 1 and listing(tmp_path) == ["people.parquet"]
    for words in ("people.parquet", "row 31", "'age'"):
        assert words in done.sentence


def test_a_byte_order_mark_is_skipped_and_nan_is_missing(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("\ufeff" + GOOD + "nan,53700,F\n" * 5, encoding="utf-8")
    done = run("anonymize", tmp_path / "people.csv", "-q", "age,zip", "-k", "5", "-o", tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    table = pyarrow.parquet.read_table(tmp_path / "out" / "k5.parquet")
    assert table.num_rows == 25
    assert sorted(set(table.column("age_missing").to_pylist())) == ["all", "none"]
    assert ra.check(table, ["age", "zip"]).k >= 5


@pytest.mark.parametrize(
    ("content", "code", "expected"),
    [
        ("", 1, "people.csv: cannot be read"),
        ("age,sex\n", 1, "no rows"),
        ("age,sex\n1,F\n2\n", 1, "people.csv, row 2: the row has 1 fields"),
        ("age,age\n1,2\n", 2, "2 columns called 'age'"),
        ("sex,zip\n1,2\n", 2, "no column 'age'"),
    ],
)
def test_check_says_what_is_wrong_with_a_file(tmp_path: Path, content: str, code: int, expected: str) -> None:
    (tmp_path / "people.csv").write_text(content)
    done = run("check", tmp_path / "people.csv", "-q", "age")
    assert done.code == code and expected in done.sentence and done.out == ""
