"""k of a file in one pass: what runs of equal rows show, put together over pieces, agrees with the whole grouping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.checking import check, check_k, runs

VALUES = [None, 0, 1, 2]


def write(table: pa.Table, path: Path, row_group_size: int = 4) -> Path:
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pyarrow.parquet.write_table(table, path, row_group_size=row_group_size)
    return path


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@settings(max_examples=150, deadline=None)
@given(
    groups=st.lists(
        st.tuples(st.sampled_from(VALUES), st.sampled_from(["", "a", "b", None]), st.integers(1, 6)),
        min_size=1,
        max_size=12,
    ),
    k=st.integers(1, 7),
    piece=st.integers(1, 9),
    form=st.sampled_from(["parquet", "csv"]),
)
def test_agrees_with_the_whole_grouping(directory: Path, groups: list[Any], k: int, piece: int, form: str) -> None:
    """`found.k` is exact where it is below k; otherwise the table has k indeed. Groups may come back later."""
    rows = [(x, y) for x, y, size in groups for _ in range(size)]
    table = pa.table(
        {"x": pa.array([x for x, _ in rows], pa.int64()), "y": pa.array([y for _, y in rows], pa.string())}
    )
    path = write(table, directory / f"t.{form}", piece)
    found, whole = check_k(path, ["x", "y"], k), check(path, ["x", "y"])
    assert found.n_rows == whole.n_rows == len(rows)
    assert (found.k >= k) == (whole.k >= k)
    assert found.k <= whole.k
    assert found.k >= k or found.k == whole.k


@settings(max_examples=60, deadline=None)
@given(
    groups=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=9),
    k=st.integers(1, 12),
    piece=st.integers(1, 4),
)
def test_counts(directory: Path, groups: list[tuple[int, int]], k: int, piece: int) -> None:
    table = pa.table({"x": [x for x, _ in groups], "count": [count for _, count in groups]})
    path = write(table, directory / "counted.parquet", piece)
    found, whole = check_k(path, ["x"], k, counts="count"), check(path, ["x"], counts="count")
    assert found.n_rows == whole.n_rows == sum(count for _, count in groups)
    assert (found.k >= k) == (whole.k >= k)


@pytest.mark.parametrize("place", [0, 1, 3, 4, 5, 7, 9])
@pytest.mark.parametrize("change", ["one row less", "one value changed"])
def test_a_single_short_group_is_found_wherever_it_is(directory: Path, place: int, change: str) -> None:
    x = np.repeat(np.arange(10), 5)
    if change == "one row less":
        x = np.delete(x, 5 * place)
    else:
        x[5 * place + 2] = 77
    path = write(pa.table({"x": x, "y": pa.array(["same"] * len(x))}), directory / "short.parquet", 7)
    assert check_k(path, ["y", "x"], 5).k == (4 if change == "one row less" else 1)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.5] * 4 + [2.5] * 4 + [None] * 4),
        pa.array([True] * 4 + [False] * 4 + [None] * 4),
        pa.array([1] * 4 + [2] * 4 + [None] * 4, pa.date32()),
        pa.array([10**12 + 1] * 4 + [2] * 4 + [None] * 4, pa.timestamp("ns", tz="Europe/Paris")),
        pa.array(["1.50"] * 4 + ["2.25"] * 4 + [None] * 4).cast(pa.decimal128(9, 2)),
        pa.array([b"x"] * 4 + [b"y"] * 4 + [None] * 4, pa.binary()),
        pa.array(["x"] * 4 + ["y"] * 4 + [None] * 4).dictionary_encode(),
    ],
    ids=lambda values: str(values.type),
)
def test_values_of_every_type(directory: Path, monkeypatch: pytest.MonkeyPatch, values: pa.Array) -> None:
    path = write(pa.table({"x": values}), directory / "typed.parquet", 5)
    monkeypatch.setattr(runs, "check", lambda *a, **o: pytest.fail("the runs are long enough"))
    assert check_k(path, ["x"], 4) == runs.Found(4, 12)


def test_not_a_number_never_hides_a_short_group(directory: Path) -> None:
    nan = float("nan")
    path = write(pa.table({"x": [nan, nan, nan, 1.0, 1.0, 1.0]}), directory / "nan.parquet", 4)
    assert check_k(path, ["x"], 3) == runs.Found(3, 6)


def test_intervals_are_found_by_the_name_of_their_attribute(directory: Path) -> None:
    table = pa.table({"x_lo": [1, 1, 1, 1], "x_hi": [2, 2, 3, 3], "x_missing": ["none", "none", "none", "some"]})
    path = write(table, directory / "interval.parquet")
    assert check_k(path, ["x"], 1).k == 1
    assert check_k(write(table.slice(0, 2), path), ["x"], 2).k == 2
    with pytest.raises(ra.SchemaError, match="'y'"):
        check_k(path, ["y"], 2)


def test_what_cannot_be_checked(directory: Path) -> None:
    empty = write(pa.table({"x": pa.array([], pa.int64())}), directory / "empty.parquet")
    with pytest.raises(ra.InputError, match="no rows"):
        check_k(empty, ["x"], 1)
    (directory / "no.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(ra.InputError, match=r"no\.parquet"):
        check_k(directory / "no.parquet", ["x"], 1)
    wrong = write(pa.table({"x": [1, 1], "count": [1, 0]}), directory / "zero.parquet")
    with pytest.raises(ra.InputError, match="count"):
        check_k(wrong, ["x"], 1, counts="count")


def test_a_flipped_bit_is_not_taken_for_a_release(directory: Path) -> None:
    """Pages have checksums, and they are looked at."""
    table = pa.table({"x": np.repeat(np.arange(1000), 5)})
    path = directory / "flipped.parquet"
    pyarrow.parquet.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    with pytest.raises(ra.InputError, match=r"CRC|checksum"):
        check_k(path, ["x"], 1)


def test_nothing_is_kept_of_the_pieces_but_their_ends(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is that of a few row groups, however many there are."""
    path = write(pa.table({"x": np.repeat(np.arange(40_000), 5)}), directory / "long.parquet", 5000)
    kept: list[int] = []
    followed_by = runs._Runs.followed_by

    def noted(self: Any, other: Any) -> Any:
        kept.append(sum(buffer.size for row in (other.first_row, other.last_row) for buffer in buffers(row)))
        return followed_by(self, other)

    def buffers(row: pa.Table) -> list[pa.Buffer]:
        return [buffer for column in row.columns for chunk in column.chunks for buffer in chunk.buffers() if buffer]

    monkeypatch.setattr(runs._Runs, "followed_by", noted)
    assert check_k(path, ["x"], 5).n_rows == 200_000
    assert len(kept) == 39 and max(kept) < 1000
