"""Damaged files: small valid files of every format, and seeded ways to damage them.

`damaged_file(seed)` is a pure function of the seed, so every failure can be repeated with one number.
"""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rtree_anon.schema import Schema

SCHEMA = Schema(["age", "zip", "when", "ratio"], sensitive=["illness"], keep=["note"])
N_ROWS = 300
_SPECIAL = [
    b'"',
    b"\0",
    b"\n",
    b"\r",
    b",",
    b"\xff",
    b"\xef\xbb\xbf",
    b'""',
    b"inf",
    b"\xff\xff\xff\xff",
    b";",
    b"1e999",
]


@dataclass(frozen=True)
class DamagedFile:
    """What to write, under which suffix, and which damage was done."""

    content: bytes
    suffix: str
    damage: str


def damaged_file(seed: int) -> DamagedFile:
    """The damaged file of a seed."""
    rng = np.random.default_rng(seed)
    formats = valid_files()
    suffix, content = formats[int(rng.integers(len(formats)))]
    damages = []
    for _ in range(int(rng.integers(1, 4))):
        content, damage = _damaged(content, rng)
        damages.append(damage)
    return DamagedFile(content, suffix, ", ".join(damages))


@cache
def valid_files() -> list[tuple[str, bytes]]:
    """(suffix, content) of one file per format and flavour."""
    table = _table()
    plain = _csv(table, csv.QUOTE_MINIMAL)
    return [
        (".csv", plain),
        (".csv", _csv(table, csv.QUOTE_ALL)),
        (".csv", plain.replace(b"\n", b"\r\n")),
        (".csv.gz", gzip.compress(plain, mtime=0)),
        (".csv.zst", pa.compress(plain, "zstd", asbytes=True)),
        (".parquet", _parquet(table, compression="snappy", row_group_size=100)),
        (".parquet", _parquet(table, compression="none", use_dictionary=False, row_group_size=64)),
        (".parquet", _parquet(table, compression="zstd", write_page_checksum=True, data_page_version="2.0")),
        (".arrow", _arrow(table, stream=False)),
        (".arrows", _arrow(table, stream=True)),
    ]


def rows_by_csv_module(path: Path) -> int:
    """The rows of a CSV file as Python's own strict reader counts them; raises what that raises."""
    raw = path.read_bytes()
    if path.suffix == ".gz":
        raw = gzip.decompress(raw)
    elif path.suffix == ".zst":
        raw = pa.input_stream(pa.BufferReader(raw), compression="zstd").read()
    text = raw.decode("utf-8-sig", errors="replace")
    first_line = text.lstrip("\r\n").splitlines()[0]
    delimiter = next((sign for sign in ",;\t|" if sign in first_line), ",")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    return sum(1 for row in rows if row) - 1


def _table() -> pa.Table:
    rng = np.random.default_rng(0)
    missing = rng.random(N_ROWS) < 0.05
    return pa.table(
        {
            "age": pa.array(rng.integers(18, 90, N_ROWS), mask=missing),
            "zip": pa.array([f"{z:05}" for z in rng.integers(1000, 1050, N_ROWS)]),
            "when": pa.array(rng.integers(0, 20_000, N_ROWS).astype(np.int32)).cast(pa.date32()),
            "ratio": pa.array(rng.integers(0, 10_000, N_ROWS) / 100, mask=missing),
            "illness": pa.array([["flu", "cold", 'a "rare" one'][i] for i in rng.integers(0, 3, N_ROWS)]),
            "note": pa.array([["", "two\nlines", "a, b", "ü"][i] for i in rng.integers(0, 4, N_ROWS)]),
        }
    )


def _csv(table: pa.Table, quoting: int) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, quoting=quoting, lineterminator="\n")  # type: ignore[arg-type]
    writer.writerow(table.column_names)
    for row in table.to_pylist():
        writer.writerow(["" if value is None else value for value in row.values()])
    return text.getvalue().encode()


def _parquet(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _arrow(table: pa.Table, *, stream: bool) -> bytes:
    sink = io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=128)
    return sink.getvalue()


def _damaged(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    if not content:
        return content, "nothing left"
    at = int(rng.integers(len(content)))
    if rng.random() < 0.4:  # near the end, where Parquet and Arrow keep what they need first
        at = max(0, len(content) - 1 - int(rng.integers(min(600, len(content)))))
    length = int(rng.choice([1, 2, 4, 8, 40]))
    kind = int(rng.integers(7))
    if kind == 0:
        flipped = content[at] ^ (1 << int(rng.integers(8)))
        return content[:at] + bytes([flipped]) + content[at + 1 :], f"bit flipped at {at}"
    if kind == 1:
        return content[:at] + content[at + length :], f"{length} bytes cut out at {at}"
    if kind == 2:
        return content[:at], f"cut off at {at}"
    if kind == 3:
        special = _SPECIAL[int(rng.integers(len(_SPECIAL)))]
        return content[:at] + special + content[at:], f"{special!r} put in at {at}"
    if kind == 4:
        special = _SPECIAL[int(rng.integers(len(_SPECIAL)))]
        return content[:at] + special + content[at + len(special) :], f"{special!r} written over {at}"
    if kind == 5:
        return content[: at + length] + content[at:], f"{length} bytes doubled at {at}"
    noise = rng.bytes(length)
    return content[:at] + noise + content[at + length :], f"{length} random bytes written over {at}"
