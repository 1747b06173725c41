"""Rows from files, or from standard input as they arrive, batch by batch: what insert, delete and update share.

Every batch is durable before the next one is read. Where one is refused, or the stream is interrupted, those before it
stay and become a version; the error names the line, and how many rows came before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from rtree_anon.errors import AnonError, InputError, StorageError

if TYPE_CHECKING:
    from rtree_anon.index import Index

INPUT = "-"  # a file name that means standard input

_OPTIONS = (
    click.option("--format", "file_format", type=click.Choice(["ndjson", "csv"]), default="ndjson", show_default=True),
    click.option(
        "--batch-rows", type=click.IntRange(min=1), default=1000, show_default=True, help="Of standard input."
    ),
    click.option(
        "--batch-seconds", type=click.FloatRange(min=0), default=1.0, show_default=True, help="No row waits longer."
    ),
)


def stream_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--format, --batch-rows, --batch-seconds."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass
class Batches:
    """Where rows come from, and how many were done."""

    files: Sequence[str]
    file_format: str
    batch_rows: int
    batch_seconds: float
    n_done: int = 0

    def work_in(self, index: Index, act: Callable[[Any], int], done: str) -> int:
        """Call `act` with every batch; it returns how many rows that were. A version is made at the end."""
        try:
            for file in self.files:
                if file == INPUT:
                    for source, explained in self._stream():
                        with explained():
                            self.n_done += act(source)
                else:
                    self.n_done += act(file)
        except KeyboardInterrupt:
            click.echo(f"rtree-anon: interrupted; {self._left_behind(index, done)}.", err=True)
            sys.exit(130)
        except SystemExit:
            self._left_behind(index, done)
            raise
        except AnonError as error:
            if self.n_done and not isinstance(error, StorageError):
                click.echo(f"rtree-anon: {self._left_behind(index, done)}; the rest was not, because:", err=True)
            raise
        index.checkpoint()
        return self.n_done

    def _left_behind(self, index: Index, done: str) -> str:
        """Make a version of what was done."""
        return f"{self.n_done:,} rows were {done} and stay (version {index.checkpoint()})"

    def _stream(self) -> Iterator[tuple[Any, Callable[[], Any]]]:
        from rtree_anon.io.line_stream import chunks

        for chunk in chunks(sys.stdin.buffer, self.file_format, self.batch_rows, self.batch_seconds):

            @contextmanager
            def explained(chunk: Any = chunk) -> Iterator[None]:
                try:
                    yield
                except InputError as error:
                    raise chunk.explained(error, self.file_format) from None

            with explained():
                rows = chunk.rows(self.file_format)
            try:
                yield rows.source, explained
            finally:
                rows.close()
