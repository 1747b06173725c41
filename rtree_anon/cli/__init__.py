"""The command line, `rtree-anon`. One module per command; a command's module is imported only when it is called.

Conventions (kept by `main` and `options.py`): every command has `--json` and `--help` with an example, shows progress
on a terminal and none in a pipe. Exit codes: 0 done, 1 the data or the privacy model says no, 2 wrong usage, 3 a
damaged or unreadable index or a failing disk, 130 interrupted. An error is one sentence on stderr and leaves no
partial output.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from contextlib import suppress
from typing import Any

import click

from rtree_anon.errors import AnonError, StorageError

# command -> module (the command is the attribute `command` in it)
_COMMANDS = {
    "anonymize": "anonymize",
    "changes": "changes",
    "check": "check",
    "compare": "compare",
    "count": "count",
    "create": "create",
    "delete": "delete",
    "generate": "generate",
    "insert": "insert",
    "inspect": "inspect",
    "lattice": "lattice",
    "load": "load",
    "release": "release",
    "report": "report",
    "stats": "stats",
    "update": "update",
    "verify": "verify",
}


_CLOSED_PIPE = 141  # as the shell says it: 128 + SIGPIPE
_ENDING_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"{__name__}.{_COMMANDS[cmd_name]}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click itself would make this exit code 1, "the data says no"
            ctx.exit(_CLOSED_PIPE)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rtree-anon")
def application() -> None:
    """Anonymize tables about people, and check tables that others anonymized.

    \b
    Example:
      rtree-anon anonymize people.csv -q age,zip,sex -s disease -k 5,10,50 -o out/
      rtree-anon check out/k10.parquet -q age,zip,sex -s disease
    """


def main(command: click.Command = application, name: str = "rtree-anon") -> None:
    """Run a command and exit with its code; what can be expected to go wrong becomes one sentence on stderr."""
    with suppress(ValueError):  # only the main thread may
        for number in _ENDING_SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:  # an exception, so that unfinished files are removed
                signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        code = command(prog_name=name, standalone_mode=False)  # an exit code, or what the command returned
        sys.stdout.flush()  # here, where a closed pipe is still expected
    except (click.Abort, KeyboardInterrupt):
        _complain(name, "interrupted; nothing was left behind.")
        code = 130
    except click.ClickException as wrong:
        _explain_usage(name, wrong)
        code = 2
    except AnonError as error:
        _complain(name, str(error))
        code = error.exit_code
    except BrokenPipeError:
        code = _CLOSED_PIPE
    except MemoryError:
        _complain(
            name, "out of memory; nothing was left behind. Use fewer rows or columns, or a machine with more memory."
        )
        code = 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(name, f"{where}{error.strerror or error}.")
        code = StorageError.exit_code
    if code == _CLOSED_PIPE:  # nobody reads on, which is no error; nor should Python complain of it when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _explain_usage(name: str, wrong: click.ClickException) -> None:
    context = getattr(wrong, "ctx", None)
    if isinstance(wrong, getattr(click.exceptions, "NoArgsIsHelpError", ())):  # its message is the whole help
        wrong.show()
    else:
        hint = f" ({context.command_path} --help shows an example.)" if context else ""
        _complain(name, f"{wrong.format_message().strip().rstrip('.')}.{hint}")


def _complain(name: str, sentence: str) -> None:
    print(f"{name}: {sentence}", file=sys.stderr)
