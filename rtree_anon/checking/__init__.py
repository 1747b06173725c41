"""The independent checker: what does a table really protect? Of our releases, or of any other tool's output.

    report = check("release.parquet", quasi=["age", "zip"], sensitive=["disease"])
    report.k, report.distinct_l, report.unique_rows
    print(report)

It shares nothing with the engine that makes releases, not even the code that reads files: a mistake there cannot hide a
mistake here. What is measured is defined in `sensitive.py` and `identity.py`, how rows are grouped in `grouping.py`;
`runs.py` looks for k alone, and `run_values.py` at sensitive values, in files of any size.

Missing values: a null is a value of its own, equal to other nulls and different from everything else, and so is NaN.
A suppressed cell therefore matches only other suppressed cells (the careful reading: a reader sees which cells are
empty). pandas does not tell NaN from null; there both are null.
"""

from rtree_anon.checking.checker import check, check_groups
from rtree_anon.checking.report import Report
from rtree_anon.checking.run_values import unmet_values
from rtree_anon.checking.runs import Found, check_k

__all__ = ["Found", "Report", "check", "check_groups", "check_k", "unmet_values"]
