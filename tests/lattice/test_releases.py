"""Lattice results as releases: the rows, the labels, missing values, suppression, quality, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon import lattice
from rtree_anon.checking import check
from rtree_anon.errors import PrivacyError, SchemaError, UsageError
from rtree_anon.hierarchy import Hierarchy
from tests.lattice.naive_lattice import bind, generalized, groups_at
from tests.lattice.paper_tables import FIGURE_8, RACE_AND_ZIP, TABLE_3, TABLE_3_HIERARCHIES
from tests.lattice.test_agreement import HIERARCHIES, ROWS, quasi, table_of


@settings(deadline=None, max_examples=40)
@given(rows=ROWS, k=st.integers(1, 4), max_suppressed=st.integers(0, 8))
def test_every_generalization_is_released_as_it_is_defined(
    rows: list[tuple[Any, ...]], k: int, max_suppressed: int
) -> None:
    result = lattice.incognito(
        table_of(rows), HIERARCHIES, k=k, max_suppressed=max_suppressed, sensitive=["disease"], keep=["person"]
    )
    bound = bind(quasi(rows), HIERARCHIES)
    for levels in result.minimal[:3]:
        groups = groups_at(quasi(rows), levels, bound)
        kept = [i for members in groups.values() if len(members) >= k for i in members]
        if not kept:
            with pytest.raises(PrivacyError, match="every row would be suppressed"):
                result.release(levels)
            continue
        release = result.release(levels)
        expected = sorted((*generalized(rows[i][:4], levels, bound), rows[i][5], rows[i][4]) for i in kept)
        released = release.to_arrow().to_pydict()
        assert list(released) == [*HIERARCHIES, "disease", "person"]
        assert sorted(zip(*released.values(), strict=True)) == expected
        assert release.n_suppressed == len(rows) - len(kept)
        assert check(release.to_arrow(), quasi=list(HIERARCHIES)).k >= k
        penalties = [
            1.0
            if i not in kept
            else (tree.leaves_below[level][tree.ancestors[level, tree.leaves.index(rows[i][attribute])]] - 1)
            / max(len(tree.leaves) - 1, 1)
            for i in range(len(rows))
            for attribute, (tree, level) in enumerate(zip(bound, levels, strict=True))
        ]
        assert release.quality()["certainty"] == pytest.approx(sum(penalties) / len(penalties))
        whole = len(rows)
        sizes = [len(members) for members in groups.values() if len(members) >= k]
        price = sum(size * size for size in sizes) + (whole - sum(sizes)) * whole
        assert release.quality()["discernibility"] == price


def test_weights_count_in_quality_and_in_what_is_preferred() -> None:
    table = {"age": [21, 22, 31, 32], "sex": ["f", "m", "f", "m"]}
    hierarchies = {"age": Hierarchy.from_tree({"*": {"2*": ["21", "22"], "3*": ["31", "32"]}}), "sex": None}
    plain = lattice.incognito(table, hierarchies, k=2)
    assert plain.minimal == [(1, 1), (2, 0)]
    assert plain.certainty((2, 0)) == pytest.approx(1 / 2)
    assert plain.choose("certainty") == (2, 0) and plain.certainty((1, 1)) == pytest.approx((1 / 3 + 1) / 2)
    ages = lattice.incognito(table, hierarchies, k=2, weights={"age": 3})
    assert ages.choose("certainty") == (1, 1)
    for levels in ages.minimal:
        assert ages.release(levels).quality()["certainty"] == pytest.approx(ages.certainty(levels))
    assert ages.certainty((1, 1)) == pytest.approx((3 * 1 / 3 + 1) / 4)
    with pytest.raises(SchemaError, match="weight for 'zip', which is not a quasi-identifier"):
        lattice.incognito(table, hierarchies, k=2, weights={"zip": 3})


def test_missing_values_have_their_own_column() -> None:
    table = pa.table({"age": [31, 33, None, None, 57, None], "zip": ["1", "1", "2", "2", "1", "1"]})
    hierarchies = {"age": Hierarchy.intervals(widths=[10]), "zip": Hierarchy.suppress()}
    result = lattice.incognito(table, hierarchies, k=2, max_suppressed=2)
    apart = result.release((1, 0)).to_arrow()
    assert apart.to_pydict() == {
        "age": ["[30-39]", "[30-39]", None, None],
        "age_missing": ["none", "none", "all", "all"],
        "zip": ["1", "1", "2", "2"],
    }
    mixed = result.release((2, 0))
    assert mixed.to_arrow().to_pydict() == {
        "age": ["*"] * 4 + [None] * 2,
        "age_missing": ["some"] * 4 + ["all"] * 2,
        "zip": ["1"] * 4 + ["2"] * 2,
    }
    assert mixed.quality()["certainty"] == pytest.approx(4 / 12), "a mixed group's penalty is 1, missing alone costs 0"


def test_suppressed_rows_as_a_group_only_where_they_satisfy_the_model() -> None:
    enough = lattice.samarati(FIGURE_8, RACE_AND_ZIP, k=2, max_suppressed=4)
    shown = enough.release((0, 0), suppressed="group")
    assert shown.n_rows == 8 and shown.n_suppressed == 4
    assert shown.to_arrow()["Race"].to_pylist().count("person") == 4
    assert check(shown.to_arrow(), quasi=["Race", "ZIP"]).k == 2
    assert enough.best().n_rows == 4, "left out by default"
    too_few = lattice.samarati(FIGURE_8, RACE_AND_ZIP, k=2, max_suppressed=1)
    with pytest.raises(PrivacyError, match="the 1 suppressed rows do not satisfy KAnonymity\\(2\\)"):
        too_few.best(suppressed="group")
    with pytest.raises(UsageError, match="omit, group"):
        too_few.best(suppressed="hide")


def test_what_is_refused() -> None:
    result = lattice.incognito(FIGURE_8, RACE_AND_ZIP, k=2)
    with pytest.raises(PrivacyError, match=r"\(0, 0\) is not among"):
        result.release((0, 0))
    with pytest.raises(PrivacyError, match="no generalization satisfies KAnonymity\\(9\\)"):
        lattice.incognito(FIGURE_8, RACE_AND_ZIP, k=9).best()
    with pytest.raises(UsageError, match="'colour'"):
        result.preferred({"colour": 1.0})
    with pytest.raises(UsageError, match="policy must be one of absolute"):
        result.preferred("cheapest")
    with pytest.raises(UsageError, match="give k or a privacy model"):
        lattice.incognito(FIGURE_8, RACE_AND_ZIP)
    with pytest.raises(UsageError, match="levels between 0 and 2"):
        lattice.incognito(FIGURE_8, RACE_AND_ZIP, k=2, limits={"ZIP": 3})
    with pytest.raises(UsageError, match="variant must be one of"):
        lattice.incognito(FIGURE_8, RACE_AND_ZIP, k=2, variant="fast")
    with pytest.raises(UsageError, match="k must be a whole number"):
        lattice.incognito(FIGURE_8, RACE_AND_ZIP, k=0)
    with pytest.raises(UsageError, match="decides k-anonymity only"):
        lattice.samarati(TABLE_3, TABLE_3_HIERARCHIES, k=2, identity="ID", matrix=True)


def test_policies_by_weights_and_functions() -> None:
    result = lattice.incognito(FIGURE_8, RACE_AND_ZIP, k=2, max_suppressed=2)
    assert result.preferred({"Race": 0.1}) == [(1, 0)], "generalizing Race costs 0.1, ZIP 0.5"
    assert result.preferred(lambda levels: levels[0]) == [(0, 1)]
    assert result.best({"Race": 0.1}).facts.generalization == (1, 0)


def test_the_certainty_policy_is_the_lowest_penalty() -> None:
    result = lattice.incognito(FIGURE_8, RACE_AND_ZIP, k=2)
    for levels in result.generalizations:
        assert result.certainty(levels) == pytest.approx(result.release(levels).quality()["certainty"])
    wider = lattice.incognito(FIGURE_8, RACE_AND_ZIP, k=2, max_suppressed=2)
    assert wider.preferred("certainty") == [min(wider.minimal, key=wider.certainty)]


def test_queries_compare_by_value() -> None:
    table = pa.table({"age": [9, 9, 10, 10, 31, 31], "zip": ["1", "1", "2", "2", "1", "1"]})
    release = lattice.incognito(table, {"age": Hierarchy.intervals(widths=[10]), "zip": None}, k=2).release((0, 0))
    assert release.count(age=(9, 10)) == 4, "as numbers; as text, 9 would come after 31"
    assert release.count(age=(9, 31), zip="1") == 4


def test_local_recoding_is_a_release_and_writes_what_it_promises(tmp_path: Path) -> None:
    release = lattice.local_recoding(
        TABLE_3, TABLE_3_HIERARCHIES, ra.IdentityKLDiversity(2, 2, "Disease"), identity="ID"
    )
    table = release.to_arrow(identity=True)
    assert table.column_names == ["Zip", "Disease", "ID"], "the model's column is carried, the identity when asked"
    assert set(table["ID"].to_pylist()).isdisjoint(TABLE_3["ID"].to_pylist())
    report = check(table, quasi=["Zip"], sensitive=["Disease"], identity="ID")
    assert report.k >= 2
    release.write(tmp_path / "out.parquet")
    written = pa.parquet.read_table(tmp_path / "out.parquet")
    assert written.column_names == ["Zip", "Disease"] and written.num_rows == 9


def test_a_stream_is_read_only_once() -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE_3.schema, TABLE_3.to_batches(max_chunksize=2))
    release = lattice.incognito(reader, TABLE_3_HIERARCHIES, k=2, sensitive=["Disease"]).best()
    assert sorted(release.to_arrow()["Disease"].to_pylist()) == sorted(TABLE_3["Disease"].to_pylist())


def test_csv_columns_are_carried_with_their_types(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("age,cost\n31,9\n32,10\n57,2\n58,100\n")
    release = lattice.incognito(str(file), {"age": Hierarchy.intervals(widths=[10])}, k=2, sensitive=["cost"]).best()
    table = release.to_arrow()
    assert table["cost"].type == pa.int64()
    assert table.to_pydict() == {"age": ["[30-39]"] * 2 + ["[50-59]"] * 2, "cost": [9, 10, 2, 100]}


def test_the_order_of_the_input_leaves_no_trace() -> None:
    result = lattice.incognito(FIGURE_8, RACE_AND_ZIP, k=2)
    backwards = FIGURE_8.take(list(range(7, -1, -1)))
    again = lattice.incognito(backwards, RACE_AND_ZIP, k=2)
    assert result.best().to_arrow().equals(again.best().to_arrow())


def test_an_empty_table() -> None:
    empty = FIGURE_8.slice(0, 0)
    with pytest.raises(PrivacyError):
        lattice.local_recoding(empty, {"Race": RACE_AND_ZIP["Race"]}, k=2)
