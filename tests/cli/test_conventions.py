"""What every command keeps: help with an example, `--json`, one sentence and an exit code for whatever goes wrong."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from rtree_anon import cli
from rtree_anon.cli.options import print_table, row_progress, step_progress
from rtree_anon.errors import CorruptionError, InputError, LockedError, PrivacyError, UsageError
from tests.cli.running import run

COMMANDS = sorted(cli._COMMANDS)


def raising(error: BaseException) -> click.Command:
    @click.command()
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_that_names_only_options_that_exist(name: str) -> None:
    done = run(name, "--help")
    assert done.code == 0 and done.err == "" and "--json" in done.out and "Example:" in done.out
    examples = [line for line in done.out.splitlines() if line.strip().startswith(f"rtree-anon {name} ")]
    assert examples
    command = cli.application.get_command(click.Context(cli.application), name)
    assert command is not None
    known = {flag for parameter in command.params for flag in parameter.opts}
    used = {word for line in examples for word in shlex.split(line) if word.startswith("-")}
    assert used <= known


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("--version",)])
def test_help_and_version_succeed(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.code == 0 and done.out and done.err == ""


def test_without_arguments_the_help_is_shown() -> None:
    done = run()
    assert done.code in (0, 2) and "Example:" in done.out + done.err  # older versions of click exit with 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("anonymise",), "No such command 'anonymise'"),
        (("check",), "Missing argument 'FILE'"),
        (("anonymize", "x.csv", "-k", "5"), "Missing option '-o'"),
        (("generate", "agrawal", "--rows", "many", "-o", "x.csv"), "'many' is not a valid integer"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.code == 2 and message in done.sentence and "--help" in done.sentence and done.out == ""


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (PrivacyError("Too few rows."), 1, "Too few rows."),
        (InputError("text", source="a.csv", row=3, column="age"), 1, "a.csv, row 3, column 'age': text"),
        (UsageError("No."), 2, "No."),
        (CorruptionError("page 7 is damaged"), 3, "page 7 is damaged"),
        (LockedError("in use"), 1, "in use"),
        (OSError(28, "No space left on device", "out/k5.parquet"), 3, "out/k5.parquet: No space left on device."),
        (OSError("device is gone"), 3, "device is gone."),
        (MemoryError(), 1, "out of memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_codes(error: BaseException, code: int, sentence: str) -> None:
    done = run(command=raising(error))
    assert done.code == code and sentence in done.err and done.out == "" and "Traceback" not in done.err


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        run(command=raising(ZeroDivisionError()))


def test_exit_codes_of_commands_reach_the_shell() -> None:
    """click hands the code of `ctx.exit(3)` back to its caller; it must not be lost there."""
    assert run(command=raising(click.exceptions.Exit(3))).code == 3


@pytest.mark.parametrize("name", ["anonymize", "check", "generate"])
def test_a_closed_pipe_is_silent(name: str, tmp_path: Path) -> None:
    """As in `rtree-anon check ... | head -1`: no traceback, and not the exit code that says "the data says no"."""
    reading, writing = os.pipe()
    os.close(reading)
    (tmp_path / "people.csv").write_text("age,sex\n" + "30,F\n" * 20)
    arguments = {
        "anonymize": ["people.csv", "-q", "age", "-k", "5", "-o", "out"],
        "check": ["people.csv", "-q", "age"],
        "generate": ["agrawal", "--rows", "5", "-o", "x.csv", "--json"],
    }[name]
    command = [sys.executable, "-m", "rtree_anon.cli", name, *arguments]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_names_may_have_commas_and_be_given_in_parts(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('"height, cm",age,sex\n' + "180,30,F\n" * 3)
    done = run("check", tmp_path / "t.csv", "-q", 'sex,"height, cm"', "-q", "age")
    assert done.code == 0 and "Grouped by sex, height, cm, age" in done.out


def test_a_terminal_gets_a_table_with_lines_and_a_pipe_gets_plain_text() -> None:
    @click.command()
    def command() -> None:
        print_table(("k", "groups"), [("5", "1,000"), ("10", "99")])

    assert run(command=command).out == " k  groups\n 5   1,000\n10      99\n"
    drawn = run(command=command, terminal=True).out
    assert "1,000" in drawn and "─" in drawn


def test_progress_is_for_terminals_only() -> None:
    @click.command()
    def command() -> None:
        with step_progress() as show:
            show("cutting")
        with row_progress("generating", 10) as advance:
            advance(10)

    assert run(command=command)[1:] == ("", "")
    on_terminal = run(command=command, terminal=True)
    assert on_terminal.out == "" and "cutting" in on_terminal.err and "generating" in on_terminal.err
