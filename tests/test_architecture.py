"""The directions of the layers, held by walking every import statement, and what `import rtree_anon` may load.

    cli ──► façade (rtree_anon, anonymizer, index) ──► tree, lattice, release, io ... ──► storage, kernels ──► numpy …

Checking and datasets stand apart: they know the errors and nothing else of ours.

Imports inside functions and under TYPE_CHECKING count too: a direction is about what a file knows.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import rtree_anon
from rtree_anon import cli

ROOT = Path(rtree_anon.__file__).resolve().parent
PROJECT = ROOT.parent
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}


@dataclass(frozen=True)
class Import:
    """One module that a file names in an import statement."""

    path: Path
    line: int
    module: str
    name: str | None  # what is taken from it; None where the module itself is imported
    is_inner: bool  # inside a function or under TYPE_CHECKING: not run when the file is imported

    def __str__(self) -> str:
        return f"{self.path.relative_to(PROJECT)}:{self.line} imports {self.module}"


def source_files() -> dict[Path, str]:
    """Every source file and the name of its module; the folder storage/ is rtree_anon.storage."""
    files = {path: path.relative_to(PROJECT) for path in ROOT.rglob("*.py") if ROOT / "storage" not in path.parents}
    files |= {path: Path("rtree_anon") / path.relative_to(PROJECT) for path in (PROJECT / "storage").rglob("*.py")}
    return {path: ".".join(name.with_suffix("").parts).removesuffix(".__init__") for path, name in files.items()}


FILES = source_files()
MODULES = set(FILES.values())


def imports_of(path: Path) -> Iterator[Import]:
    module = FILES[path]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]

    def visit(node: ast.AST, is_inner: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(path, node.lineno, alias.name, None, is_inner) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for (
                alias
            ) in node.names:  # `from package import module` names the module, `from module import name` does not
                submodule = f"{base}.{alias.name}"
                target = submodule if base == "rtree_anon" or submodule in MODULES else base
                yield Import(path, node.lineno, target, alias.name, is_inner)
        inner = is_inner or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        inner = inner or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inner)

    yield from visit(ast.parse(path.read_text()), False)


IMPORTS = [found for path in FILES for found in imports_of(path)]


def within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def importer(found: Import) -> str:
    return FILES[found.path]


def listed(wrong: list[Import]) -> str:
    return "\n".join(map(str, wrong))


def is_ours(found: Import) -> bool:
    return within(found.module, {"rtree_anon"})


def is_third_party(found: Import) -> bool:
    top = found.module.partition(".")[0]
    return not is_ours(found) and top not in sys.stdlib_module_names


def test_the_walk_sees_imports_of_all_forms() -> None:
    """Guards the tests below against passing because nothing was found."""
    seen = {(importer(found), found.module) for found in IMPORTS}
    assert ("rtree_anon.checking", "rtree_anon.checking.checker") in seen
    assert ("rtree_anon.datasets", "rtree_anon.datasets.agrawal") in seen  # from package import module
    assert ("rtree_anon.cli.check", "rtree_anon.checking") in seen  # inside a function
    assert any(module == "rtree_anon.storage" for module in FILES.values())


@pytest.mark.parametrize(
    ("package", "ours", "third_party"),
    [
        ("rtree_anon.kernels", {"rtree_anon.kernels"}, {"numpy", "numba", "llvmlite"}),
        ("rtree_anon.storage", {"rtree_anon.storage", "rtree_anon.errors"}, {"numpy", "msgpack", "xxhash"}),
        ("rtree_anon.checking", {"rtree_anon.checking", "rtree_anon.errors"}, {"numpy", "pyarrow"}),
        ("rtree_anon.datasets", {"rtree_anon.datasets", "rtree_anon.errors"}, {"numpy", "pyarrow"}),
        ("rtree_anon.errors", set(), set()),
        ("rtree_anon.arguments", {"rtree_anon.errors"}, set()),
        ("rtree_anon.models", {"rtree_anon.models", "rtree_anon.errors", "rtree_anon.kernels.constraint"}, {"numpy"}),
        ("rtree_anon.space", {"rtree_anon.errors"}, {"numpy"}),
    ],
)
def test_packages_that_know_little(package: str, ours: set[str], third_party: set[str]) -> None:
    own = [found for found in IMPORTS if within(importer(found), {package})]
    wrong = [found for found in own if is_ours(found) and not within(found.module, ours)]
    wrong += [found for found in own if is_third_party(found) and not within(found.module, third_party)]
    assert not wrong, listed(wrong)


@pytest.mark.parametrize(
    ("module", "known_to"),
    [
        ("pyarrow", {"rtree_anon.io", "rtree_anon.checking", "rtree_anon.datasets", "rtree_anon.release"}),
        ("numba", {"rtree_anon.kernels"}),
        ("msgpack", {"rtree_anon.storage"}),
        ("click", {"rtree_anon.cli"}),
        ("rtree_anon.cli", {"rtree_anon.cli"}),
        ("rtree_anon.anonymizer", {"rtree_anon.anonymizer", "rtree_anon.cli"}),
        ("rtree_anon.index", {"rtree_anon.index", "rtree_anon.cli"}),
        (
            "rtree_anon.checking",
            {
                "rtree_anon.checking",
                "rtree_anon.cli",
                "rtree_anon.release.writing",
                "rtree_anon.release.verifying",
                "rtree_anon.release.file_count",
            },
        ),
        ("rtree_anon.datasets", {"rtree_anon.datasets", "rtree_anon.cli"}),
    ],
)
def test_modules_that_few_may_know(module: str, known_to: set[str]) -> None:
    wrong = [found for found in IMPORTS if within(found.module, {module}) and not within(importer(found), known_to)]
    assert not wrong, listed(wrong)


@pytest.mark.parametrize(
    ("package", "unknown"),
    [
        ("rtree_anon.lattice", {"rtree_anon.tree", "rtree_anon.storage"}),
        ("rtree_anon.tree", {"rtree_anon.io", "rtree_anon.release", "rtree_anon.lattice", "rtree_anon.schema"}),
        ("rtree_anon.io", {"rtree_anon.tree", "rtree_anon.lattice", "rtree_anon.release"}),
        ("rtree_anon.schema", {"rtree_anon.tree", "rtree_anon.lattice", "rtree_anon.release"}),
        ("rtree_anon.hierarchy", {"rtree_anon.tree", "rtree_anon.lattice", "rtree_anon.release", "rtree_anon.io"}),
    ],
)
def test_packages_that_do_not_know_each_other(package: str, unknown: set[str]) -> None:
    wrong = [found for found in IMPORTS if within(importer(found), {package}) and within(found.module, unknown)]
    assert not wrong, listed(wrong)


def test_only_the_command_line_knows_the_facade() -> None:
    """Others import a name from the module that defines it, not from the front door (the version is no secret)."""
    public = {f"rtree_anon.{name}" for name in rtree_anon._HOME if rtree_anon._HOME[name] != name} | {"rtree_anon"}
    wrong = [
        found
        for found in IMPORTS
        if found.module in public - MODULES and not within(importer(found), {"rtree_anon.cli"})
    ]
    wrong += [found for found in IMPORTS if found.module == "rtree_anon" and importer(found) != "rtree_anon"]
    assert not wrong, listed(wrong)


def test_one_module_of_storage_calls_the_operating_system() -> None:
    """So that a test can put another one in its place: one that fails, tears writes or loses them."""
    system = {"os", "mmap", "fcntl", "msvcrt", "tempfile", "shutil", "socket"}
    harmless = {"PathLike", "fspath"}
    calling = {
        importer(found)
        for found in IMPORTS
        if within(importer(found), {"rtree_anon.storage"}) and found.module in system and found.name not in harmless
    }
    assert len(calling) <= 1, calling


def test_extras_are_imported_only_where_they_are_used() -> None:
    extras = {"pandas", "polars", "matplotlib", "scipy", "duckdb"}
    wrong = [found for found in IMPORTS if within(found.module, extras) and not found.is_inner]
    assert not wrong, listed(wrong)


def loaded_by(statement: str) -> set[str]:
    """The heavy modules that a fresh interpreter has loaded after a statement."""
    code = f"import sys\n{statement}\nprint(*(m for m in ('numba', 'pyarrow', 'pandas', 'polars') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_is_light() -> None:
    assert loaded_by("import rtree_anon; dir(rtree_anon)") == set()


@pytest.mark.parametrize("module", ["schema", "hierarchy", "models", "space", "errors", "storage"])
def test_modules_that_load_nothing_heavy(module: str) -> None:
    assert loaded_by(f"import rtree_anon.{module}") == set()


def test_help_is_light() -> None:
    """`rtree-anon --help` imports every command's module, for its one line of help."""
    assert loaded_by(f"import {', '.join(f'rtree_anon.cli.{name}' for name in cli._COMMANDS.values())}") == set()


@pytest.mark.parametrize("name", sorted(rtree_anon._HOME))
def test_public_names_resolve(name: str) -> None:
    assert getattr(rtree_anon, name) is not None and name in dir(rtree_anon)


def test_unknown_names_do_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'anonymise'"):
        rtree_anon.anonymise  # noqa: B018


@pytest.mark.parametrize("path", sorted(FILES), ids=lambda path: str(path.relative_to(PROJECT)))
def test_house_style(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), "a file opens with a docstring that says what it is for"
    assert len(text.splitlines()) <= 500, "past 500 lines look for the second noun in the file"
    assert not VAGUE & set(FILES[path].split(".")), "a name says what a module is for"
