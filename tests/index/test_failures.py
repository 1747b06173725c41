"""P2, P8: a load that fails, whenever and for whatever reason, leaves the index as it was and nothing behind."""

from __future__ import annotations

import errno
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rtree_anon as ra
from rtree_anon.index.catalog import Catalog
from rtree_anon.index.creating import create_index_store
from rtree_anon.index.loading import Resources, load_source
from rtree_anon.index.verifying import verify_index
from rtree_anon.index.view import View
from rtree_anon.models import KAnonymity
from rtree_anon.storage import open_snapshot, open_store
from tests.index.making import pages_of, rows_by_id, tiny
from tests.storage.disk import SimulatedDisk

ROOT = Path(__file__).parents[2]
SOURCE = ra.generate("patients", 1200, seed=5)
SCHEMA = ra.Schema(["age", ra.Categorical("zip", allow_new=True), "sex"], sensitive=["diagnosis"])
OWN_NAMES = {"data", "journal", "writer.lock"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An index with rows."""
    with tiny(), ra.Index.create(tmp_path / "people.idx", SCHEMA, k=4) as index:
        index.load(SOURCE.slice(0, 500))
    return tmp_path / "people.idx"


def names_in(path: Path) -> set[str]:
    return {file.name for file in path.iterdir() if not file.name.startswith("reader-")}


class StoppedError(Exception):
    """What a test interrupts a load with."""


@pytest.mark.parametrize("raised", [KeyboardInterrupt, StoppedError])
def test_an_interrupt_at_any_call_of_progress(path: Path, raised: type[BaseException]) -> None:
    before, version = pages_of(path), None
    calls = 0
    with tiny(), ra.Index.open(path, mode="w") as index:
        version = index.version
        for last in range(1, 1000):
            calls = 0

            def on_progress(phase: str, done: int, total: int | None, last: int = last) -> None:
                nonlocal calls
                calls += 1
                if calls == last:
                    raise raised

            try:
                index.load(SOURCE.slice(500), on_progress)
                break
            except raised:
                assert (len(index), index.version) == (500, version)
                assert names_in(path) == OWN_NAMES
                assert pages_of(path) == before
        assert last > 5 and len(index) == 1200
        index.verify()


def failing_batches(n_good: int) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(SOURCE.slice(500).to_batches(max_chunksize=50)):
        if number == n_good:
            raise OSError(errno.EIO, "the network is gone")
        yield batch


def bad_sources(folder: Path) -> dict[str, Any]:
    """Sources of which the beginning is good."""
    good = SOURCE.slice(500)
    whole = folder / "good.parquet"
    pq.write_table(good, whole, row_group_size=100)
    truncated, flipped = folder / "truncated.parquet", folder / "flipped.parquet"
    content = bytearray(whole.read_bytes())
    truncated.write_bytes(content[:-20])
    content[2000] ^= 1
    flipped.write_bytes(content)
    text = folder / "text.csv"
    rows = [f"{row['age']},{row['zip']},{row['sex']},{row['diagnosis']}" for row in good.to_pylist()]
    text.write_text("\n".join(["age,zip,sex,diagnosis", *rows, "young,53703,F,flu"]))
    ragged = folder / "ragged.csv"
    ragged.write_text("\n".join(["age,zip,sex,diagnosis", *rows, "30,53703"]))
    return {
        "stream": failing_batches(7),
        "lacking": good.drop_columns(["zip"]),
        "truncated": truncated,
        "text": text,
        "ragged": ragged,
        "nothing": folder / "nothing.parquet",
    }


@pytest.mark.parametrize("name", ["stream", "lacking", "truncated", "text", "ragged", "nothing"])
def test_a_source_that_fails(path: Path, tmp_path: Path, name: str) -> None:
    before = pages_of(path)
    source = bad_sources(tmp_path)[name]
    with tiny(), ra.Index.open(path, mode="w") as index:
        with pytest.raises(ra.AnonError) as caught:
            index.load(source)
        assert not isinstance(caught.value, ra.StorageError)
        assert names_in(path) == OWN_NAMES and pages_of(path) == before
        assert index.load(SOURCE.slice(500)) == 700  # the handle goes on
        index.verify()


def test_a_key_that_comes_twice(tmp_path: Path) -> None:
    table = pa.table({"a": list(range(40)), "id": [*range(39), 5], "name": [f"n{i % 39}" for i in range(40)]})
    for key, message in (("id", "the key 5 names more than one row"), ("name", "the key 'n0' names more than one row")):
        path = tmp_path / f"{key}.idx"
        with ra.Index.create(path, ra.Schema(["a"], key=key), k=2) as index:
            with pytest.raises(ra.InputError, match=message):
                index.load(table)
            assert len(index) == 0 and names_in(path) == OWN_NAMES
            index.load(table.slice(0, 39))
            index.verify()
            with pytest.raises(ra.InputError, match="key"):
                index.load(table.slice(39))
            assert len(index) == 39


@pytest.mark.parametrize("kind", ["EIO", "ENOSPC"])
def test_a_failing_disk(tmp_path: Path, kind: str) -> None:
    """The error at the first, second, third … write or sync of a load, until none fires."""
    resources = Resources(1_000_000, 2, str(tmp_path))
    fails_at = ("write", "sync", "rename", "create", "sync_directory")
    n_done, position = 0, 0
    for position in range(1, 1000):
        if n_done:
            break
        disk = SimulatedDisk(position)
        with tiny():
            store = create_index_store("/i", Catalog(SCHEMA, 4, KAnonymity(4), "fast", 0), fs=disk)
            with View(store.snapshot(), "/i", 10**6) as view:
                load_source(store, view, SOURCE.slice(0, 300), resources, lambda phase, done, total: None)
            n_seen = 0

            def before(operation: str, path: str, position: int = position) -> str | None:
                nonlocal n_seen
                n_seen += operation in fails_at
                if n_seen == position and operation in fails_at:
                    raise OSError(getattr(errno, kind), f"injected {kind}", path)
                return None

            with View(store.snapshot(), "/i", 10**6) as view:
                disk.before = before
                try:
                    load_source(store, view, SOURCE.slice(300, 60), resources, lambda phase, done, total: None)
                    n_done = 360
                except ra.StorageError as error:
                    assert "injected" in str(error)
                disk.before = lambda operation, path: None
            store.close()
        assert disk.n_open == 0
        with open_store("/i", fs=disk) as again:
            assert "data.new" not in disk.names("/i")
            with View(again.snapshot(), "/i", 10**6) as view:
                assert view.catalog.n_rows in ((360,) if n_done else (300, 360))
    assert position > 10


def test_a_full_disk_in_a_process(path: Path, tmp_path: Path) -> None:
    """No file may grow beyond 64 KB: a sentence, exit code 3, and the index as it was."""
    before = pages_of(path)
    pq.write_table(pa.concat_tables([SOURCE] * 20), tmp_path / "more.parquet")

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

    command = [sys.executable, "-m", "rtree_anon.cli", "load", str(path), str(tmp_path / "more.parquet")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 3 and "File too large" in done.stderr and "Traceback" not in done.stderr
    with ra.Index.open(path, mode="w") as index:
        assert names_in(path) == OWN_NAMES and pages_of(path) == before
        index.verify()


def test_killed_while_loading(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.index.killing", str(tmp_path), "20", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["kills"] == 20 and found["unfinished"] > 0


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 22))
def test_killed_while_loading_deep(tmp_path: Path, seed: int) -> None:
    command = [sys.executable, "-m", "tests.index.killing", str(tmp_path), "50", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_verify_after_a_failed_load_of_an_empty_index(tmp_path: Path) -> None:
    with tiny(), ra.Index.create(tmp_path / "i", SCHEMA) as index:
        with pytest.raises(ra.InputError, match="there are no rows"):
            index.load(SOURCE.slice(0, 0))
        assert index.verify().n_rows == 0
        with pytest.raises(ra.PrivacyError, match="0 rows cannot be released"):
            index.release(5)
        index.load(SOURCE)
        assert len(rows_by_id(index)) == 1200
        with open_snapshot(tmp_path / "i") as snapshot:
            verify_index(View(snapshot, str(tmp_path / "i"), 10**6))
