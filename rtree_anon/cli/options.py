"""What the commands share: options with one meaning everywhere, progress, and tables.

Invariant: progress goes to stderr and only to a terminal; results go to stdout, with colours and lines only on a
terminal, so that a pipe gets plain text.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from rtree_anon.errors import UsageError

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Decorator = Callable[[_Command], _Command]


def quasi_option(help_text: str, *, required: bool = True) -> _Decorator[Any]:
    """`-q age,zip,sex`: the quasi-identifiers."""
    return _names_option("-q", "--quasi", help_text=help_text, required=required)


def sensitive_option() -> _Decorator[Any]:
    """`-s disease`: the sensitive columns."""
    return _names_option("-s", "--sensitive", help_text="Sensitive columns, separated by commas.")


def keep_option() -> _Decorator[Any]:
    """`--keep ward`: further columns that are carried through."""
    return _names_option("--keep", help_text="Further columns to carry through unchanged; all others are dropped.")


def model_option(help_text: str) -> _Decorator[Any]:
    """`--model 'distinct_l=3 on disease'`: a privacy model as a text."""
    return click.option("--model", metavar="TEXT", help=f"{help_text}: 'distinct_l=3 on disease & t=0.2 on income'.")


def json_option() -> _Decorator[Any]:
    """`--json`: the result for machines."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def memory_option() -> _Decorator[Any]:
    """`--memory 1GB`: what the work may use."""
    return click.option("--memory", default="256MB", show_default=True, metavar="AMOUNT", help="As in 256MB or 1GB.")


def threads_option() -> _Decorator[Any]:
    """`--threads 2`: how many threads work."""
    help_text = "Default: all cores. The result is the same for any number."
    return click.option("--threads", type=click.IntRange(min=1), help=help_text)


def several_k_option(**settings: Any) -> _Decorator[Any]:
    """`-k 5,10,50`: one release for each."""
    return click.option("-k", "k", callback=_whole_numbers, metavar="NUMBERS", **settings)


def _names_option(*flags: str, help_text: str, required: bool = False) -> _Decorator[Any]:
    return click.option(*flags, callback=names, multiple=True, required=required, metavar="NAMES", help=help_text)


def names(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> list[str]:
    """Callback of an option with names separated by commas; a name that has a comma stands in double quotes."""
    listed = [name.strip() for text in value for row in csv.reader([text], skipinitialspace=True) for name in row]
    return [name for name in listed if name]


def _whole_numbers(ctx: click.Context, param: click.Parameter, value: str) -> list[int]:
    """Numbers separated by commas."""
    try:
        return [int(number) for number in value.split(",")]
    except ValueError:
        message = f"{value!r} is not a whole number or a list of them, such as 5,10,50."
        raise click.BadParameter(message, ctx, param) from None


def assignments(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> dict[str, str]:
    """Callback of an option that is given as `--option name=value`, any number of times."""
    pairs: dict[str, str] = {}
    for text in value:
        name, sign, assigned = text.partition("=")
        if not (name and sign and assigned):
            raise click.BadParameter(f"{text!r} is not of the form name=value.", ctx, param)
        if name in pairs:
            raise click.BadParameter(f"{name!r} is named twice.", ctx, param)
        pairs[name] = assigned
    return pairs


def require_new_directory(path: Path) -> None:
    """Refuse an output directory that exists or that cannot be made, before any work is done for it."""
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists already. Choose another output directory, or remove this one first.")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is not a directory. Make it first, or choose another place.")


def print_json(facts: Any) -> None:
    """The result for machines, on one line; what JSON does not know is an error, not an invalid file."""
    click.echo(json.dumps(facts, allow_nan=False))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of figures, right-aligned: with lines and colour on a terminal, plain in a pipe."""
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
        for row in (headers, *rows):
            click.echo("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="bold")
    for header in headers:
        table.add_column(header, justify="right")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)


@contextmanager
def row_progress(title: str, total_rows: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, nothing elsewhere; gives the function to call with newly finished rows."""
    if not sys.stderr.isatty():
        yield lambda n_rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} rows"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total_rows)
        yield lambda n_rows: bar.advance(task, n_rows)


@contextmanager
def step_progress() -> Iterator[Callable[[str], None]]:
    """A line on a terminal that says what is done, nothing elsewhere; gives the function to call with the words."""
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as line:
        yield lambda words: line.update(words)
