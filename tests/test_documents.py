"""The documents keep up with the code: examples run, commands and options exist, links and named files are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from rtree_anon import cli

PROJECT = Path(__file__).resolve().parent.parent
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]


def blocks(document: str, language: str = "") -> list[str]:
    """The code blocks of a document that are marked with this language."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", (PROJECT / document).read_text(), re.M | re.S)
    return found


def test_the_python_examples_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = blocks("README.md", "python")
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})


def test_the_commands_of_the_readme_exist_with_their_options() -> None:
    lines = [line for block in blocks("README.md") for line in block.splitlines() if line.startswith("rtree-anon ")]
    assert lines
    for line in lines:
        _, name, *words = shlex.split(line)
        command = cli.application.get_command(click.Context(cli.application), name)
        assert command is not None, line
        command.make_context(name, words)  # raises where an option is unknown or its value wrong


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_named_files_exist(document: str) -> None:
    text = (PROJECT / document).read_text()
    named = re.findall(r"\]\(([^)#:]+)\)", text)
    named += re.findall(r"`((?:rtree_anon|scripts|storage|tests|bench)/[\w/.]*)`", text)
    named += [f"{module.replace('.', '/')}.py" for module in re.findall(r"python -m (bench\.\w+)", text)]
    missing = [name for name in named if not (PROJECT / name).exists()]
    assert not missing


def test_folders_are_described() -> None:
    """Every package has its line in ARCHITECTURE.md."""
    text = (PROJECT / "ARCHITECTURE.md").read_text()
    packages = [
        path.parent.name for path in (PROJECT / "rtree_anon").glob("*/__init__.py") if path.parent.name != "storage"
    ]
    assert packages and not [name for name in packages if f"`rtree_anon/{name}/`" not in text]
