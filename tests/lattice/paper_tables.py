"""The worked examples of the papers, as tables and hierarchies."""

from __future__ import annotations

import pyarrow as pa

from rtree_anon.hierarchy import Hierarchy

# Incognito, Figure 1 (Patients) and Figure 2
PATIENTS = pa.table(
    {
        "Birthdate": ["1/21/76", "4/13/86", "2/28/76", "1/21/76", "4/13/86", "2/28/76"],
        "Sex": ["Male", "Female", "Male", "Male", "Female", "Female"],
        "Zipcode": ["53715", "53715", "53703", "53703", "53706", "53706"],
    }
)
PATIENT_HIERARCHIES = {
    "Birthdate": Hierarchy.suppress(),
    "Sex": Hierarchy.from_tree({"Person": ["Male", "Female"]}),
    "Zipcode": Hierarchy.digits(2),
}

# Samarati, Figure 2
RACE = Hierarchy.from_tree({"person": ["asian", "black", "white"]})
ZIP = Hierarchy.digits(2)
RACE_AND_ZIP = {"Race": RACE, "ZIP": ZIP}
_ZIPS = ["94138", "94139", "94141", "94142"]

# Samarati, Figure 4: every race with every ZIP code
FIGURE_4 = pa.table({"Race": [race for race in ("asian", "black", "white") for _ in _ZIPS], "ZIP": _ZIPS * 3})

# Samarati, Figure 8
FIGURE_8 = pa.table(
    {
        "Race": ["asian"] * 4 + ["black"] * 3 + ["white"],
        "ZIP": ["94138", "94138", "94142", "94142", "94138", "94141", "94142", "94138"],
    }
)

# Samarati, Figure 6 (Figure 1 without the disease); dates in ISO form
FIGURE_6 = pa.table(
    {
        "Race": ["asian"] * 4 + ["black"] * 4 + ["white"] * 3,
        "DOB": [
            *("1964-09-27", "1964-09-30", "1964-04-18", "1964-04-15", "1963-03-13", "1963-03-18"),
            *("1964-09-13", "1964-09-07", "1961-05-14", "1961-05-08", "1961-09-15"),
        ],
        "Sex": ["female", "female", "male", "male", "male", "male", "female", "female", "male", "male", "female"],
        "ZIP": ["94139"] * 4 + ["94138"] * 2 + ["94141"] * 2 + ["94138"] * 2 + ["94142"],
        "MaritalStatus": ["divorced"] * 2 + ["married"] * 6 + ["single"] * 2 + ["widow"],
    }
)
FIGURE_6_HIERARCHIES = {
    "Race": RACE,
    "DOB": Hierarchy.dates(["month", "year", "5 years", "decade"]),
    "Sex": Hierarchy.from_tree({"not_released": ["female", "male"]}),
    "ZIP": ZIP,
    "MaritalStatus": Hierarchy.from_tree(
        {"not_released": {"been_married": ["married", "divorced", "widow"], "never_married": ["single"]}}
    ),
}

# Identity-reserved anonymity, Table 1 and Table 3
TABLE_1 = pa.table(
    {
        "Name": ["Mike", "Mike", "Emily", "Tim", "Jane", "Ella"],
        "Sex": ["M", "M", "F", "M", "F", "F"],
        "Postcode": ["10085", "10085", "10075", "10075", "10086", "10087"],
        "Disease": ["hypertension", "hyperlipemia", "diabetes", "heart", "cancer", "flu"],
    }
)
TABLE_3 = pa.table(
    {
        "ID": ["1318", "1318", "5072", "8634", "7437", "7437", "3582", "5629", "4713"],
        "Zip": ["10085", "10085", "10086", "10087", "10075", "10075", "10076", "10077", "10050"],
        "Disease": [
            *("Hypertension", "Hyperlipemia", "Diabetes", "Heart", "Hypertension"),
            *("Diabetes", "Heart", "Flu", "Heart"),
        ],
    }
)
TABLE_3_HIERARCHIES = {"Zip": Hierarchy.digits(2)}
