"""Counting in a released file: the same answers as on the release itself, and an error rather than too few."""

from __future__ import annotations

import datetime
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.release.file_count import count_in_file
from tests.cli.running import run
from tests.release.by_hand import category_sets, interval, labels, release_of
from tests.release.mixed import Mixed, as_label, mixed_tables

FLAVOURS = ("int", "small", "tenths", "decimal", "date", "bool", "few", "whole", "constant")
FILES = (("rows.parquet", "rows"), ("rows.csv", "rows"), ("groups.parquet", "groups"))


def written(release: Any, directory: Path, name: str, layout: str) -> Path:
    release.write(directory / name, layout=layout)
    return directory / name


@settings(max_examples=25, deadline=None)
@given(mixed=mixed_tables(max_rows=60, flavours=FLAVOURS), k=st.integers(1, 6), data=st.data())
def test_a_file_gives_the_answer_of_its_release(mixed: Mixed, k: int, data: st.DataObject) -> None:
    release = ra.anonymize(mixed.table, k=min(k, mixed.table.num_rows), threads=1, **mixed.options)
    asked: dict[str, Any] = {}
    where: dict[str, str] = {}
    for name in mixed.names:
        values = sorted({value for value in mixed.table[name].to_pylist() if value is not None})
        if not values or not data.draw(st.booleans()):
            continue
        lo, hi = sorted((data.draw(st.sampled_from(values)), data.draw(st.sampled_from(values))))
        if isinstance(lo, bool | str) or data.draw(st.booleans()):
            asked[name], where[name] = [lo, hi], f"{as_label(lo)},{as_label(hi)}"
        else:
            asked[name], where[name] = (lo, hi), f"{lo}..{hi}"
    with tempfile.TemporaryDirectory() as directory:
        for name, layout in FILES:
            path = written(release, Path(directory), name, layout)
            found = count_in_file(path, where, counts="count" if layout == "groups" else None)
            assert (found.count, found.n_rows) == (release.count(**asked), mixed.table.num_rows), path.name


def test_bounds_may_be_left_open(tmp_path: Path) -> None:
    columns = [
        interval("age", [(20, 24), (30, 40), (50, 50)], 40),
        interval("born", [(datetime.date(1999, 1, 1), datetime.date(2000, 1, 1))] * 3, type=pa.date32()),
        category_sets("sex", ["F", "M"], [[0, 1], [0], [1]]),
    ]
    release = release_of(columns, [4, 5, 6])
    for name, layout in FILES[:2]:
        path = written(release, tmp_path, name, layout)

        def count(path: Path = path, estimate: str = "intersect", **where: str) -> float:
            return count_in_file(path, where, estimate).count

        assert (count(age="30.."), count(age="..30"), count(age=".."), count()) == (11, 9, 15, 15)
        assert (count(age="35", estimate="uniform"), count(age="30..35", estimate="uniform")) == pytest.approx(
            (5 / 11, 2.5)
        )
        assert (count(born="2000-01-01.."), count(born="..1998-12-31"), count(sex="F", age="20..30")) == (15, 0, 9)
        assert count(sex="F,M") == 15 and count(sex="F", estimate="uniform") == 7


def test_a_label_is_not_taken_for_a_value(tmp_path: Path) -> None:
    release = release_of(
        [labels("zip", ["53703", "53706", "53715"], [("5370*", 0, 2), ("53715", 2, 3)], [0, 1])], [4, 5]
    )
    release.write(tmp_path / "r.csv")
    with pytest.raises(ra.UsageError, match="--hierarchy zip=FILE"):
        count_in_file(tmp_path / "r.csv", {"zip": "53706"})
    (tmp_path / "zip.csv").write_text("53703;5370*;537**\n53706;5370*;537**\n53715;5371*;537**\n")
    tree = {"zip": ra.Hierarchy.from_csv(tmp_path / "zip.csv")}
    for where, estimate, expected in (
        ("53706", "intersect", 4),
        ("53706", "uniform", 2),
        ("53700..53715", "intersect", 9),
    ):
        assert count_in_file(tmp_path / "r.csv", {"zip": where}, estimate, hierarchies=tree).count == expected
    other = {"zip": ra.Hierarchy.from_rows([("1", "*"), ("2", "*")])}
    with pytest.raises(ra.UsageError, match="does not occur in the hierarchy"):
        count_in_file(tmp_path / "r.csv", {"zip": "1"}, hierarchies=other)


def test_a_range_of_categories_is_refused(tmp_path: Path) -> None:
    release = release_of([labels("c", ["a", "b", "d"], [("[a-d]", 0, 3)], [0])], [4])
    release.write(tmp_path / "r.csv")
    with pytest.raises(ra.UsageError, match="range of categories"):
        count_in_file(tmp_path / "r.csv", {"c": "b"})


def test_the_command(tmp_path: Path) -> None:
    columns = [interval("age", [(20, 24), (30, 40)], 40), category_sets("sex", ["F", "M"], [[0, 1], [0]])]
    path = written(release_of(columns, [4000, 5]), tmp_path, "r.parquet", "rows")
    done = run("count", path, "--where", "age=20..25", "--where", "sex=M")
    assert (done.code, done.out, done.err) == (0, "4,000\n", "")
    done = run("count", path, "--where", "age=30..35", "--estimate", "uniform", "--json")
    facts = json.loads(done.out)
    assert facts["count"] == pytest.approx(2.5) and facts["rows"] == 4005
    for where, message in (
        ("height=3", "'height' is not a column of this file (age, sex)"),
        ("age=old", "cannot be compared"),
        ("age", "not of the form name=value"),
    ):
        done = run("count", path, "--where", where)
        assert done.code == 2 and message in done.sentence and done.out == ""
    assert run("count", tmp_path / "none.parquet", "--where", "age=3").code == 1
