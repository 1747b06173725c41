"""Agreement with pycanon, another checker, on random tables and on releases under every model; and where we differ.

pycanon asks for older versions of pandas and numpy than ours, so it runs in an interpreter of its own: name one in
RTREE_ANON_PYCANON, or let `scripts/test --pycanon` make one and run this file. Without one these tests are skipped.

- It leaves out rows with a missing quasi-identifier; here missing is a value, as a reader of the table sees it.
- Its recursive c divides the *smallest* count by the sum of the larger ones, where the definition has the largest and
  the smaller ones; the figures are not comparable.
- Its enhanced beta is the largest min(beta, -ln q), ours the smallest beta for which the model holds (or infinity).
- Its delta looks only at values that a group has: our `delta_present`.
- Its entropy l is cut off to a whole number.
- Of releases under recursive (c,l) and enhanced beta it therefore confirms what follows from them: l distinct values,
  and beta.
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

_PLACES = [parent / "shared" / "data" / "adult.csv" for parent in Path(__file__).parents[3:]]
ADULT = next((place for place in _PLACES if place.exists()), _PLACES[0])
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
    figures = {
        "k": report.k,
        "distinct_l": column.distinct_l,
        "alpha": column.alpha,
        "beta": column.beta,
        "delta_present": column.delta_present,
        "t": column.t_ordered if job["numbers"] else column.t,
    }
    assert "k" in found
    for name, figure in found.items():
        if name == "entropy_l":
            assert figure in (int(column.entropy_l - 1e-9), int(column.entropy_l))
        else:
            assert figures[name] == pytest.approx(figure, abs=1e-9), name


def make_job(
    path: Path,
    table: pa.Table,
    quasi: list[str],
    sensitive: str,
    *,
    numbers: bool = False,
    figures: list[str] | None = None,
) -> dict[str, Any]:
    pa.csv.write_csv(table, path)
    return {"file": str(path), "quasi": quasi, "sensitive": sensitive, "numbers": numbers, "figures": figures}


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
        ra.BetaLikeness(4, column, enhanced=True),
    ]


MEASURED_BY = {  # what pycanon can say about a demand
    "distinct_l": "distinct_l",
    "recursive": "distinct_l",
    "entropy_l": "entropy_l",
    "t": "t",
    "alpha": "alpha",
    "beta": "beta",
    "beta_enhanced": "beta",
    "delta": "delta_present",
}


def confirmed(table: pa.Table, quasi: list[str], column: str, model: Model, k: int, path: Path) -> None:
    """A release under a model: pycanon measures what the checker does, and both find that the model holds."""
    released = ra.anonymize(table, k, quasi, sensitive=[column], model=model).to_arrow(style="text")
    assert check(released, quasi, [column]).unmet(model.demands()) == []
    demands = [demand for demand in model.demands() if demand.quantity != "rows"]
    assert demands
    names = sorted({MEASURED_BY[demand.quantity] for demand in demands})
    job = make_job(path, released, quasi, column, figures=["k", *names])
    (found,) = theirs([job])
    compare(job, found, released)
    assert found["k"] >= k
    for demand in demands:
        figure, bound = found[MEASURED_BY[demand.quantity]], demand.bound
        if demand.quantity == "recursive":
            assert figure >= bound[1]  # type: ignore[index]
        elif demand.quantity in ("distinct_l", "entropy_l"):
            assert figure >= int(bound)  # type: ignore[arg-type]
        elif demand.quantity == "delta":
            assert figure < bound
        else:
            assert figure <= bound + 1e-9  # type: ignore[operator]


def test_releases_of_generated_patients(tmp_path: Path) -> None:
    table = ra.generate("patients", 500, seed=4)
    for model in models_of("diagnosis"):
        confirmed(table, ["age", "zip"], "diagnosis", model, 5, tmp_path / "released.csv")


ADULT_MODELS = [
    *(("occupation", model) for model in models_of("occupation")),
    ("salary-class", ra.DistinctLDiversity(2, "salary-class")),
    ("salary-class", ra.EntropyLDiversity(1.2, "salary-class")),
    ("salary-class", ra.RecursiveCLDiversity(6, 2, "salary-class")),
    ("salary-class", ra.TCloseness(0.2, "salary-class")),
    ("salary-class", ra.AlphaKAnonymity(0.8, 5, "salary-class")),
    ("salary-class", ra.BetaLikeness(1, "salary-class")),
    ("salary-class", ra.BetaLikeness(1, "salary-class", enhanced=True)),
    ("salary-class", ra.DeltaDisclosure(2, "salary-class")),
]


@pytest.mark.deep
@pytest.mark.parametrize(("column", "model"), ADULT_MODELS, ids=lambda value: str(value))
def test_releases_of_adult(column: str, model: Model, tmp_path: Path) -> None:
    """All rows of Adult and eight quasi-identifiers, at k = 100: pycanon takes some ten minutes for those at k = 5."""
    if not ADULT.exists():
        pytest.skip("the Adult table is not here")
    table = pa.Table.from_pandas(pd.read_csv(ADULT, skipinitialspace=True))
    confirmed(table, ADULT_QUASI, column, model, 100, tmp_path / "released.csv")


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
