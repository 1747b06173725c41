"""Hierarchies: the levels that each way of writing one gives, what validation refuses, and the tree invariants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtree_anon.errors import InputError, SchemaError
from rtree_anon.hierarchy import BoundHierarchy, Hierarchy


def path_of(bound: BoundHierarchy, value: str) -> list[str]:
    """The labels of one value from level 0 to the top."""
    code = bound.code_of[value]
    return [bound.labels[level][bound.ancestors[level, code]] for level in range(bound.height + 1)]


def assert_is_tree(bound: BoundHierarchy) -> None:
    assert list(bound.ancestors[0]) == list(range(len(bound.leaves)))
    assert len(bound.labels[-1]) == 1
    for level in range(bound.height + 1):
        row = bound.ancestors[level]
        assert row[0] == 0 and set(np.diff(row)) <= {0, 1}, "depth-first order"
        assert len(bound.labels[level]) == row[-1] + 1
        assert len(set(bound.labels[level])) == len(bound.labels[level])
        if level:
            lower = bound.ancestors[level - 1]
            assert len({(int(a), int(b)) for a, b in zip(lower, row, strict=True)}) == lower[-1] + 1


@pytest.mark.parametrize("delimiter", [";", ",", "\t"])
def test_csv_layout_and_delimiters(tmp_path: Path, delimiter: str) -> None:
    rows = [["53715", "5371*", "537**"], ["53703", "5370*", "537**"], ["53706", "5370*", "537**"]]
    file = tmp_path / "zip.csv"
    file.write_text("\n".join(delimiter.join(row) for row in rows) + "\n")
    bound = Hierarchy.from_csv(file).bind(["53703"])
    assert bound.height == 2, "a single top value needs no *"
    assert path_of(bound, "53706") == ["53706", "5370*", "537**"]
    assert bound.leaves == ("53715", "53703", "53706"), "all leaves, in the order of the file"
    assert_is_tree(bound)


def test_csv_quoting_and_other_delimiters_inside_labels(tmp_path: Path) -> None:
    file = tmp_path / "age.csv"
    file.write_text('"a;b";[1, 2]\n"c ""d""";[1, 2]\n\ne;[3, 4]\n')
    bound = Hierarchy.from_csv(file).bind([])
    assert bound.leaves == ("a;b", 'c "d"', "e")
    assert bound.labels[1:] == [["[1, 2]", "[3, 4]"], ["*"]], "* is added where several values are on top"


def test_leaves_are_put_in_depth_first_order() -> None:
    bound = Hierarchy.from_rows([["a", "x"], ["b", "y"], ["c", "x"]]).bind([])
    assert bound.leaves == ("a", "c", "b")
    assert_is_tree(bound)


def test_tree_levels() -> None:
    assert Hierarchy.from_tree({"person": ["asian", "black"]}).bind([]).height == 1
    marital = Hierarchy.from_tree(
        {"not_released": {"been_married": ["married", "divorced", "widow"], "never_married": ["single"]}}
    ).bind(["single"])
    assert path_of(marital, "single") == ["single", "never_married", "not_released"]
    several = Hierarchy.from_tree({"north": ["a"], "south": ["b", "c"]}).bind([])
    assert path_of(several, "b") == ["b", "south", "*"]


def test_short_branches_of_a_tree_keep_their_value() -> None:
    bound = Hierarchy.from_tree({"any": {"pets": ["cat", "dog"], "wild": {"big": ["lion", "bear"]}}}).bind([])
    assert path_of(bound, "cat") == ["cat", "cat", "pets", "any"]
    assert path_of(bound, "lion") == ["lion", "big", "wild", "any"]


def test_intervals_start_at_multiples_and_always_end_in_star() -> None:
    bound = Hierarchy.intervals(widths=[5, 10, 20]).bind(["39", "7", "100", "-3"])
    assert bound.height == 4
    assert path_of(bound, "39") == ["39", "[35-39]", "[30-39]", "[20-39]", "*"]
    assert path_of(bound, "-3") == ["-3", "[-5--1]", "[-10--1]", "[-20--1]", "*"]
    assert bound.leaves == ("-3", "7", "39", "100")
    assert Hierarchy.intervals(widths=[5]).bind(["1", "2"]).height == 2, "* is added even above a single interval"


def test_intervals_of_fractions_are_half_open() -> None:
    bound = Hierarchy.intervals(widths=[0.5, 2]).bind(["0.3", "1.75", "2"])
    assert path_of(bound, "1.75") == ["1.75", "[1.5, 2)", "[0, 2)", "*"]


