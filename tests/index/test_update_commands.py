"""The commands insert, delete, update and changes, and rows that arrive as a stream."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pytest

import rtree_anon as ra
from rtree_anon.io.line_stream import Chunk, chunks
from tests.cli.running import run

SCHEMA = ra.Schema(["age", ra.Categorical("city", allow_new=True)], sensitive=["illness"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with ra.Index.create(tmp_path / "people.idx", SCHEMA, k=2) as index:
        index.load(pa.table({"age": list(range(40)), "city": ["Bonn", "Ulm"] * 20, "illness": ["flu"] * 40}))
    return tmp_path / "people.idx"


def test_insert_update_delete_changes(path: Path, tmp_path: Path) -> None:
    with ra.Index.open(path) as index:
        since = index.version
    table = pa.table({"age": [1, 2, 99], "city": ["Bonn", "Kiel", "Ulm"], "illness": ["x", "y", "z"]})
    pc.write_csv(table, tmp_path / "new.csv")
    done = run("insert", str(path), str(tmp_path / "new.csv"), "--json")
    assert done.code == 0 and json.loads(done.out)["rows"] == 43
    (tmp_path / "gone.csv").write_text("id\n3\n41\n")
    done = run("delete", str(path), "--ids", str(tmp_path / "gone.csv"), "--json")
    assert done.code == 0 and json.loads(done.out)["rows"] == 41
    (tmp_path / "changed.csv").write_text("id,age,city,illness\n42,50,Bonn,w\n")
    done = run("update", str(path), str(tmp_path / "changed.csv"), "--json")
    assert done.code == 0 and json.loads(done.out)["rows_updated"] == 1
    refused = run("changes", str(path), "--since", str(since), "-k", "5")
    assert refused.code == 1 and "fewer than 5 rows" in refused.err
    out = tmp_path / "changes"
    done = run("changes", str(path), "--since", str(since), "-k", "5", "--allow-small", "-o", str(out), "--json")
    assert done.code == 0 and json.loads(done.out)["gained"] == 2 and json.loads(done.out)["lost"] == 1
    assert {"added.parquet", "dropped.parquet"} <= {file.name for file in out.iterdir()}
    assert run("verify", str(path)).code == 0


def test_an_unknown_row_is_one_sentence(path: Path, tmp_path: Path) -> None:
    (tmp_path / "gone.csv").write_text("id\n3\n4000\n")
    done = run("delete", str(path), "--ids", str(tmp_path / "gone.csv"))
    assert done.code == 1 and "there is no row 4000" in done.err
    with ra.Index.open(path) as index:
        assert len(index) == 40


@pytest.mark.parametrize("file_format", ["ndjson", "csv"])
def test_rows_from_standard_input(path: Path, file_format: str) -> None:
    lines = ["age,city,illness"] if file_format == "csv" else []
    for age in range(25):
        row = {"age": age, "city": "Jena", "illness": 'a "quoted", illness'}
        lines.append(json.dumps(row) if file_format == "ndjson" else f'{age},Jena,"a ""quoted"",\nillness"')
    arguments = ["insert", str(path), "-", "--format", file_format, "--batch-rows", "7", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "rtree_anon.cli", *arguments], input="\n".join(lines), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows_inserted"] == 25
    with ra.Index.open(path) as index:
        assert len(index) == 65


def test_chunks_by_size() -> None:
    content = b"".join(b"%d\n" % number for number in range(100))
    found = list(chunks(io.BytesIO(content), "ndjson", 30, 60.0))
    assert b"".join(chunk.content for chunk in found) == content
    assert [chunk.content.count(b"\n") for chunk in found] == [30, 30, 30, 10]
    assert [chunk.first_line for chunk in found] == [1, 31, 61, 91]


def test_chunks_by_time() -> None:
    read_end, write_end = os.pipe()

    def write() -> None:
        with os.fdopen(write_end, "wb", buffering=0) as pipe:
            pipe.write(b"head\n1\n")
            time.sleep(0.5)
            pipe.write(b"2\n3")

    threading.Thread(target=write).start()
    with os.fdopen(read_end, "rb") as stream:
        assert list(chunks(stream, "csv", 1000, 0.05)) == [Chunk(b"head\n", b"1\n", 2), Chunk(b"head\n", b"2\n3", 3)]


def test_a_row_in_quotes_is_not_cut() -> None:
    content = b'a\n"1\n2\n3"\n4\n'
    assert [chunk.content for chunk in chunks(io.BytesIO(content), "csv", 2, 60.0)] == [b'"1\n2\n3"\n', b"4\n"]
