"""Worked examples of the papers: what the checker must find in tables that others have published."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rtree_anon.checking import check

# Samarati, "Protecting respondents' identities in microdata release", Figure 12: what mu-Argus made of a table at k = 2
MU_ARGUS = [
    ("black", 1965, "male", "94141"),
    ("black", 1965, "male", "94141"),
    ("black", 1965, "female", "94138"),
    ("black", 1965, "female", "94138"),
    ("black", 1964, "female", "94138"),
    ("black", 1964, "female", "94138"),
    ("white", 1964, "male", "94138"),
    (None, None, "female", "94139"),
    ("white", 1964, "male", "94139"),
    ("white", 1964, "male", "94139"),
    ("white", 1967, "male", "94138"),
    ("white", 1967, "male", "94138"),
]

# Tao et al., "Protecting the publishing identity in multiple tuples", Table 2 with the names of Table 1
HOSPITAL = [
    ("Mike", "M", "10085", "hypertension"),
    ("Mike", "M", "10085", "hyperlipemia"),
    ("Emily", "*", "10075", "diabetes"),
    ("Tim", "*", "10075", "heart"),
    ("Jane", "F", "1008*", "cancer"),
    ("Ella", "F", "1008*", "flu"),
]
# ... and Tables 4 and 5
LOCAL_2 = [
    (1318, "1008*", "Hypertension"),
    (1318, "1008*", "Hyperlipemia"),
    (8634, "1008*", "Heart"),
    (7437, "1007*", "Hypertension"),
    (7437, "1007*", "Diabetes"),
    (3582, "1007*", "Heart"),
    (5629, "1007*", "Flu"),
    (4713, "100**", "Heart"),
    (5072, "100**", "Diabetes"),
]
LOCAL_3 = [
    (person, "100**" if person in (1318, 8634, 5072, 4713) else "1007*", disease) for person, _, disease in LOCAL_2
]

# LeFevre et al., "Incognito", Figure 1
PATIENTS = [
    ("1/21/76", "Male", "53715"),
    ("4/13/86", "Female", "53715"),
    ("2/28/76", "Male", "53703"),
    ("1/21/76", "Male", "53703"),
    ("4/13/86", "Female", "53706"),
    ("2/28/76", "Female", "53706"),
]


def table(rows: list[tuple[object, ...]], *names: str) -> pa.Table:
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_mu_argus_output_is_not_2_anonymous() -> None:
    report = check(table(MU_ARGUS, "race", "birth", "sex", "zip"), ["race", "birth", "sex", "zip"])
    assert report.k == 1 and report.unique_rows.tolist() == [6, 7]
    alone = [group.values for group in report.groups_below(2)]
    assert alone == [
        {"race": "white", "birth": 1964, "sex": "male", "zip": "94138"},
        {"race": None, "birth": None, "sex": "female", "zip": "94139"},
    ]
    text = str(report)
    assert "1 row: race=white, birth=1964, sex=male, zip=94138 (row 7)" in text
    assert "1 row: race=missing, birth=missing, sex=female, zip=94139 (row 8)" in text
    assert report.shortfalls(k=2) == [
        "k = 2 was asked for, but 2 of 7 groups have fewer rows (the smallest 1); 2 rows are in them."
    ]


def test_two_rows_of_one_person_are_not_two_people() -> None:
    published = table(HOSPITAL, "name", "sex", "postcode", "disease")
    ordinary = check(published, ["sex", "postcode"], ["disease"])
    assert ordinary.k == 2 and ordinary.distinct_l == 2 and ordinary.alpha == 0.5  # looks safe
    report = check(published, ["sex", "postcode"], ["disease"], identity="name")
    assert report.k == 2 and report.individuals == 1 and report.rows_below(2).tolist() == [0, 1]
    assert report.identity is not None and report.identity.vulnerable(2).tolist() == [True, False, False]
    assert report.identity.n_single == 1 and report.identity.alpha == 1.0
    (group,) = report.groups_below(2)
    assert group.values == {"sex": "M", "postcode": "10085"} and (group.size, group.individuals) == (2, 1)


@pytest.mark.parametrize(("rows", "k", "alpha", "beta"), [(LOCAL_2, 2, 2 / 3, 0.5), (LOCAL_3, 3, 0.5, 0.4)])
def test_local_recoding_counts_people(rows: list[tuple[object, ...]], k: int, alpha: float, beta: float) -> None:
    report = check(table(rows, "id", "zip", "disease"), ["zip"], ["disease"], identity="id")
    assert report.individuals == k and report.shortfalls(k=k) == [] and report.shortfalls(k=k + 1) != []
    assert report.identity is not None and report.identity.alpha == pytest.approx(alpha)
    assert report.alpha == pytest.approx(beta)


def test_the_merged_table_has_half_half_anonymity() -> None:
    """Asked for (0.5, 0.5)-anonymity, the paper merges the orphan into group 1 (Table 5); Table 4 would not do."""
    asked = {"individual_alpha": 0.5, "alpha": 0.5}
    merged = check(table(LOCAL_3, "id", "zip", "disease"), ["zip"], ["disease"], identity="id")
    assert merged.shortfalls(**asked) == []
    lent = check(table(LOCAL_2, "id", "zip", "disease"), ["zip"], ["disease"], identity="id")
    assert lent.shortfalls(**asked) == ["One person has 0.666667 of a group's rows, more than 0.5."]


@pytest.mark.parametrize(
    ("sex_level", "zip_level", "expected"), [(0, 0, False), (1, 0, True), (0, 1, False), (0, 2, True), (1, 2, True)]
)
def test_incognito_patients(sex_level: int, zip_level: int, expected: bool) -> None:
    """Example 3.1: which generalizations of sex and zipcode are 2-anonymous."""
    rows = [("Person" if sex_level else sex, code[: 5 - zip_level] + "*" * zip_level) for _, sex, code in PATIENTS]
    report = check(table(rows, "sex", "zip"), ["sex", "zip"])
    assert (report.k >= 2) is expected


def test_incognito_patients_are_unique_on_all_three() -> None:
    report = check(table(PATIENTS, "birth", "sex", "zip"), ["birth", "sex", "zip"])
    assert report.k == 1 and report.unique_rows.tolist() == [0, 1, 2, 3, 4, 5]
