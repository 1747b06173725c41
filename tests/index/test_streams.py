"""Rows from standard input as a user would send them: bad lines, an interrupt, a producer that pauses.

Whatever happens in mid-stream, batches that were acknowledged stay, become a version, and the error names the line.
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import rtree_anon as ra

SCHEMA = ra.Schema(["age", ra.Categorical("city")], sensitive=["illness"], key="visit")
COMMAND = [sys.executable, "-m", "rtree_anon.cli"]
WAIT = 240.0  # seconds until something is taken to hang; kernels may have to be compiled first


def people(first: int, end: int) -> pa.Table:
    numbers = range(first, end)
    cities = [("Bonn", "Ulm")[number % 2] for number in numbers]
    columns = {"age": list(numbers), "city": cities, "illness": ["flu"] * len(numbers)}
    return pa.table(columns | {"visit": [f"v{number}" for number in numbers]})


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kernels are compiled here, and not by every process that is waited for."""
    with ra.Index.create(tmp_path_factory.mktemp("warm") / "people.idx", SCHEMA, k=2) as index:
        index.load(people(0, 40))
        index.insert(people(40, 60))
        index.checkpoint()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with ra.Index.create(tmp_path / "people.idx", SCHEMA, k=2) as index:
        index.load(people(0, 40))
    return tmp_path / "people.idx"


def line(number: int, file_format: str, **other: object) -> str:
    row = {
        "age": number % 80,
        "city": "Bonn",
        "illness": 'so "called"' if number % 7 == 0 else "x",
        "visit": f"n{number}",
    }
    row |= other
    if file_format == "ndjson":
        return json.dumps(row)
    return ",".join('"' + str(value).replace('"', '""') + '"' for value in row.values())


BAD = {
    "no JSON": ('{"age": oops}', "ndjson", "not a JSON object"),
    "a list": ("[1, 2]", "ndjson", "not a JSON object"),
    "another type": (line(99, "ndjson", age="old"), "ndjson", "another form"),
    "unknown category": (line(99, "ndjson", city="Rom"), "ndjson", "'Rom' is not known"),
    "key that is taken": (line(99, "ndjson", visit="v3"), "ndjson", "'v3' names more than one row"),
    "no key": ('{"age": 1, "city": "Bonn", "illness": "x"}', "ndjson", "the key is missing"),
    "no number": (line(99, "csv", age="old"), "csv", "'old' is not a whole number"),
    "too few fields": ("7,Bonn", "csv", "2 fields"),
    "taken, CSV": (line(99, "csv", visit="v3"), "csv", "'v3' names more than one row"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_line_in_mid_stream(path: Path, what: str) -> None:
    bad, file_format, problem = BAD[what]
    header = ["age,city,illness,visit"] if file_format == "csv" else []
    lines = [*header, *(line(number, file_format) for number in range(4)), ""]
    lines += [line(number, file_format) for number in range(4, 25)]
    lines += [bad, *(line(number, file_format) for number in range(100, 110))]
    command = [*COMMAND, "insert", str(path), "-", "--format", file_format, "--batch-rows", "10", "--ids"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=WAIT)
    names = done.stdout.split()
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"standard input, line {lines.index(bad) + 1}" in done.stderr and problem in done.stderr
    assert f"{len(names)} rows were inserted and stay (version " in done.stderr
    assert names == [f"n{number}" for number in range(len(names))] and 15 < len(names) <= 25
    with ra.Index.open(path) as index:  # a version, not only the journal
        assert len(index) == 40 + len(names)
        index.verify()


def test_names_of_a_stream(path: Path) -> None:
    """Deleting and updating by a stream; a name that there is not ends it, what came before stays."""
    names = "".join(f"v{number}\n" for number in range(12))
    command = [*COMMAND, "delete", str(path), "--ids", "-", "--format", "csv", "--batch-rows", "5"]
    done = subprocess.run(
        command, input=f"visit\n{names}nobody\nv20\n", capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert done.returncode == 1 and "there is no row 'nobody'" in done.stderr and "9 rows were deleted" in done.stderr
    with ra.Index.open(path) as index:
        assert len(index) == 31
    rows = "".join(line(7, "ndjson", visit=f"v{number}", age=99) + "\n" for number in range(30, 40))
    command = [*COMMAND, "update", str(path), "-", "--batch-rows", "4", "--json"]
    done = subprocess.run(command, input=rows, capture_output=True, text=True, timeout=WAIT, check=True)
    assert json.loads(done.stdout)["rows_updated"] == 10
    with ra.Index.open(path) as index:
        assert index.release(k=2).to_arrow()["age_hi"].to_pylist().count(99) >= 10


class Producer:
    """A running `insert -`, fed line by line; `printed` waits for a line that it prints."""

    def __init__(self, path: Path, *options: str) -> None:
        command = [*COMMAND, "insert", str(path), "-", "--ids", *options]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, text: str) -> None:
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def printed(self) -> str:
        return self._lines.get(timeout=WAIT)

    def ended(self) -> tuple[int, str]:
        self.process.wait(WAIT)
        self._reader.join(WAIT)
        errors = self.process.stderr.read()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()
        return self.process.returncode, errors

    def _read(self) -> None:
        for printed in self.process.stdout:
            self._lines.put(printed.strip())


def test_rows_of_a_producer_that_pauses_do_not_wait(path: Path) -> None:
    """The time is up though no further line comes, and though half a line waits; a quote is no reason to wait."""
    producer = Producer(path, "--batch-rows", "1000000", "--batch-seconds", "0.2")
    half = line(2, "ndjson")
    producer.send(line(0, "ndjson") + "\n" + line(1, "ndjson", illness='5" too long') + "\n" + half[:9])
    assert [producer.printed(), producer.printed()] == ["n0", "n1"]
    producer.send(half[9:] + "\n")
    assert producer.printed() == "n2"
    producer.process.stdin.close()
    assert producer.ended() == (0, "")
    with ra.Index.open(path) as index:
        assert len(index) == 43


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_stream_keeps_what_was_acknowledged(path: Path, number: signal.Signals) -> None:
    producer = Producer(path, "--batch-rows", "3")
    producer.send("".join(line(row, "ndjson") + "\n" for row in range(6)) + line(6, "ndjson") + "\n")
    assert [producer.printed() for _ in range(6)] == [f"n{row}" for row in range(6)]
    producer.process.send_signal(number)
    code, errors = producer.ended()
    if number == signal.SIGKILL:
        with ra.Index.open(path, mode="w") as index:  # from the journal
            assert len(index) in (46, 47)
            index.checkpoint()
            index.verify()
        return
    assert code == 128 + number and "Traceback" not in errors
    if number == signal.SIGINT:
        assert "interrupted; " in errors and "rows were inserted and stay" in errors
    with ra.Index.open(path) as index:
        assert len(index) in (46, 47)
        index.verify()
