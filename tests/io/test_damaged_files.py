"""Whatever happens to a file, reading it gives a table with all its rows or an error of ours; never anything else.
The same holds for loading it in batches, which every third file is.

Each file is a pure function of its seed (`mutations.damaged_file`); a failure prints the seed and the damage. Row
counts are compared with Python's own CSV reader, and with the rows that were written for the other formats. A crash
of the process, or one file that takes long, fails too: each batch of files runs in a child process with a time limit
and a limit on memory.
"""

from __future__ import annotations

import csv
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rtree_anon.errors import AnonError
from rtree_anon.io.loading import prepare_load
from rtree_anon.io.table import read_table

from .mutations import N_ROWS, SCHEMA, damaged_file, rows_by_csv_module, valid_files

SECONDS_PER_BATCH = 600
MEMORY_BYTES = 8 << 30  # address space, most of which compilers and allocators only reserve


@pytest.mark.parametrize("seed", [0])
def test_damaged_files(seed: int) -> None:
    _run_batch(seed, 1000)


@pytest.mark.deep
@pytest.mark.parametrize("first_seed", range(1000, 51_000, 1000))
def test_many_damaged_files(first_seed: int) -> None:
    _run_batch(first_seed, 1000)


@pytest.mark.parametrize("number", range(len(valid_files())))
def test_files_that_are_not_damaged(number: int, tmp_path: Path) -> None:
    """The files that the damage is done to are read in full, so that an error above comes from the damage."""
    suffix, content = valid_files()[number]
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    coded = read_table(path, SCHEMA)
    assert coded.n_rows == coded.payload.num_rows == N_ROWS
    if ".csv" in suffix:
        assert rows_by_csv_module(path) == N_ROWS


def _run_batch(first_seed: int, n_files: int) -> None:
    command = [sys.executable, "-m", "tests.io.test_damaged_files", str(first_seed), str(n_files)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=SECONDS_PER_BATCH, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\nrepeat: {' '.join(command[1:])}"
    assert done.stdout.splitlines()[-1] == f"{n_files} files"


def _check(seed: int, folder: Path) -> str | None:
    """What is wrong with how the file of this seed is read, if anything."""
    damaged = damaged_file(seed)
    path = folder / f"x{damaged.suffix}"
    path.write_bytes(damaged.content)
    try:
        n_rows = read_table(path, SCHEMA).n_rows if seed % 3 else _loaded(path, folder)
    except AnonError as error:
        return None if "\n" not in str(error) else f"more than one line: {str(error)!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if ".csv" not in damaged.suffix:
        expected: object = N_ROWS
    else:
        try:
            expected = rows_by_csv_module(path)
        except (csv.Error, OSError) as error:
            expected = error
    return None if n_rows == expected else f"{n_rows} rows where there are {expected}"


def _loaded(path: Path, folder: Path) -> int:
    """How many rows a bulk load of the file would code."""
    with prepare_load(path, SCHEMA, directory=str(folder)) as prepared:
        assert len(prepared.sample(50)) <= N_ROWS
        return sum(batch.codes().shape[1] for batch in prepared.batches(100))


def main(first_seed: int, n_files: int) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    n_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first_seed, first_seed + n_files):
            print(f"seed {seed}", file=sys.stderr, flush=True)  # the last line tells which file killed the process
            wrong = _check(seed, Path(folder))
            if wrong is not None:
                n_wrong += 1
                print(f"seed {seed} ({damaged_file(seed).suffix}: {damaged_file(seed).damage}): {wrong}")
    print(f"{n_files} files")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
