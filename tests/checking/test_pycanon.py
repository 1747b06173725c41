"""Agreement with pycanon, another checker, on random tables and on releases under every model; and where we differ.

pycanon asks for older versions of pandas and numpy than ours, so it runs in an interpreter of its own: name one in
RTREE_ANON_PYCANON (`python -m venv other && other/bin/pip install pycanon`, then
RTREE_ANON_PYCANON=other/bin/python). Without one these tests are skipped.

- It leaves out rows with a missing quasi-identifier; here missing is a value, as a reader of the table sees it.
- Its recursive c divides the *smallest* count by the sum of the larger ones, where the definition has the largest and
  the smaller ones; the figures are not comparable.
- Its enhanced beta is the largest min(beta, -ln q), ours the smallest beta for which the model holds (or infinity).
- Its delta looks only at values that a group has: our `delta_present`.
- Its entropy l is cut off to a whole number.
- Its t is the ordered distance for numbers and the equal one for everything else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

import rtree_anon as ra
from rtree_anon.checking import check
from rtree_anon.models import Model

ADULT = Path(__file__).parents[3] / "shared" / "data" / "adult.csv"
ADULT_QUASI = ["age", "workclass", "education", "marital-status", "race", "sex", "native-country", "hours-per-week"]


@cache
def interpreter() -> str | None:
    for python in (os.environ.get("RTREE_ANON_PYCANON"), sys.executable):
        if (
            python
            and subprocess.run([python, "-c", "import pycanon"], capture_output=True, check=False).returncode == 0
        ):
            return python
    return None


@pytest.fixture(autouse=True)
def _needs_pycanon() -> None:
    if interpreter() is None:
        pytest.skip("pycanon is not installed; see the top of this file")


def theirs(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    script = Path(__file__).with_name("pycanon_figures.py")
    done = subprocess.run(
        [str(interpreter()), str(script)], input=json.dumps(jobs), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def compare(job: dict[str, Any], found: dict[str, Any], ours: pa.Table) -> None:
    report = check(ours, job["quasi"], [job["sensitive"]])
    column = report.sensitive[job["sensitive"]]
    assert report.k == found["k"]
    assert column.distinct_l == found["distinct_l"]
    assert found["entropy_l"] in (int(column.entropy_l - 1e-9), int(column.entropy_l))
    for name, figure in (
        ("alpha", column.alpha),
        ("beta", column.beta),
        ("delta_present", column.delta_present),
        ("t", column.t_ordered if job["numbers"] else column.t),
    ):
        assert figure == pytest.approx(found[name], abs=1e-9), name


def make_job(path: Path, table: pa.Table, quasi: list[str], sensitive: str, *, numbers: bool = False) -> dict[str, Any]:
    pa.csv.write_csv(table, path)
    return {"file": str(path), "quasi": quasi, "sensitive": sensitive, "numbers": numbers}


def test_random_tables(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    jobs, tables = [], []
    for number in range(60):
        n = int(rng.integers(2, 40))
        table = pa.table(
            {
                "age": rng.choice(["20", "30", "40"], n),
                "sex": rng.choice(["F", "M"], n),
                "disease": rng.choice(["flu", "cold", "gout", "cancer"], n, p=[0.5, 0.3, 0.1, 0.1]),
                "pay": rng.integers(0, 7, n),
            }
        )
        for name in ("disease", "pay"):
            path = tmp_path / f"{number}{name}.csv"
            jobs.append(make_job(path, table, ["age", "sex"], name, numbers=name == "pay"))
            tables.append(table)
    for job, found, table in zip(jobs, theirs(jobs), tables, strict=True):
        compare(job, found, table)


def test_missing_quasi_identifiers_are_left_out_there(tmp_path: Path) -> None:
    table = pa.table({"sex": ["F", "F", None], "disease": ["flu", "cold", "flu"]})
    (found,) = theirs([make_job(tmp_path / "t.csv", table, ["sex"], "disease")])
    assert check(table, ["sex"]).k == 1 and found["k"] == 2


def models_of(column: str) -> list[Model]:
    return [
        ra.DistinctLDiversity(3, column),
        ra.EntropyLDiversity(2.5, column),
        ra.RecursiveCLDiversity(3, 2, column),
        ra.TCloseness(0.5, column),
        ra.AlphaKAnonymity(0.5, 5, column),
        ra.BetaLikeness(4, column),
        ra.DeltaDisclosure(3, column),
    ]


def confirmed(table: pa.Table, quasi: list[str], column: str, models: list[Model], tmp_path: Path) -> None:
    """Releases under each model: pycanon measures what the checker does, and both find that the model holds."""
    jobs, tables = [], []
    for number, model in enumerate(models):
        release = ra.anonymize(table, 5, quasi, sensitive=[column], model=model)
        tables.append(release.to_arrow(style="text"))
        assert check(tables[-1], quasi, [column]).unmet(model.demands()) == []
        jobs.append(make_job(tmp_path / f"{number}.csv", tables[-1], quasi, column))
    for job, found, released, model in zip(jobs, theirs(jobs), tables, models, strict=True):
        compare(job, found, released)
        assert found["k"] >= 5
        for demand in model.demands():
            if demand.quantity in ("distinct_l", "entropy_l"):
                assert found[demand.quantity] >= int(demand.bound)  # type: ignore[arg-type]
            elif demand.quantity in ("t", "alpha", "beta"):
                assert found[demand.quantity] <= demand.bound + 1e-9  # type: ignore[operator]
            elif demand.quantity == "delta":
                assert found["delta_present"] < demand.bound  # type: ignore[operator]


def test_releases_of_generated_patients(tmp_path: Path) -> None:
    table = ra.generate("patients", 500, seed=4)
    confirmed(table, ["age", "zip"], "diagnosis", models_of("diagnosis")[:6], tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("column", ["occupation", "salary-class"])
def test_releases_of_adult(column: str, tmp_path: Path) -> None:
    if not ADULT.exists():
        pytest.skip("the Adult table is not here")
    table = pa.Table.from_pandas(pd.read_csv(ADULT, skipinitialspace=True))
    models = models_of(column)
    if column == "salary-class":
        models[0], models[1] = ra.DistinctLDiversity(2, column), ra.EntropyLDiversity(1.2, column)
        models[4] = ra.AlphaKAnonymity(0.8, 5, column)
    confirmed(table, ADULT_QUASI, column, models, tmp_path)


def test_adult(tmp_path: Path) -> None:
    if not ADULT.exists():
        pytest.skip("the Adult table is not here")
    table = pa.Table.from_pandas(pd.read_csv(ADULT, skipinitialspace=True))
    quasi = ["race", "sex"]
    jobs = [
        make_job(tmp_path / f"{name}.csv", table.select([*quasi, name]), quasi, name, numbers=name == "education-num")
        for name in ("occupation", "education-num", "salary-class")
    ]
    for job, found in zip(jobs, theirs(jobs), strict=True):
        compare(job, found, table)
