"""One call from a file or frame to a release, and the baseline to compare it with.

Both read the whole table into memory, cut it into groups and hand out a verified `Release`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack, overload

from rtree_anon.arguments import check_choice, checked_k, checked_seed, checked_threads
from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.models import Model
from rtree_anon.models.fitting import check_fits, checked_model
from rtree_anon.schema import Attribute, Schema

if TYPE_CHECKING:
    from rtree_anon.io.table import CodedTable
    from rtree_anon.release import Release

Quasi: TypeAlias = Iterable[Attribute | str] | Attribute | str

DEFAULT_BASE_K = 5
_MAX_ROWS = 2**31 - 1


class Options(TypedDict, total=False):
    """The keyword arguments of `anonymize`, for type checkers."""

    sensitive: Iterable[str]
    keep: Iterable[str]
    identity: str | None
    key: str | None
    weights: Mapping[str, float] | None
    schema: Schema | None
    model: Model | str | None
    base_k: int | None
    quality: str
    method: str
    compact: bool
    bias: Iterable[str]
    threads: int | None
    seed: int
    on_step: Callable[[str, int | None], None]


@overload
def anonymize(source: Any, k: int, quasi: Quasi | None = None, **options: Unpack[Options]) -> Release: ...
@overload
def anonymize(
    source: Any, k: Iterable[int], quasi: Quasi | None = None, **options: Unpack[Options]
) -> dict[int, Release]: ...
def anonymize(
    source: Any,
    k: int | Iterable[int],
    quasi: Quasi | None = None,
    *,
    sensitive: Iterable[str] = (),
    keep: Iterable[str] = (),
    identity: str | None = None,
    key: str | None = None,
    weights: Mapping[str, float] | None = None,
    schema: Schema | None = None,
    model: Model | str | None = None,
    base_k: int | None = None,
    quality: str = "balanced",
    method: str = "optimal",
    compact: bool = True,
    bias: Iterable[str] = (),
    threads: int | None = None,
    seed: int = 0,
    on_step: Callable[[str, int | None], None] = lambda step, k: None,
) -> Release | dict[int, Release]:
    """Anonymize a table so that every row has the same generalized values as at least k - 1 others.

    source: a Parquet, CSV (.gz, .zst) or Arrow file, several of them, or an Arrow, pandas or polars frame or stream.
    k: one number, or several: k=[5, 10, 50] gives a dictionary of releases from one tree. All of them together are
        safe at base_k and the model: whoever has them all still cannot tell a row from base_k - 1 others.
    quasi: the quasi-identifiers, as names or attribute objects (`ra.Categorical("zip", hierarchy=h)`).
    sensitive, keep: columns that are carried through unchanged. All other columns are dropped.
    identity: the column that says whose row it is, where a person has several: k then counts people, not rows. It is
        not released, unless asked for, as a random number.
    model: what groups have to satisfy besides k, about the sensitive columns: `ra.DistinctLDiversity(3, on="disease") &
        ra.TCloseness(0.3, on="disease")`, or a text (see `ra.model_from_text`).
    weights: importance of quasi-identifiers for the certainty penalty and for splitting (1 where not given).
    schema: a `Schema` instead of quasi, sensitive, keep, identity, key and weights.
    base_k: the k that the tree is built with; min(k, 5) by default.
    quality: "fast", "balanced" or "best".
    method: how leaves are grouped for a k above base_k: "optimal", "greedy" (the paper's leaf scan) or "hierarchical".
    compact: release the values that occur in a group (True) or the whole region of space that it covers (False).
    bias: quasi-identifiers that are split in preference; with one, groups are as narrow as can be on that one.
    threads: all cores by default. The result is the same for any number.
    on_step: called at the beginning of each step, with its name ("reading", "cutting", "grouping") and, for
        "grouping", the k.

    >>> import rtree_anon as ra
    >>> people = ra.generate("patients", 2000, seed=1)
    >>> releases = ra.anonymize(people, k=[5, 20], quasi=["age", "zip"], sensitive=["diagnosis"])
    >>> releases[20].group_sizes.min() >= 20
    True
    """
    several = isinstance(k, Iterable) and not isinstance(k, str)
    wanted = sorted({checked_k(each, "k") for each in (k if several else [k])})  # type: ignore[union-attr]
    if not wanted:
        raise UsageError("k is an empty list; name at least one k.")
    base = min(wanted[0], DEFAULT_BASE_K) if base_k is None else checked_k(base_k, "base_k")
    if base > wanted[0]:
        raise UsageError(
            f"base_k={base} is above k={wanted[0]}: a release cannot be finer than the tree that it is made from."
        )
    model = checked_model(model)
    _check_options(quality, method, threads, seed)
    schema = _one_schema(schema, quasi, sensitive, keep, identity, key, weights)
    check_fits(model, schema.sensitive, schema.identity)
    biased = _named_axes(schema, bias)
    on_step("reading", None)
    table = _read(source, schema, wanted[-1])

    from rtree_anon.release.from_tree import release_tree
    from rtree_anon.release.guarantee import GuardedTable
    from rtree_anon.tree import build_tree

    on_step("cutting", None)
    guarded = GuardedTable(table, model)
    guarantees = {each: None if guarded.is_plain else guarded.guarantee(each, base) for each in wanted}
    first = guarantees[wanted[0]]
    constraint = None if first is None else guarded.compiled(first.base_model)
    tree = build_tree(
        table.codes,
        table.space,
        base,
        quality=quality,
        threads=threads,
        seed=seed,
        bias=biased,
        constraint=constraint,
    )
    releases = {}
    for each in wanted:
        on_step("grouping", each)
        releases[each] = release_tree(table, tree, each, method=method, compact=compact, guarantee=guarantees[each])
    return releases if several else releases[wanted[0]]


def mondrian(
    source: Any,
    k: int,
    quasi: Quasi | None = None,
    *,
    sensitive: Iterable[str] = (),
    keep: Iterable[str] = (),
    weights: Mapping[str, float] | None = None,
    identity: str | None = None,
    schema: Schema | None = None,
    model: Model | str | None = None,
    compact: bool = True,
) -> Release:
    """Strict multidimensional Mondrian (LeFevre et al., 2006), for comparison: the widest attribute, cut at the median.

    Takes the same arguments as `anonymize` and gives the same kind of release. Not compacted, a group's values are the
    region that the cuts leave, as in the original algorithm. A cut that leaves a side which breaks the model is passed
    over.
    """
    k, model = checked_k(k, "k"), checked_model(model)
    schema = _one_schema(schema, quasi, sensitive, keep, identity, None, weights)
    check_fits(model, schema.sensitive, schema.identity)
    table = _read(source, schema, k)

    from rtree_anon.release.from_tree import release_tree
    from rtree_anon.release.guarantee import GuardedTable
    from rtree_anon.tree.build import build_mondrian

    guarded = GuardedTable(table, model)
    guarantee = None if guarded.is_plain else guarded.guarantee(k, k)
    tree = build_mondrian(table.codes, table.space, k, None if guarantee is None else guarantee.constraint)
    return release_tree(table, tree, k, method="leaves", compact=compact, name="Mondrian", guarantee=guarantee)


def _read(source: Any, schema: Schema, k: int) -> CodedTable:
    from rtree_anon.io.table import read_table

    table = read_table(source, schema)
    if table.n_rows < k:
        raise PrivacyError(
            f"{table.name}: {table.n_rows} rows cannot be anonymized at k={k}: every group needs at least {k} rows. "
            "Use a smaller k or more rows."
        )
    if table.n_rows > _MAX_ROWS:
        raise UsageError(f"{table.name}: {table.n_rows} rows are more than the {_MAX_ROWS} that fit in memory at once.")
    return table


def _one_schema(
    schema: Schema | None,
    quasi: Quasi | None,
    sensitive: Iterable[str],
    keep: Iterable[str],
    identity: str | None,
    key: str | None,
    weights: Mapping[str, float] | None,
) -> Schema:
    """The schema that was given, or one of the single arguments; never a mixture, where one would be overlooked."""
    if schema is None:
        if quasi is None:
            raise UsageError("Name the quasi-identifiers: quasi=['age', 'zip', …].")
        return Schema(quasi, sensitive, identity, key, keep, weights)
    if not isinstance(schema, Schema):
        raise UsageError(f"schema must be a Schema, not {schema!r}; Schema.from_toml reads one from a file.")
    given = {"quasi": quasi, "identity": identity, "key": key, "weights": weights}
    named = [name for name, value in given.items() if value is not None]
    named += [name for name, value in (("sensitive", sensitive), ("keep", keep)) if tuple(value or ())]
    if named:
        raise UsageError(f"Give either a schema or {named[0]}, not both: the schema says it all.")
    return schema


def _check_options(quality: str, method: str, threads: int | None, seed: int) -> None:
    check_choice("quality", quality, ("fast", "balanced", "best"))
    check_choice("method", method, ("optimal", "greedy", "hierarchical"))
    checked_threads(threads)
    checked_seed(seed)


def _named_axes(schema: Schema, names: Iterable[str]) -> tuple[int, ...]:
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if name not in schema.quasi_names:
            raise UsageError(f"bias names {name!r}, which is not a quasi-identifier ({', '.join(schema.quasi_names)}).")
    return tuple(schema.quasi_names.index(name) for name in names)
