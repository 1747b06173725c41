"""What do privacy models cost, in certainty and in time, and what does counting rows instead of people miss?

    python -m bench.models quality --adult adult.csv    certainty under each model, from lax to strict bounds
    python -m bench.models order --adult adult.csv      how often a stricter bound is cheaper: small steps, many tables
    python -m bench.models people --adult adult.csv     several rows per person (section 5 of the identity paper)
    python -m bench.models speed                        a million rows: k = 10 with a model, against k = 10 alone
    python -m bench.models index                        the same for loads into an index on disk, and updates of it

Without --adult a seeded table of patients is used, which needs no file (for `order`: seeded tables only). Every release
of `quality` is measured by the checker. A stricter bound is not to be cheaper than a laxer one; where it is, it is said
by how much.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import rtree_anon as ra
from bench.harness import keep, timed_in_turns
from rtree_anon.models import Model

QUASI = {
    "adult": ["age", "workclass", "education", "marital-status", "race", "sex", "native-country", "hours-per-week"],
    "patients": ["age", "sex", "zip", "marital_status", "education"],
}
SENSITIVE = {"adult": ("occupation", "salary-class"), "patients": ("diagnosis", "sex")}
KS = (5, 10)
# of a column with many values, and of one with two
MANY: dict[str, Callable[[str], list[Model]]] = {
    "distinct l": lambda on: [ra.DistinctLDiversity(ell, on) for ell in (2, 3, 4, 5)],
    "entropy l": lambda on: [ra.EntropyLDiversity(ell, on) for ell in (2, 3, 4, 5)],
    "recursive (3,l)": lambda on: [ra.RecursiveCLDiversity(3, ell, on) for ell in (2, 3, 4)],
    "alpha": lambda on: [ra.AlphaKAnonymity(alpha, 5, on) for alpha in (0.8, 0.6, 0.5, 0.4)],
    "t": lambda on: [ra.TCloseness(t, on) for t in (0.7, 0.6, 0.5, 0.4)],
    "t ordered": lambda on: [ra.TCloseness(t, on, "ordered") for t in (0.4, 0.3, 0.2, 0.1)],
    "beta": lambda on: [ra.BetaLikeness(beta, on) for beta in (5, 4, 3, 2)],
}
TWO: dict[str, Callable[[str], list[Model]]] = {
    "distinct l": lambda on: [ra.DistinctLDiversity(2, on)],
    "entropy l": lambda on: [ra.EntropyLDiversity(ell, on) for ell in (1.2, 1.4, 1.6)],
    "t": lambda on: [ra.TCloseness(t, on) for t in (0.5, 0.4, 0.3, 0.2)],
    "delta": lambda on: [ra.DeltaDisclosure(delta, on) for delta in (3, 2, 1)],
}
# of steps so small that neighbours hardly differ
FINE: dict[str, Callable[[str], list[Model]]] = {
    "distinct l": lambda on: [ra.DistinctLDiversity(ell, on) for ell in (2, 3, 4, 5)],
    "entropy l": lambda on: [ra.EntropyLDiversity(ell, on) for ell in (1.5, 2, 2.5, 3, 3.5, 4)],
    "recursive (c,3)": lambda on: [ra.RecursiveCLDiversity(c, 3, on) for c in (8, 6, 4, 3, 2)],
    "alpha": lambda on: [ra.AlphaKAnonymity(alpha, 5, on) for alpha in (0.9, 0.8, 0.7, 0.6, 0.55, 0.5, 0.45, 0.4)],
    "t": lambda on: [ra.TCloseness(t, on) for t in (0.9, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4)],
    "t ordered": lambda on: [ra.TCloseness(t, on, "ordered") for t in (0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15)],
    "beta": lambda on: [ra.BetaLikeness(beta, on) for beta in (12, 8, 6, 5, 4, 3)],
}
# shares of people with one, two and three rows (Table 6 of the identity paper)
ROWS_PER_PERSON = {
    1.2: (0.85, 0.10, 0.05),
    1.4: (0.70, 0.20, 0.10),
    1.6: (0.55, 0.30, 0.15),
    1.8: (0.40, 0.40, 0.20),
}


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["quality", "order", "people", "speed", "index"])
    parser.add_argument("--adult", type=Path, help="the Adult table as CSV with a header")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the speed test")
    parser.add_argument("--grades", default="fast,balanced,best", help="of the speed and order tests")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.question == "speed":
        print(f"kept in {keep('models_speed', speed(options.rows, options.grades.split(','), options.repeats))}")
        return
    if options.question == "index":
        print(f"kept in {keep('models_index', index(options.rows, options.repeats))}")
        return
    if options.question == "order":
        print(f"kept in {keep('models_order', order(options.adult, options.grades.split(',')))}")
        return
    name = "adult" if options.adult else "patients"
    table = pyarrow.csv.read_csv(options.adult) if options.adult else ra.generate("patients", 20_000, seed=0)
    result = quality(table, name) if options.question == "quality" else people(table, name)
    print(f"kept in {keep(f'models_{options.question}_{name}', result)}")


def quality(table: pa.Table, name: str) -> dict[str, Any]:
    """Certainty of releases at each k under each model, for the three grades."""
    quasi, rows, cheaper = QUASI[name], [], []
    for grade in ("fast", "balanced", "best"):
        plain = _measured(table, quasi, [], None, grade)
        rows.append({"grade": grade, "model": None, "certainty": plain})
        print(f"{grade:9} {'k alone':42} {_figures(plain)}")
        for column, families in zip(SENSITIVE[name], (MANY, TWO), strict=True):
            for family, models in families.items():
                laxer = plain
                for model in models(column):
                    found = _measured(table, [each for each in quasi if each != column], [column], model, grade)
                    rows.append({"grade": grade, "column": column, "model": str(model), "certainty": found})
                    print(f"{grade:9} {model!s:42} {_figures(found)}")
                    gain = max(1 - found[k] / laxer[k] for k in KS)
                    if column not in quasi and gain > 0:
                        cheaper.append({"grade": grade, "model": str(model), "by": gain})
                        print(f"{'':9} cheaper than the laxer model before it by {gain:.2%} ({family})")
                    laxer = found
    return {"rows": len(table), "quasi": quasi, "results": rows, "stricter_but_cheaper": cheaper}


def _measured(
    table: pa.Table, quasi: list[str], sensitive: list[str], model: Model | None, grade: str
) -> dict[int, float]:
    releases = ra.anonymize(table, KS, quasi, sensitive=sensitive, model=model, quality=grade)
    for k, release in releases.items():
        report = ra.check(release.to_arrow(), quasi, sensitive)
        unmet = [] if model is None else report.unmet(model.demands())
        if report.k < k or unmet:
            raise SystemExit(f"the checker disagrees about {model} at k={k}: {unmet}")
    return {k: release.quality()["certainty"] for k, release in releases.items()}


def order(adult: Path | None, grades: list[str]) -> dict[str, Any]:
    """Steps from a bound to a stricter one, and those at which certainty falls, over several tables."""
    tables = {}
    for seed in (1, 2, 3):
        patients = ra.generate("patients", 10_000, seed=seed)
        tables[f"patients {seed}"] = patients, QUASI["patients"], "diagnosis"
        agrawal = ra.generate("agrawal", 10_000, seed=seed)
        for on in ("car", "zipcode"):  # independent of everything; what the house is worth depends on it
            quasi = [column for column in agrawal.column_names if column != on]
            tables[f"agrawal {seed}, {on}"] = agrawal, quasi, on
    if adult is not None:
        tables["adult"] = pyarrow.csv.read_csv(adult), QUASI["adult"], "occupation"
    rows = []
    for grade in grades:
        for name, (table, quasi, on) in tables.items():
            plain = _certainty(table, quasi, on, None, grade)
            for models in FINE.values():
                laxer = plain
                for model in models(on):
                    try:
                        found = _certainty(table, quasi, on, model, grade)
                    except ra.PrivacyError:
                        break  # the table cannot meet it, and so none that is stricter
                    steps = {k: found[k] / laxer[k] - 1 for k in KS}
                    rows.append(
                        {"grade": grade, "table": name, "model": str(model), "certainty": found, "dearer": steps}
                    )
                    laxer = found
        steps = [step for row in rows if row["grade"] == grade for step in row["dearer"].values()]
        cheaper = [-step for step in steps if step < -1e-9]
        print(
            f"{grade:9} {len(steps)} steps, {sum(abs(step) < 1e-9 for step in steps)} of no difference, {len(cheaper)} "
            f"cheaper, by {np.mean(cheaper or [0]):.3%} on average, {max(cheaper, default=0):.3%} at most",
            flush=True,
        )
    return {"ks": KS, "results": rows}


def _certainty(table: pa.Table, quasi: list[str], on: str, model: Model | None, grade: str) -> dict[int, float]:
    releases = ra.anonymize(table, KS, quasi, sensitive=[on], model=model, quality=grade)
    return {k: release.quality()["certainty"] for k, release in releases.items()}


def _figures(certainty: dict[int, float]) -> str:
    return "  ".join(f"k={k}: {figure:.4f}" for k, figure in certainty.items())


def people(table: pa.Table, name: str) -> dict[str, Any]:
    """Groups of k rows with fewer than k people, and what it costs to count people instead.

    The paper's figures are those of full-domain generalization, whose groups grow beyond k: there the share
    of vulnerable groups falls with k. The tree's groups have little more than k rows at any k, so there it does not.
    """
    quasi, on, rows = QUASI[name], SENSITIVE[name][0], []
    print("rows per person    k   vulnerable   single   full-domain   single   certainty, rows   people")
    for ratio, shares in ROWS_PER_PERSON.items():
        visits = with_visits(table.select([*quasi, on]), on, shares)
        for k in (2, 3, 5, 10, 20):
            ordinary = ra.anonymize(visits, k, quasi, sensitive=[on], keep=["person"], base_k=k)
            report = ra.check(ordinary.to_arrow(), quasi, identity="person").identity
            assert report is not None
            whole = ra.lattice.datafly(visits, dict.fromkeys(quasi), k=k, max_suppressed=1000, keep=["person"]).best()
            by_domain = ra.check(whole.to_arrow(), quasi, identity="person").identity
            assert by_domain is not None
            counted = ra.anonymize(visits, k, quasi, sensitive=[on], identity="person", base_k=k)
            row = {
                "rows_per_person": ratio,
                "k": k,
                "vulnerable_share": float(report.vulnerable(k).mean()),
                "single_share": report.n_single / ordinary.n_groups,
                "full_domain_vulnerable_share": float(by_domain.vulnerable(k).mean()),
                "full_domain_single_share": by_domain.n_single / whole.n_groups,
                "certainty_rows": ordinary.quality()["certainty"],
                "certainty_people": counted.quality()["certainty"],
            }
            rows.append(row)
            print(
                f"{ratio:15} {k:4} {row['vulnerable_share']:12.4f} {row['single_share']:8.4f} "
                f"{row['full_domain_vulnerable_share']:13.4f} {row['full_domain_single_share']:8.4f} "
                f"{row['certainty_rows']:17.4f} {row['certainty_people']:8.4f}",
                flush=True,
            )
    return {"rows": len(table), "quasi": quasi, "results": rows}


def with_visits(table: pa.Table, on: str, shares: tuple[float, float, float], seed: int = 0) -> pa.Table:
    """A table in which shares of the people have one, two and three rows, with other values of the sensitive column."""
    rng = np.random.default_rng(seed)
    times = rng.permutation(np.repeat([1, 2, 3], np.diff(np.rint(np.cumsum([0, *shares]) * len(table)).astype(int))))
    person = np.repeat(np.arange(len(table)), times)
    visits = table.take(pa.array(person))
    values, codes = np.unique(table.column(on).to_numpy(zero_copy_only=False), return_inverse=True)
    visit = np.concatenate([np.arange(n) for n in times])
    # The second and third row of a person get the values that follow in a random order, so that all differ.
    order = rng.permutation(len(values))
    place = np.argsort(order)
    other = values[order[(place[codes[person]] + visit) % len(values)]]
    visits = visits.set_column(visits.schema.get_field_index(on), on, pa.array(other))
    return visits.append_column("person", pa.array(person))


def speed(n_rows: int, grades: list[str], repeats: int) -> dict[str, Any]:
    """Seconds of the whole call with and without a model, in turns."""
    rng = np.random.default_rng(0)
    table = ra.generate("agrawal", n_rows, seed=0)
    quasi = table.column_names
    table = table.append_column("few", pa.array(rng.integers(0, 20, n_rows)))
    table = table.append_column("many", pa.array(rng.integers(0, 2000, n_rows)))
    table = table.append_column("person", pa.array(rng.integers(0, n_rows * 2 // 3, n_rows)))
    cases: dict[str, dict[str, Any]] = {
        "k alone": {},
        "distinct l=3, 20 values": {"model": ra.DistinctLDiversity(3, "few")},
        "entropy l=3, 20 values": {"model": ra.EntropyLDiversity(3, "few")},
        "t=0.5, 20 values": {"model": ra.TCloseness(0.5, "few")},
        "distinct l=3, 2000 values": {"model": ra.DistinctLDiversity(3, "many")},
        "ordered t=0.2, 2000 values": {"model": ra.TCloseness(0.2, "many", "ordered")},
        "k people": {"identity": "person"},
    }
    rows: dict[str, Any] = {}
    for grade in grades:

        def task(arguments: dict[str, Any], grade: str = grade) -> Callable[[], object]:
            return lambda: ra.anonymize(
                table, 10, quasi, sensitive=["few", "many"], base_k=10, quality=grade, threads=1, **arguments
            )

        seconds = timed_in_turns({name: task(arguments) for name, arguments in cases.items()}, repeats)
        alone = seconds["k alone"]["median"]
        rows[grade] = {name: {**times, "ratio": times["median"] / alone} for name, times in seconds.items()}
        for name, times in rows[grade].items():
            print(f"{grade:9} {name:28} {times['median']:7.2f} s  {times['ratio']:5.2f}", flush=True)
    return {"rows": n_rows, "k": 10, "results": rows}


INDEX_CASES: dict[str, tuple[Model | None, str | None]] = {
    "k alone": (None, None),
    "distinct l=3": (ra.DistinctLDiversity(3, "diagnosis"), None),
    "entropy l=3": (ra.EntropyLDiversity(3, "diagnosis"), None),
    "t=0.5": (ra.TCloseness(0.5, "diagnosis"), None),
    "k people": (None, "patient_id"),
    "k people, distinct l=3": (ra.DistinctLDiversity(3, "diagnosis"), "patient_id"),
}


def index(n_rows: int, repeats: int) -> dict[str, Any]:
    """Seconds of a load of patients at k = 10 into an index, in turns; then, once, of a release and of a batch."""
    quasi = QUASI["patients"]
    with TemporaryDirectory() as directory:
        source = Path(directory) / "patients.parquet"
        pyarrow.parquet.write_table(ra.generate("patients", n_rows, seed=0), source)
        batch = ra.generate("patients", max(n_rows // 100, 1), seed=1)

        def created(name: str) -> ra.Index:
            model, identity = INDEX_CASES[name]
            path = Path(directory) / "index"
            shutil.rmtree(path, ignore_errors=True)
            schema = ra.Schema(quasi, sensitive=["diagnosis"], identity=identity)
            return ra.Index.create(path, schema, k=10, model=model)

        def load(name: str) -> Callable[[], object]:
            def task() -> None:
                with created(name) as made:
                    made.load(source)

            return task

        seconds = timed_in_turns({name: load(name) for name in INDEX_CASES}, repeats)
        alone = seconds["k alone"]["median"]
        rows: dict[str, Any] = {}
        for name, times in seconds.items():
            with created(name) as made:
                made.load(source)
                leaves = made.stats()["leaves"]
                release = _seconds(lambda made=made: made.release(20).write(Path(directory) / "out.parquet"))
                (Path(directory) / "out.parquet").unlink()
                made.insert(batch)
                update = _seconds(made.checkpoint)
                made.verify()
            rows[name] = {
                **times,
                "ratio": times["median"] / alone,
                "leaves": leaves,
                "release_seconds": release,
                "checkpoint_seconds": update,
            }
            print(
                f"{name:24} load {times['median']:6.2f} s ({rows[name]['ratio']:.2f})  {leaves:8,} leaves  release at "
                f"k=20 {release:6.2f} s  checkpoint with {len(batch):,} new rows {update:6.2f} s",
                flush=True,
            )
    return {"rows": n_rows, "k": 10, "results": rows}


def _seconds(task: Callable[[], object]) -> float:
    begin = perf_counter()
    task()
    return perf_counter() - begin


if __name__ == "__main__":
    main()
