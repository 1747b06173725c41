"""What does a row cost between a file and the codes of a bulk load, against decoding the file alone?

    python -m bench.reading [--rows 2000000] [--repeats 3]

For Agrawal's data (9 whole numbers, Parquet) and patients (whole numbers, dates, five columns of text; Parquet and CSV)
in nanoseconds per row, in one thread, the fastest of some turns: `decode` is Arrow's reader alone; `prepare` binds the
schema; `sample` takes 50,000 rows; `codes` reads and codes all rows, carried columns included.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

import rtree_anon as ra
from bench.harness import keep, timed_in_turns
from rtree_anon.io.loading import PreparedLoad, prepare_load

BATCH_ROWS = 1 << 16
SAMPLE_ROWS = 50_000
PATIENTS = ra.Schema(
    ["age", "sex", "zip", "birth_date", "marital_status", "education"],
    "diagnosis",
    identity="patient_id",
    key="visit_id",
)


def measured(folder: Path, n_rows: int, repeats: int) -> dict[str, dict[str, float]]:
    """Nanoseconds per row by file and step."""
    agrawal, patients = ra.generate("agrawal", n_rows, seed=0), ra.generate("patients", n_rows, seed=0)
    pq.write_table(agrawal, folder / "agrawal.parquet", compression="zstd")
    pq.write_table(patients, folder / "patients.parquet", compression="zstd")
    pa_csv.write_csv(patients, folder / "patients.csv")
    schemas = {
        "agrawal.parquet": ra.Schema(agrawal.column_names),
        "patients.parquet": PATIENTS,
        "patients.csv": PATIENTS,
    }
    results = {}
    for name, schema in schemas.items():
        steps = _steps(folder / name, schema)
        seconds = timed_in_turns(steps, repeats)
        results[name] = {step: times["fastest"] / n_rows * 1e9 for step, times in seconds.items()}
    return results


def _steps(path: Path, schema: ra.Schema) -> dict[str, Any]:
    def prepared() -> PreparedLoad:
        return prepare_load(path, schema, directory=str(path.parent))

    def codes() -> None:
        for batch in ready.batches(BATCH_ROWS):
            batch.codes()

    ready = prepared()
    decode = _decode_csv if path.suffix == ".csv" else _decode_parquet
    return {
        "decode": lambda: decode(path),
        "prepare": prepared,
        "sample": lambda: ready.sample(SAMPLE_ROWS),
        "codes": codes,
    }


def _decode_parquet(path: Path) -> None:
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for _ in file.iter_batches(batch_size=BATCH_ROWS, use_threads=False):
            pass


def _decode_csv(path: Path) -> None:
    with pa_csv.open_csv(path, read_options=pa_csv.ReadOptions(use_threads=False)) as reader:
        for _ in reader:
            pass


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measured(Path(folder), options.rows, options.repeats)
    print(f"{'ns per row':18} {'decode':>8} {'prepare':>8} {'sample':>8} {'codes':>8}")
    for name, steps in results.items():
        print(f"{name:18} " + " ".join(f"{nanoseconds:8.1f}" for nanoseconds in steps.values()))
    path = keep("reading", {"rows": options.rows, "batch_rows": BATCH_ROWS, "ns_per_row": results})
    print(f"kept in {path}")


if __name__ == "__main__":
    main()
