"""Writing releases: complete, checked and durable, or not there at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import rtree_anon as ra
from rtree_anon.io.run_batches import RunBatch
from rtree_anon.release import Release, writing
from rtree_anon.release.writing import write_releases
from rtree_anon.storage.publish import read_publication
from tests.release.mixed import FLAVOURS, make_mixed

NAMES = ["q0", "q1", "q2", "q3"]


@pytest.fixture(scope="module")
def releases() -> dict[int, Release]:
    mixed = make_mixed(8, 200, ["int", "weird", "date", "tree"], [0.2, 0.2, 0.0, 0.1])
    return ra.anonymize(mixed.table, k=[4, 20], **mixed.options)


@pytest.fixture
def release(releases: dict[int, Release]) -> Release:
    return releases[4]


@pytest.mark.parametrize("style", ["interval", "text"])
@pytest.mark.parametrize("layout", ["rows", "groups"])
def test_parquet_holds_the_released_table(release: Release, tmp_path: Path, style: str, layout: str) -> None:
    path = tmp_path / "out.parquet"
    release.write(path, style=style, layout=layout)
    assert pyarrow.parquet.read_table(path, page_checksum_verification=True).equals(release.to_arrow(style, layout))
    counts = "count" if layout == "groups" else None
    report = ra.check(path, quasi=NAMES, counts=counts)
    assert report.k >= 4 and report.n_rows == 200
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out.parquet"]


def test_parquet_pages_have_checksums(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    release.write(path)
    content = bytearray(path.read_bytes())
    damaged = 0
    for place in range(8, len(content) // 2, 37):
        flipped = bytearray(content)
        flipped[place] ^= 4
        (tmp_path / "flipped.parquet").write_bytes(flipped)
        try:
            pyarrow.parquet.read_table(tmp_path / "flipped.parquet", page_checksum_verification=True)
        except OSError as error:
            damaged += "checksum" in str(error)
    assert damaged > 0


@pytest.mark.parametrize("style", [None, "interval", "text"])
@pytest.mark.parametrize("layout", ["rows", "groups"])
def test_csv(release: Release, tmp_path: Path, style: str | None, layout: str) -> None:
    path = tmp_path / "out.csv"
    release.write(path, style=style, layout=layout)
    strings = {name: pa.string() for name in release.to_arrow(style or "text", layout).column_names}
    options = pyarrow.csv.ConvertOptions(
        column_types=strings, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    read = pyarrow.csv.read_csv(path, convert_options=options)
    expected = release.to_arrow(style or "text", layout)  # CSV is text style by default
    assert read.column_names == expected.column_names
    for name in read.column_names:
        if not pa.types.is_list(expected.schema.field(name).type):
            assert read.column(name).to_pylist() == expected.column(name).cast(pa.string()).to_pylist()
    if layout == "groups":
        assert read.column("count").cast(pa.int64()).to_pylist() == release.group_sizes.tolist()
        illnesses = [",".join(values) for values in expected.column("illness").to_pylist()]
        assert read.column("illness").to_pylist() == illnesses


def test_lists_in_csv_tell_missing_from_empty(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 1, 1, 1], "s": ["", None, "a,b", "c"]})
    ra.anonymize(table, k=4, quasi=["x"], sensitive=["s"]).write(tmp_path / "out.csv", layout="groups")
    (group,) = pyarrow.csv.read_csv(tmp_path / "out.csv").to_pylist()
    assert group["s"] == ',"","a,b",c'


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_kind_can_be_written_and_is_checked(tmp_path: Path, flavour: str) -> None:
    mixed = make_mixed(9, 120, [flavour], [0.2])
    for compact in (True, False):
        release = ra.anonymize(mixed.table, k=3, compact=compact, **mixed.options)
        for suffix in ("csv", "parquet"):
            for style in ("text", "interval"):
                release.write(tmp_path / f"out.{suffix}", style=style, overwrite=True)
                assert ra.check(tmp_path / f"out.{suffix}", quasi=["q0"]).k >= 3


def test_asked_columns_are_written(release: Release, tmp_path: Path) -> None:
    release.write(tmp_path / "out.parquet", key=True, group_id=True)
    names = pyarrow.parquet.read_schema(tmp_path / "out.parquet").names
    assert names == release.to_arrow(key=True, group_id=True).column_names


def test_an_existing_file_is_refused_unless_it_may_be_replaced(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("precious")
    with pytest.raises(ra.UsageError, match="exists already"):
        release.write(path)
    assert path.read_text() == "precious"
    release.write(path, overwrite=True)
    assert ra.check(path, quasi=NAMES).k >= 4


@pytest.mark.parametrize("name", ["out", "out.txt", "out.parquet.gz", "out.xlsx"])
def test_other_endings_are_refused(release: Release, tmp_path: Path, name: str) -> None:
    with pytest.raises(ra.UsageError, match=r"\.parquet or \.csv"):
        release.write(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("before", [None, "precious"])
def test_nothing_is_left_behind_when_a_batch_fails(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, before: str | None
) -> None:
    path = tmp_path / f"out.{suffix}"
    if before is not None:
        path.write_text(before)
    source = "runs" if suffix == "parquet" else "batches"
    whole = getattr(release, source)

    def failing(*arguments: Any, **options: Any) -> Iterator[object]:
        yield from whole(*arguments, **options)
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr(release, source, failing)
    with pytest.raises(RuntimeError, match="on fire"):
        release.write(path, overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ([] if before is None else [path.name])
    assert before is None or path.read_text() == before


class Doubtful:
    """A report of a checker that found less than what was asked for."""

    def __init__(self, k: int, n_rows: int) -> None:
        self.k, self.n_rows = k, n_rows


@pytest.mark.parametrize("report", [Doubtful(3, 200), Doubtful(4, 199)])
def test_a_file_that_the_checker_doubts_never_gets_its_name(
    releases: dict[int, Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Doubtful
) -> None:
    monkeypatch.setattr(writing, "check_k", lambda *arguments, **options: report)
    with pytest.raises(ra.PrivacyError, match="checked"):
        releases[4].write(tmp_path / "out.parquet")
    with pytest.raises(ra.PrivacyError, match="checked"):
        write_releases(releases, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_checker_reads_the_file_that_was_written(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that get lost on the way to the file are noticed by the real checker."""
    rows, batches = release.runs, release.batches
    monkeypatch.setattr(release, "runs", lambda *a, **o: map(one_row_less, rows(*a, **o)))
    monkeypatch.setattr(release, "batches", lambda *a, **o: (batch.slice(1) for batch in batches(*a, **o)))
    for name in ("out.parquet", "out.csv"):
        with pytest.raises(ra.PrivacyError, match="199 rows of 200"):
            release.write(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def one_row_less(batch: RunBatch) -> RunBatch:
    lengths = batch.lengths.copy()
    lengths[np.argmax(lengths)] -= 1
    return RunBatch(lengths, batch.repeated, {name: values.slice(1) for name, values in batch.single.items()})


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_a_directory_of_releases_with_a_manifest(
    releases: dict[int, Release], tmp_path: Path, file_format: str
) -> None:
    manifest = write_releases(releases, tmp_path / "out", file_format)
    assert read_publication(tmp_path / "out") == manifest
    names = [f"k4.{file_format}", f"k20.{file_format}"]
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == sorted([*names, "manifest.json"])
    for name, k in zip(names, (4, 20), strict=True):
        facts = manifest["releases"][name]
        assert facts["k"] == k and facts["rows"] == 200 and facts["groups"] == releases[k].n_groups
        assert facts["smallest_group"] >= k and facts["quality"] == releases[k].quality()
        assert facts["safe_together_at"] == "KAnonymity(4)"
        assert ra.check(tmp_path / "out" / name, quasi=NAMES).k >= k


def test_a_flipped_bit_in_a_published_file_is_noticed(releases: dict[int, Release], tmp_path: Path) -> None:
    write_releases(releases, tmp_path / "out")
    path = tmp_path / "out" / "k20.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ra.CorruptionError, match="k20"):
        read_publication(tmp_path / "out")


def test_an_existing_directory_and_an_unknown_format_are_refused(releases: dict[int, Release], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("")
    with pytest.raises(ra.UsageError, match="exists already"):
        write_releases(releases, tmp_path / "out")
    with pytest.raises(ra.UsageError, match="format"):
        write_releases(releases, tmp_path / "other", "xlsx")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_release_that_fails_leaves_no_directory(
    releases: dict[int, Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases[20], "runs", lambda *a, **o: (_ for _ in ()).throw(RuntimeError("on fire")))
    with pytest.raises(RuntimeError, match="on fire"):
        write_releases(releases, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_columns_that_would_share_a_name_are_refused(tmp_path: Path) -> None:
    numbers = list(range(12))
    for roles in (
        {"quasi": ["x"], "sensitive": ["x_lo"]},
        {"quasi": ["x"], "keep": ["x_missing"]},
        {"quasi": ["x", "x_hi"]},
        {"quasi": ["x"], "key": "x_lo"},
    ):
        table = pa.table(dict.fromkeys(("x", "x_lo", "x_hi", "x_missing"), numbers))
        with pytest.raises(ra.SchemaError, match="x_"):
            ra.anonymize(table, k=3, **roles)
    clashing = pa.table({"x": numbers, "count": numbers, "group": numbers})
    release = ra.anonymize(clashing, k=3, quasi=["x"], sensitive=["count", "group"])
    assert release.to_arrow().num_rows == 12
    with pytest.raises(ra.UsageError, match="'count'"):
        release.write(tmp_path / "out.csv", layout="groups")
    with pytest.raises(ra.UsageError, match="'group'"):
        release.write(tmp_path / "out.csv", group_id=True)
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_of_a_lattice_release_promises_no_safety_together(tmp_path: Path) -> None:
    """Full-domain releases do not come from one tree: a manifest must not say that they are safe together."""
    table = pa.table({"zip": ["02138", "02139", "02141", "02142"] * 3})
    result = ra.lattice.incognito(table, {"zip": ra.Hierarchy.digits(1)}, k=3)
    release = result.best("absolute")
    facts = write_releases({3: release}, tmp_path / "out")["releases"]["k3.parquet"]
    assert facts["safe_together_at"] is None
    assert facts["model"] == release.facts.model
