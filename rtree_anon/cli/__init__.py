"""The command line, `rtree-anon`. One module per command; a command's module is imported only when it is called.

Conventions (kept by `main` and `options.py`): every command has `--json` and `--help` with an example, shows progress on a
terminal and nothing in a pipe. Exit codes: 0 done, 1 the data or the privacy model says no, 2 wrong usage, 3 a damaged or
unreadable index, 130 interrupted.
"""

from __future__ import annotations

import importlib
import sys

import click

from rtree_anon.errors import AnonError

# command -> module (the command is the attribute `command` in it)
_COMMANDS = {
    "anonymize": "anonymize",
    "check": "check",
    "generate": "generate",
    "inspect": "inspect",
    "verify": "verify",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"{__name__}.{_COMMANDS[cmd_name]}")
        command: click.Command = module.command
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rtree-anon")
def application() -> None:
    """Anonymize tables about people, and check tables that others anonymized.

    \b
    Example:
      rtree-anon anonymize people.csv -q age,zip,sex -s disease -k 5,10,50 -o out/
      rtree-anon check out/k10.parquet -q age,zip,sex -s disease
    """


def main() -> None:
    """Run the command line; turn expected errors into one sentence and an exit code."""
    try:
        application(standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.Abort:
        print("rtree-anon: interrupted; nothing was left behind.", file=sys.stderr)
        sys.exit(130)
    except click.ClickException as wrong:  # usage: click knows how to show the right help
        wrong.show()
        sys.exit(2)
    except AnonError as error:
        print(f"rtree-anon: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("rtree-anon: interrupted; nothing was left behind.", file=sys.stderr)
        sys.exit(130)
    except MemoryError:
        print("rtree-anon: out of memory. Use fewer rows at a time or a smaller --memory.", file=sys.stderr)
        sys.exit(1)