def test_digits_dates_and_suppress() -> None:
    zips = Hierarchy.digits(2).bind(["94138", "94139", "94142"])
    assert (zips.height, path_of(zips, "94142")) == (2, ["94142", "9414*", "941**"])
    assert Hierarchy.digits(2).bind(["94138", "10001"]).height == 3
    births = Hierarchy.dates(["month", "year", "5 years", "decade"]).bind(["1964-09-27", "1961-05-08", "1970-01-01"])
    assert path_of(births, "1964-09-27") == ["1964-09-27", "1964-09", "1964", "[1960-1964]", "[1960-1969]", "*"]
    assert Hierarchy.suppress().bind(["x"]).height == 1


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([["a", "x", "p"], ["b", "x", "q"]], ["not a tree", "'x'", "level 1", "level 2"]),
        ([["a", "x"], ["b", ""]], ["'b'", "level 1"]),
        ([["a", "x"], ["b"]], ["'b'", "1 levels"]),
        ([["a", "x"], ["a", "y"]], ["'a'", "two rows"]),
        ([["a", "p", "z"], ["b", "q", "z"]], ["level 1", "not coarser", "'a'"]),
        ([], ["no values"]),
    ],
)
def test_validation_names_value_and_level(rows: list[list[str]], words: list[str]) -> None:
    with pytest.raises(SchemaError) as error:
        Hierarchy.from_rows(rows)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_errors_of_a_file_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sex.csv"
    file.write_text("a;x;p\nb;x;q\n")
    with pytest.raises(SchemaError, match=r"sex\.csv.*not a tree"):
        Hierarchy.from_csv(file)
    with pytest.raises(InputError, match=r"gone\.csv"):
        Hierarchy.from_csv(tmp_path / "gone.csv")


def test_a_value_twice_in_a_tree_and_wrong_rules() -> None:
    with pytest.raises(SchemaError, match="'a' stands in two places"):
        Hierarchy.from_tree({"x": ["a"], "y": ["a", "b"]})
    with pytest.raises(SchemaError, match="12 is not a larger multiple of 5"):
        Hierarchy.intervals(widths=[5, 12])
    with pytest.raises(SchemaError, match="'fortnight'"):
        Hierarchy.dates(["fortnight"])
    with pytest.raises(SchemaError, match="not a tree: '2021-W52'"):
        Hierarchy.dates(["week", "month"]).bind(["2022-01-01", "2021-12-31"])


def test_unseen_values_are_named() -> None:
    with pytest.raises(InputError, match="'green'"):
        Hierarchy.from_tree({"person": ["asian", "black"]}).bind(["black", "green"])
    with pytest.raises(InputError, match="'old' is not a number"):
        Hierarchy.intervals(widths=[5]).bind(["3", "old"])
    with pytest.raises(InputError, match="'1964-13-01' is not a date"):
        Hierarchy.dates(["year"]).bind(["1964-13-01"])
    with pytest.raises(InputError, match="'c'"):
        Hierarchy.suppress().bind(["a", "b"]).encode(["a", "c"])


def test_penalty_counts_all_leaves_of_the_hierarchy() -> None:
    bound = Hierarchy.from_tree({"*": {"x": ["a", "b", "c"], "y": ["d", "e"]}}).bind(["a"])
    assert list(bound.penalties[0]) == [0] * 5
    assert list(bound.penalties[1]) == [2 / 4, 1 / 4]
    assert list(bound.penalties[2]) == [1]


@pytest.mark.parametrize(
    "hierarchy",
    [
        Hierarchy.from_rows([["a", "x"], ["b", "y"], ["c", "x"]]),
        Hierarchy.intervals(widths=[5, 10]),
        Hierarchy.digits(3),
        Hierarchy.prefixes([3, 1]),
        Hierarchy.dates(["month"]),
        Hierarchy.suppress(),
        Hierarchy.automatic(),
        Hierarchy.automatic(text=True),
    ],
)
def test_description_round_trip(hierarchy: Hierarchy) -> None:
    assert Hierarchy.from_dict(hierarchy.to_dict()) == hierarchy


def test_automatic_chooses_by_the_values() -> None:
    ages = Hierarchy.automatic().bind([str(age) for age in range(17, 91)])
    assert path_of(ages, "39") == ["39", "[35-39]", "[30-39]", "[0-49]", "*"]
    zips = Hierarchy.automatic(text=True).bind(["53715", "53703", "53706"])
    assert path_of(zips, "53703") == ["53703", "5370*", "537**"]
    leading = Hierarchy.automatic().bind(["02174", "02237", "53715"])
    assert path_of(leading, "02174")[1] == "0217*"
    births = Hierarchy.automatic().bind(["1964-09-27", "1961-05-08", "1970-01-01"])
    assert path_of(births, "1964-09-27")[1:4] == ["1964-09", "1964", "[1960-1969]"]
    assert Hierarchy.automatic().bind(["red", "green", "blue"]).height == 1


@given(st.sets(st.decimals(-10_000, 10_000, places=2), min_size=1, max_size=30))
def test_automatic_numbers_form_a_tree(numbers: set[object]) -> None:
    assert_is_tree(Hierarchy.automatic().bind([str(number) for number in numbers]))


@given(st.sets(st.text(min_size=1, max_size=6), min_size=1, max_size=30), st.booleans())
def test_automatic_texts_form_a_tree(texts: set[str], text: bool) -> None:
    assert_is_tree(Hierarchy.automatic(text=text).bind(sorted(texts)))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=30))
def test_any_accepted_table_is_a_tree(rows: list[tuple[int, int, int]]) -> None:
    try:
        hierarchy = Hierarchy.from_rows([[f"v{a}", f"m{b}", f"t{c}"] for a, b, c in rows])
    except SchemaError:
        return
    assert_is_tree(hierarchy.bind([]))
