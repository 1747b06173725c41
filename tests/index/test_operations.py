"""Records of the journal say what the operation was, however its ids lie; what is damaged is called so."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import CorruptionError
from rtree_anon.index.operations import Kind, Operation, operations
from rtree_anon.storage.journal import MAX_RECORD_BYTES

IDS = st.one_of(
    st.lists(st.integers(0, 2**62), min_size=1, max_size=30, unique=True),
    st.tuples(st.integers(0, 2**40), st.integers(1, 30)).map(lambda run: list(range(run[0], sum(run)))),
)


def batches_of(n: int, most: int) -> list[pa.RecordBatch]:
    rows = pa.record_batch({"age": pa.array(range(n), pa.int32()), "city": [f"c{i % 3}" for i in range(n)]})
    return [rows.slice(begin, most) for begin in range(0, n, most)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(Kind)), IDS, st.integers(1, 30)), min_size=1, max_size=4))
def test_operations_come_back_as_they_were(made: list[tuple[Kind, list[int], int]]) -> None:
    given_ = [
        Operation(kind, np.array(ids, np.int64), [] if kind == Kind.DELETE else batches_of(len(ids), most))
        for kind, ids, most in made
    ]
    found = list(operations(record for operation in given_ for record in operation.records()))
    assert [each.kind for each in found] == [each.kind for each in given_]
    assert [each.ids.tolist() for each in found] == [each.ids.tolist() for each in given_]
    for each, other in zip(found, given_, strict=True):
        assert [batch.to_pydict() for batch in each.batches] == [batch.to_pydict() for batch in other.batches]


def test_consecutive_ids_take_no_room() -> None:
    ids, rows = np.arange(1000, 6000), batches_of(5000, 5000)
    (in_a_row,) = Operation(Kind.INSERT, ids, rows).records()
    (in_no_order,) = Operation(Kind.INSERT, ids[::-1], rows).records()
    assert len(in_no_order) - len(in_a_row) == 8 * (len(ids) - 1)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("in_a_row", [0, 1])
@pytest.mark.parametrize("n", [4, 6, 2**20, 2**40, 2**63, 2**64 - 1])
def test_a_record_that_claims_other_rows_than_it_has(kind: Kind, in_a_row: int, n: int) -> None:
    (record,) = Operation(Kind.INSERT, np.arange(5), batches_of(5, 5)).records()
    claimed = struct.pack("<BBB5xQ", kind, 0, in_a_row, n) + record[16:]
    with pytest.raises(CorruptionError):
        list(operations([claimed]))


def test_an_operation_without_its_last_record_never_happened() -> None:
    records = Operation(Kind.INSERT, np.arange(9), batches_of(9, 3)).records()
    assert len(records) == 3
    assert list(operations(records[:-1])) == []


def test_what_comes_behind_a_part_of_an_operation_is_not_joined_to_it() -> None:
    """Rows of a large insert that a crash had torn apart came back with the first insert after it, if that was replayed
    in turn: more than one frame of the journal is not written at once.
    """
    torn = Operation(Kind.INSERT, np.arange(9), batches_of(9, 3)).records()[:-1]
    later = [Operation(Kind.INSERT, np.arange(4), batches_of(4, 2)), Operation(Kind.DELETE, np.arange(2))]
    found = list(operations([*torn, *(record for each in later for record in each.records())]))
    assert [each.ids.tolist() for each in found] == [[0, 1, 2, 3], [0, 1]]
    assert [sum(batch.num_rows for batch in each.batches) for each in found] == [4, 0]


def test_a_part_of_an_operation_without_its_beginning_is_damage() -> None:
    records = Operation(Kind.INSERT, np.arange(9), batches_of(9, 3)).records()
    other = Operation(Kind.UPDATE, np.arange(9), batches_of(9, 3)).records()
    for wrong in (records[1:], [*records, records[1]], [other[0], *records[1:]]):
        with pytest.raises(CorruptionError, match="goes on"):
            list(operations(wrong))


def test_millions_of_deleted_ids_fit_the_journal() -> None:
    ids = np.arange(2_500_000)[::-1]
    records = Operation(Kind.DELETE, ids).records()
    assert max(map(len, records)) <= MAX_RECORD_BYTES
    (found,) = operations(records)
    assert found.kind == Kind.DELETE and np.array_equal(found.ids, ids)
