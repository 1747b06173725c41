"""`rtree-anon check`: a readable report, JSON for machines, and an exit code that a script can act on."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from rtree_anon.checking import check
from rtree_anon.errors import UsageError

# groups: (20, F): 3 rows, flu cold flu, two people; (30, M): 2 rows, flu flu, two people
TABLE = pa.table(
    {
        "age": [20, 20, 20, 30, 30],
        "sex": list("FFFMM"),
        "disease": ["flu", "cold", "flu", "flu", "flu"],
        "person": [1, 1, 2, 3, 4],
    }
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    pyarrow.parquet.write_table(TABLE, tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rtree_anon.cli", "check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_report_in_words(path: Path) -> None:
    done = run(path, "-q", "age,sex", "-s", "disease", "--identity", "person", "-k", "2")
    assert (done.returncode, done.stderr) == (0, "")
    for expected in ("Grouped by age, sex", "rows in the smallest group", "People (person)", "Sensitive: disease"):
        assert expected in done.stdout
    assert "\x1b" not in done.stdout  # no colours in a pipe


def test_falling_short_is_exit_code_1_and_names_the_rows(path: Path) -> None:
    done = run(path, "-q", "age,sex", "-k", "3")
    assert done.returncode == 1
    assert "2 rows: age=30, sex=M (row 4, 5)" in done.stdout
    assert "k = 3 was asked for, but 1 of 2 groups have fewer rows (the smallest 2); 2 rows are in them." in done.stdout


def test_json(path: Path) -> None:
    done = run(path, "-q", "age,sex", "-s", "disease", "-k", "3", "--l", "2", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 1 and facts["k"] == 2 and facts["sensitive"]["disease"]["distinct_l"] == 1
    assert facts["below"]["listed"] == [{"values": {"age": 30, "sex": "M"}, "size": 2, "row_numbers": [4, 5]}]
    assert len(facts["shortfalls"]) == 2 and facts["sensitive"]["disease"]["delta"] is None  # infinite


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-q", "weight"), "no column 'weight'"),
        (("-q", ","), "at least one quasi-identifier"),
        ((), "Missing option '-q'"),
        (("-q", "age", "-k", "0"), "-k"),
        (("-q", "age", "--recursive", "3"), "not a pair"),
        (("-q", "age", "--l", "2"), "about sensitive columns"),
        (("-q", "age", "--individual-alpha", "0.5"), "identity column"),
    ],
)
def test_wrong_usage_is_exit_code_2(path: Path, arguments: tuple[str, ...], message: str) -> None:
    failed = run(path, *arguments)
    assert failed.returncode == 2 and message in failed.stderr and failed.stdout == ""


def test_a_damaged_file_is_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    failed = run(tmp_path / "t.parquet", "-q", "age")
    assert failed.returncode == 1 and "t.parquet: cannot be read" in failed.stderr


@pytest.mark.parametrize(
    ("reached", "missed"),
    [
        ({"k": 2}, {"k": 3}),
        ({"distinct_l": 1}, {"distinct_l": 2}),
        ({"entropy_l": 1.0}, {"entropy_l": 1.01}),
        ({"recursive": (1.01, 1)}, {"recursive": (1.0, 1)}),  # r1 < c * all: c has to be above 1
        ({"t": 0.2}, {"t": 0.19}),
        ({"t_ordered": 0.2}, {"t_ordered": 0.19}),
        ({"alpha": 1.0}, {"alpha": 0.99}),
        ({"beta": 2 / 3}, {"beta": 0.66}),
        (
            {"beta_enhanced": math.inf},
            {"beta_enhanced": 100},
        ),  # 2/3 more cold is within -ln 0.2; flu is not within -ln 0.8
        ({"individual_alpha": 2 / 3}, {"individual_alpha": 0.66}),
    ],
)
def test_thresholds(reached: dict[str, object], missed: dict[str, object]) -> None:
    """The last value that holds, the first that does not: (20, F) has 2/3 flu and 1/3 cold, the table 4/5 and 1/5."""
    report = check(TABLE, ["age", "sex"], ["disease"], identity="person")
    assert report.shortfalls(**reached) == []
    assert len(report.shortfalls(**missed)) == 1


def test_thresholds_of_models_that_bound_every_value() -> None:
    """Half the rows are x, in the first group 3 of 4: a gain of 0.5, below -ln 0.5; and ln(0.25 / 0.5) = -ln 2."""
    table = pa.table({"g": [1] * 4 + [2] * 4, "value": list("xxxyxyyy")})
    report = check(table, ["g"], ["value"])
    assert report.shortfalls(beta_enhanced=0.5, delta=0.694) == []
    assert len(report.shortfalls(beta_enhanced=0.49)) == 1
    assert report.shortfalls(delta=math.log(2)) == ["value: delta is 0.693147, not below 0.693147."]


def test_k_counts_people_where_they_are_known() -> None:
    assert check(TABLE, ["sex"], identity="person").shortfalls(k=2) == []
    alone = TABLE.set_column(3, "person", pa.array([1, 1, 1, 3, 4]))
    (sentence,) = check(alone, ["sex"], identity="person").shortfalls(k=2)
    assert "1 of 2 groups have fewer people (the smallest 1); 3 rows" in sentence
    assert check(alone, ["sex"]).shortfalls(k=2) == []


def test_rows_are_counted_by_their_counts() -> None:
    report = check(pa.table({"g": [1, 2], "n": [3, 8]}), ["g"], counts="n")
    assert report.shortfalls(k=4) == [
        "k = 4 was asked for, but 1 of 2 groups have fewer rows (the smallest 3); 3 rows are in them."
    ]


def test_unknown_thresholds_are_refused() -> None:
    with pytest.raises(UsageError, match=r"'kk'.*k, rows, people, distinct_l"):
        check(TABLE, ["sex"]).shortfalls(kk=2)


def test_a_long_list_is_cut_short() -> None:
    report = check(pa.table({"x": list(range(30))}), ["x"])
    assert "30 groups with fewer than 2 rows (30 rows)" in str(report) and "and 20 more" in str(report)
    assert len(report.to_dict(most_groups=7)["below"]["listed"]) == 7
    assert repr(report) == "<Report: k=1, 30 rows, 30 groups>"
