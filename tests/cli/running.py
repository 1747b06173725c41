"""Running the command line inside the test's own process, as a shell would see it: exit code, stdout, stderr."""

from __future__ import annotations

import contextlib
import io
import signal
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import click

from rtree_anon import cli


class Outcome(NamedTuple):
    """What a shell sees of a command."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one line on stderr, without the program's name."""
        line = self.err.strip()  # click ends the terminal's line with ^C before it says that it was interrupted
        assert line.startswith("rtree-anon: ") and "\n" not in line, self.err
        return line.removeprefix("rtree-anon: ")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(*arguments: str | Path, command: click.Command = cli.application, terminal: bool = False) -> Outcome:
    """Run `rtree-anon`, or another command, with these arguments. The signal handlers that it sets are taken back."""
    name = "rtree-anon"
    handlers = {number: signal.getsignal(number) for number in cli._ENDING_SIGNALS}
    out, err = (_Terminal(), _Terminal()) if terminal else (io.StringIO(), io.StringIO())
    try:
        with (
            mock.patch("sys.argv", [name, *map(str, arguments)]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            cli.main(command, name)
    except SystemExit as ended:
        code = ended.code or 0
        assert isinstance(code, int)
        return Outcome(code, out.getvalue(), err.getvalue())
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    raise AssertionError("main returned, though it has to exit")


def listing(directory: Path) -> list[str]:
    """Every file and directory below, hidden ones too."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))
