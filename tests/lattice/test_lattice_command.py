"""`rtree-anon lattice`: figures, the release, a picture, and exit codes; and the benchmark at tiny size."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from click.testing import CliRunner

from bench.lattice import ablation, by_size, landsend
from rtree_anon.checking import check
from rtree_anon.cli.lattice import command
from rtree_anon.errors import AnonError
from tests.lattice.paper_tables import FIGURE_4, FIGURE_8, RACE_AND_ZIP, TABLE_3


@pytest.fixture
def people(tmp_path: Path) -> Path:
    pa.csv.write_csv(FIGURE_8, tmp_path / "people.csv")
    directory = tmp_path / "trees"
    directory.mkdir()
    (directory / "Race.csv").write_text("asian;person\nblack;person\nwhite;person\n")
    zips = ["94138", "94139", "94141", "94142"]
    (directory / "my_ZIP.csv").write_text("".join(f"{z};{z[:4]}*;{z[:3]}**\n" for z in zips))
    return tmp_path / "people.csv"


@dataclass(frozen=True)
class Done:
    """What a run of the command left behind."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str | Path) -> Done:
    """Run the command in this process, which has compiled the kernels; errors become codes as `main` makes them."""
    result = CliRunner().invoke(command, list(map(str, arguments)))
    if isinstance(result.exception, AnonError):
        return Done(result.exception.exit_code, result.stdout, str(result.exception))
    return Done(result.exit_code, result.stdout, result.stderr)


def test_finds_minimal_generalizations_and_writes_the_release(people: Path) -> None:
    out, picture = people.parent / "out.csv", people.parent / "lattice.svg"
    done = run(
        *(people, "--hierarchies", people.parent / "trees", "-k", "2", "--max-suppressed", "1"),
        *("-o", out, "--picture", picture, "--json"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts["quasi"] == {"Race": 1, "ZIP": 2}
    assert [one["levels"] for one in facts["first_minimal"]] == [[1, 0], [0, 2]]
    assert facts["chosen"] == [1, 0] and facts["release"]["suppressed"] == 1
    assert check(out, quasi=["Race", "ZIP"]).k >= 2
    assert picture.read_text().startswith("<svg")


@pytest.mark.parametrize("algorithm", ["samarati", "bottom-up", "exhaustive", "datafly", "local"])
def test_every_algorithm_in_words(people: Path, algorithm: str) -> None:
    done = run(people, "-q", "Race,ZIP", "--hierarchies", people.parent / "trees", "-k", "2", "--algorithm", algorithm)
    assert (done.returncode, done.stderr) == (0, "")
    assert "released            8 rows" in done.stdout


def test_exit_codes(people: Path) -> None:
    trees = ["--hierarchies", str(people.parent / "trees")]
    nothing = run(people, *trees, "-k", "9")
    assert nothing.returncode == 1 and "No generalization satisfies this" in nothing.stdout
    assert run(people, "-k", "2").returncode == 2, "neither -q nor --hierarchies"
    assert run(people, *trees, "-k", "2", "--limit", "Race").returncode == 2
    assert run(people, *trees, "-k", "2", "--l", "2").returncode == 2
    unknown = run(people, "-q", "Colour", "-k", "2")
    assert unknown.returncode == 2 and "Colour" in unknown.stderr


def test_limits_and_models(tmp_path: Path) -> None:
    pa.csv.write_csv(TABLE_3, tmp_path / "patients.csv")
    base = (tmp_path / "patients.csv", "-q", "Zip", "-k", "2", "--identity", "ID", "-s", "Disease", "--l", "2")
    facts = json.loads(run(*base, "--json").stdout)
    assert facts["model"] == "IdentityKAnonymity(2) & DistinctLDiversity(2, on='Disease')"
    assert run(*base, "--limit", "Zip=0").returncode == 1


def test_the_benchmark_runs_at_tiny_size() -> None:
    trees = dict(RACE_AND_ZIP) | {"Copy": RACE_AND_ZIP["Race"]}
    table = FIGURE_4.append_column("Copy", FIGURE_4["Race"])
    sizes = by_size(table, trees, k=2, smallest=3, largest=3)
    assert set(ablation(sizes)["3"]) == {"without_rollup", "with_rollup", "nodes_checked"}
    small = landsend(rows=2_000, size=4, variant="cube", k=5)
    assert small["nodes_checked"] > 0 and small["heights"]["zipcode"] == 5


def test_what_is_chosen_is_shown_by_example(people: Path) -> None:
    done = run(people, "--hierarchies", people.parent / "trees", "-k", "2", "--max-suppressed", "1")
    lines = done.stdout.splitlines()
    assert "    Race  ZIP  suppressed  groups" in lines
    assert "  *    1    0           1       2" in lines
    assert [line.split() for line in lines[lines.index("    Race  ZIP  suppressed  groups") + 4 :][:2]] == [
        ["Race", "person"],
        ["ZIP", "94138"],
    ]


def test_files_that_cannot_be_written_are_refused_before_the_search(people: Path) -> None:
    there = people.parent / "there.csv"
    there.write_text("something else")
    common = ("no such file", "-q", "Race,ZIP", "-k", "2")
    for arguments, message in (
        (("-o", there), "exists already; choose another path, or replace it with --force"),
        (("-o", people.parent / "out.xlsx"), "must end in .parquet or .csv"),
        (("--picture", "lattice.pdf"), "a picture is written as .svg or .png"),
    ):
        refused = run(*common, *arguments)
        assert refused.returncode == 2 and message in refused.stderr
    assert run(people, "-q", "Race,ZIP", "-k", "2", "-o", there, "--force").returncode == 0
    assert there.read_text() != "something else"


def test_thresholds_and_models(tmp_path: Path) -> None:
    rows = [("a", "flu"), ("a", "cold"), ("b", "flu"), ("b", "flu"), ("c", "flu"), ("c", "cold")]
    table = tmp_path / "t.csv"
    pa.csv.write_csv(pa.table({"place": [p for p, _ in rows], "disease": [d for _, d in rows]}), table)
    common = (table, "-q", "place", "-s", "disease", "-k", "2", "--json")
    assert json.loads(run(*common).stdout)["minimal"] == 1
    assert json.loads(run(*common).stdout)["chosen"] == [0]
    for asked in (("-l", "2"), ("--alpha", "0.7"), ("--model", "distinct_l=2 on disease")):
        assert json.loads(run(*common, *asked).stdout)["chosen"] == [1], asked
    refused = run(*common, "--t", "0.2", "--max-suppressed", "2")
    assert refused.returncode == 2 and "--algorithm exhaustive" in refused.stderr
    found = json.loads(run(*common, "--t", "0.2", "--max-suppressed", "2", "--algorithm", "exhaustive").stdout)
    assert found["chosen"] == [0] and found["release"]["suppressed"] == 2


def test_weights_change_what_is_preferred(people: Path) -> None:
    common = (people, "--hierarchies", people.parent / "trees", "-k", "2", "--max-suppressed", "1", "--json")
    chosen = {
        name: json.loads(run(*common, "--policy", "certainty", "--weight", f"{name}=9").stdout)["chosen"]
        for name in ("Race", "ZIP")
    }
    assert chosen == {"Race": [0, 2], "ZIP": [1, 0]}
    wrong = run(*common, "--weight", "Race=much")
    assert wrong.returncode == 2 and "'Race=much' is not of the form age=2" in wrong.stderr
