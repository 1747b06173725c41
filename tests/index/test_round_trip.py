"""Whatever is loaded comes back: every row once, in a leaf of at least k, released inside its group's values (P11)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from tests.index.making import pages_of, rows_by_id, rows_of, tiny
from tests.release.mixed import FLAVOURS, Mixed, check_rows, make_mixed, mixed_tables

SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.idx"


def fresh() -> Path:
    return Path(tempfile.mkdtemp(prefix="rtree-anon-")) / "people.idx"


def schema_of(mixed: Mixed, key: str | None = "row") -> ra.Schema:
    keep = ["ward"] if key else ["ward", "row"]
    return ra.Schema(mixed.quasi, sensitive=["illness"], keep=keep, key=key, weights=mixed.weights)


@SETTINGS
@given(mixed_tables(max_rows=400), st.integers(1, 6), st.sampled_from(["fast", "balanced"]), st.booleans())
def test_every_row_comes_back(mixed: Mixed, k: int, quality: str, compact: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, tiny():
        path = Path(folder) / "people.idx"
        with ra.Index.create(path, schema_of(mixed), k=k, quality=quality) as index:
            assert index.load(mixed.table) == len(index) == mixed.table.num_rows
            report = index.verify()
            assert report.n_rows == mixed.table.num_rows
            assert report.smallest_leaf >= min(k, len(index))
            if len(index) < k:
                with pytest.raises(ra.PrivacyError, match=f"{len(index)} rows cannot be released at k={k}"):
                    index.release(k)
                return
            check_rows(mixed, index.release(k, compact=compact))
            larger = min(3 * k, len(index))
            release = index.release(larger, method="greedy")
            check_rows(mixed, release)
            assert release.smallest_group >= larger


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_kind_of_attribute(flavour: str, path: Path) -> None:
    """One at a time beside a plain number, so that no kind is missed by chance."""
    mixed = make_mixed(7, 700, [flavour, "int"], [0.2, 0.0])
    with tiny(), ra.Index.create(path, schema_of(mixed), k=4) as index:
        index.load(mixed.table)
        index.verify()
        check_rows(mixed, index.release(4))
        check_rows(mixed, index.release(9, compact=False))
        check_rows(mixed, index.release(9, method="hierarchical"))


@SETTINGS
@given(mixed_tables(max_rows=300), mixed_tables(max_rows=1), st.integers(1, 5), st.floats(0, 1))
def test_a_second_load_keeps_ids(mixed: Mixed, unused: Mixed, k: int, share: float) -> None:
    n_first = max(int(mixed.table.num_rows * share), 1)
    first, second = mixed.table.slice(0, n_first), mixed.table.slice(n_first)
    schema = schema_of(mixed, key=None)
    with tempfile.TemporaryDirectory() as folder, tiny(), ra.Index.create(f"{folder}/i", schema, k=k) as index:
        bound = ra.Schema.infer(mixed.table, **_roles(schema))
        index.close()
        with ra.Index.create(f"{folder}/j", bound, k=k) as index:
            assert index.load(first) == n_first
            before = rows_by_id(index)
            assert sorted(before) == list(range(n_first))
            assert index.load(second) == second.num_rows if second.num_rows else True
            after = rows_by_id(index)
            index.verify()
            assert {i: after[i] for i in before} == before
            assert sorted(after) == list(range(mixed.table.num_rows))
            assert sorted(map(repr, after.values())) == sorted(map(repr, rows_of(mixed.table, schema)))


def _roles(schema: ra.Schema) -> dict[str, object]:
    return {"quasi": schema.quasi, "sensitive": schema.sensitive, "keep": schema.keep, "weights": schema.weights}


@pytest.mark.parametrize("quality", ["fast", "balanced", "best"])
@pytest.mark.parametrize("flavours", [["int", "few", "float"], ["int", "small", "tree"]])
def test_the_number_of_threads_does_not_show(quality: str, flavours: list[str], tmp_path: Path) -> None:
    mixed = make_mixed(3, 3000, flavours, [0.1] * 3)
    found = []
    for threads in (1, 2, 3):
        path = tmp_path / f"{threads}.idx"
        with tiny(), ra.Index.create(path, schema_of(mixed), k=5, quality=quality, threads=threads) as index:
            index.load(mixed.table.slice(0, 2000))
            index.load(mixed.table.slice(2000))
            release = index.release(10).to_arrow()
        found.append((pages_of(path), release))
    assert found[0] == found[1] == found[2]


def test_releases_are_the_same_alone_and_in_one_pass(path: Path, tmp_path: Path) -> None:
    from rtree_anon.release.writing import write_releases

    source = ra.generate("agrawal", 3000)
    with tiny(), ra.Index.create(path, ra.Schema(source.column_names), k=5) as index:
        index.load(source)
        ks = (5, 7, 8)
        manifest = write_releases({k: index.release(k) for k in ks}, tmp_path / "out")
        for k in ks:
            assert manifest["releases"][f"k{k}.parquet"]["version"] == index.version
            assert pa.parquet.read_table(tmp_path / "out" / f"k{k}.parquet").equals(
                index.release(k).to_arrow().cast(pa.parquet.read_schema(tmp_path / "out" / f"k{k}.parquet"))
            )


def test_a_reader_keeps_its_version(path: Path) -> None:
    source = ra.generate("agrawal", 2000)
    with tiny(), ra.Index.create(path, ra.Schema(source.column_names), k=5) as index:
        index.load(source)
        release = index.release(10)
        with ra.Index.open(path) as reader:
            index.load(source)
            assert (len(reader), len(index)) == (2000, 4000) and reader.version < index.version
            assert reader.release(10).n_rows == release.n_rows == 2000
            assert index.release(10).n_rows == 4000
            reader.verify()


def test_equal_rows_are_one_leaf(path: Path) -> None:
    source = pa.table({"a": np.r_[np.zeros(5000, np.int32), np.arange(4, dtype=np.int32)]})
    with tiny(), ra.Index.create(path, ra.Schema(["a"]), k=5) as index:
        index.load(source)
        report = index.verify()
        assert (report.n_leaves, report.largest_leaf) == (1, 5004)
        assert index.release(5).to_arrow().num_rows == 5004
