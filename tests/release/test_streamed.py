"""Releases that stream from segments of an index, against releases of the same tree in memory."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.io.table import read_table
from rtree_anon.release.from_tree import release_tree
from rtree_anon.release.in_threads import in_order
from rtree_anon.release.streamed import StreamedRelease, batches_together
from rtree_anon.release.writing import write_releases
from rtree_anon.storage.publish import read_publication
from rtree_anon.tree import build_tree
from tests.release.mixed import Mixed, check_rows, mixed_tables
from tests.release.segmenting import SegmentedTree

FORMS = list(itertools.product(("interval", "text"), ("rows", "groups")))


def segmented(table: Any, base_k: int, segment_rows: int, least_rows: int = 1, **roles: Any) -> SegmentedTree:
    coded = read_table(table, ra.Schema(**roles))
    return SegmentedTree(coded, build_tree(coded.codes, coded.space, base_k, threads=1), segment_rows, least_rows)


@settings(max_examples=40, deadline=None)
@given(
    mixed=mixed_tables(max_rows=90),
    base_k=st.integers(1, 4),
    k=st.integers(1, 12),
    method=st.sampled_from(["optimal", "greedy"]),
    compact=st.booleans(),
    form=st.sampled_from(FORMS),
)
def test_one_segment_gives_the_release_in_memory(
    mixed: Mixed, base_k: int, k: int, method: str, compact: bool, form: tuple[str, str]
) -> None:
    n = mixed.table.num_rows
    base_k = min(base_k, n)
    k = min(max(k, base_k), n)
    index = segmented(mixed.table, base_k, n, **mixed.options)
    expected = release_tree(index.table, index.tree, k, method=method, compact=compact)
    streamed = index.release(k, method=method, compact=compact, threads=1)
    assert streamed.to_arrow(*form, group_id=True, key=True).equals(expected.to_arrow(*form, group_id=True, key=True))
    assert (streamed.n_rows, streamed.n_groups) == (expected.n_rows, expected.n_groups)
    assert streamed.group_sizes.tolist() == expected.group_sizes.tolist()
    assert streamed.quality() == pytest.approx(expected.quality(), nan_ok=True)


@settings(max_examples=40, deadline=None)
@given(
    mixed=mixed_tables(max_rows=120),
    base_k=st.integers(1, 4),
    k=st.integers(1, 12),
    segment_rows=st.integers(1, 40),
    compact=st.booleans(),
    threads=st.sampled_from([1, 3]),
)
def test_every_row_is_in_one_group_of_k_and_inside_its_values(
    mixed: Mixed, base_k: int, k: int, segment_rows: int, compact: bool, threads: int
) -> None:
    n = mixed.table.num_rows
    base_k = min(base_k, n)
    k = min(max(k, base_k), n)
    index = segmented(mixed.table, base_k, segment_rows, k, **mixed.options)
    streamed = index.release(k, compact=compact, threads=threads)
    check_rows(mixed, streamed)
    assert streamed.smallest_group == streamed.group_sizes.min() >= k
    assert streamed.group_sizes.sum() == streamed.n_rows == n


@pytest.fixture(scope="module")
def people() -> pa.Table:
    return ra.generate("patients", 30_000, seed=3)


@pytest.fixture(scope="module")
def index(people: pa.Table) -> SegmentedTree:
    quasi = ["age", "sex", "zip", "education", "marital_status"]
    return segmented(people, 5, 5000, quasi=quasi, sensitive=["diagnosis"], key="visit_id")


def test_the_same_for_any_number_of_threads(index: SegmentedTree) -> None:
    assert index.n_segments > 4
    one, many = (index.release(10, threads=threads).to_arrow() for threads in (1, 4))
    assert one.equals(many)


@pytest.mark.parametrize("k", [5, 20, 75])
def test_seams_cost_little_certainty(index: SegmentedTree, k: int) -> None:
    """Segments of 64 k rows or more: two groups at a seam could have been better, of dozens."""
    in_memory = release_tree(index.table, index.tree, k).quality()
    streamed = index.release(k).quality()
    assert streamed["certainty"] <= 1.02 * in_memory["certainty"]
    assert streamed["kl_divergence"] <= in_memory["kl_divergence"] * 1.02
    for name, figure in index.release(k).quality().items():
        assert figure == streamed[name], "a second pass gives the same"


def test_queries(index: SegmentedTree) -> None:
    release = index.release(10)
    everything = release.count(sex=["F", "M"])
    assert 29_000 < everything <= 30_000
    narrow = release.count(age=(30, 40), sex="F")
    assert 0 < release.count(age=(30, 40), sex="F", estimate="uniform") <= narrow < everything
    with pytest.raises(ra.UsageError, match="not a quasi-identifier"):
        release.count(height=3)


def test_frames(index: SegmentedTree) -> None:
    release = index.release(50)
    table = release.to_arrow()
    assert release.to_pandas().equals(table.to_pandas())
    assert release.to_polars().shape == table.shape


def test_facts_and_figures_come_from_the_pass_that_wrote_the_file(index: SegmentedTree, tmp_path: Path) -> None:
    before = index.n_passes
    release = index.release(10)
    assert repr(release).startswith("<Release k=10 of people")
    release.write(tmp_path / "out.parquet")
    assert release.n_rows == 30_000 and release.quality()["certainty"] > 0
    assert f"{release.n_groups:,} groups" in repr(release)
    assert index.n_passes == before + 1
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").equals(release.to_arrow())


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_several_k_are_published_in_one_pass(index: SegmentedTree, tmp_path: Path, file_format: str) -> None:
    ks = (5, 10, 50)
    before = index.n_passes
    manifest = write_releases({k: index.release(k) for k in ks}, tmp_path / "out", file_format)
    assert index.n_passes == before + 1
    assert read_publication(tmp_path / "out") == manifest
    for k in ks:
        facts = manifest["releases"][f"k{k}.{file_format}"]
        alone = index.release(k)
        assert facts["quality"] == alone.quality() and facts["groups"] == alone.n_groups
        assert facts["smallest_group"] == alone.smallest_group >= k
        assert facts["version"] == 7 and facts["safe_together_at"] == "KAnonymity(5)"
        alone.write(tmp_path / f"alone.{file_format}", overwrite=True)
        together = tmp_path / "out" / f"k{k}.{file_format}"
        assert together.read_bytes() == (tmp_path / f"alone.{file_format}").read_bytes()
        assert ra.check(together, quasi=alone.quasi).k >= k


def test_a_layout_of_groups_has_no_tiny_row_groups(index: SegmentedTree, tmp_path: Path) -> None:
    index.release(50).write(tmp_path / "out.parquet", layout="groups")
    assert pyarrow.parquet.ParquetFile(tmp_path / "out.parquet").num_row_groups == 1
    assert sum(pyarrow.parquet.read_table(tmp_path / "out.parquet").column("count").to_pylist()) == 30_000


def test_releases_of_different_indexes_do_not_share_a_pass(index: SegmentedTree, people: pa.Table) -> None:
    other = segmented(people.slice(0, 500), 5, 500, quasi=["age"])
    with pytest.raises(ra.UsageError, match="same index"):
        next(batches_together([index.release(5), other.release(5)]))


def test_what_is_refused(index: SegmentedTree, people: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(ra.UsageError, match="below the index's own k=5"):
        index.release(4)
    small = segmented(people.slice(0, 12), 5, 100, quasi=["age", "sex"])
    with pytest.raises(ra.PrivacyError, match="12 rows cannot be released at k=13"):
        small.release(13).write(tmp_path / "out.csv")
    for call in (lambda: small.release(13).quality(), lambda: small.release(13).to_arrow()):
        with pytest.raises(ra.PrivacyError, match="12 rows cannot be released at k=13"):
            call()
    with pytest.raises(ra.UsageError, match="style"):
        index.release(5).to_arrow(style="fancy")
    with pytest.raises(ra.UsageError, match="hierarchical"):
        index.release(10, method="hierarchical", threads=1).to_arrow()
    with pytest.raises(ra.SchemaError, match="age_lo"):
        renamed = people.slice(0, 50).select(["age", "zip"]).rename_columns(["age", "age_lo"])
        segmented(renamed, 5, 50, quasi=["age"], sensitive=["age_lo"]).release(5)
    assert list(tmp_path.iterdir()) == []


def test_an_index_without_rows_cannot_be_released(index: SegmentedTree, tmp_path: Path) -> None:
    empty = StreamedRelease(lambda: iter(()), index.table.schema, k=5, base_k=5, source="people")
    for call in (empty.quality, empty.to_arrow, lambda: empty.write(tmp_path / "out.parquet")):
        with pytest.raises(ra.PrivacyError, match="people: 0 rows cannot be released at k=5"):
            call()


def test_a_segment_that_cannot_be_read_stops_the_release_and_leaves_nothing(
    index: SegmentedTree, tmp_path: Path
) -> None:
    def failing() -> Iterator[Any]:
        yield from itertools.islice(index(), 2)
        raise ra.CorruptionError("page 17 is damaged")

    release = StreamedRelease(failing, index.table.schema, k=5, base_k=5)
    with pytest.raises(ra.CorruptionError, match="page 17"):
        release.write(tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []


# --- work in order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_are_in_order_and_few_items_are_under_way(threads: int) -> None:
    taken, finished, ahead = 0, 0, []
    lock = threading.Lock()

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(50):
            with lock:
                taken += 1
                ahead.append(taken - finished)
            yield item

    results = []
    for result in in_order(items(), lambda item: item * item, threads):
        results.append(result)
        with lock:
            finished += 1
    assert results == [item * item for item in range(50)]
    assert max(ahead) <= threads + 2


@pytest.mark.parametrize("threads", [1, 3])
def test_a_pass_that_is_given_up_is_closed(index: SegmentedTree, threads: int) -> None:
    given, closed = index.n_given, index.n_closed
    batches = index.release(5, threads=threads).batches()
    next(batches)
    batches.close()
    assert index.n_closed == closed + 1
    assert index.n_given - given < index.n_segments


def test_memory_does_not_grow_with_the_index(people: pa.Table) -> None:
    """Twice as many segments, the same peak: nothing is kept of the segments that were passed on."""
    peaks = []
    for copies in (4, 8):
        table = pa.concat_tables([people.slice(0, 4000).select(["age", "zip"])] * copies)
        index = segmented(table, 5, 4000, quasi=["age", "zip"])
        release = index.release(10, threads=2)
        release.quality()  # compiled
        tracemalloc.start()
        for _ in release.batches():
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
