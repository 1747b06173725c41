"""The cache of compiled kernels: never stale, never in the way, and other people's numba settings stay as they are.

Each case is a small package of its own in a fresh process, with our jit.py copied into it: compiling two additions
takes a second, compiling the real kernels a minute.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import rtree_anon.kernels

JIT_SOURCE = Path(rtree_anon.kernels.__file__).with_name("jit.py").read_text(encoding="utf-8")
CALLEE = "from pkg.jit import kernel\n\n@kernel\ndef step(x):\n    return x + {}\n"
CALLER = "from pkg.callee import step\nfrom pkg.jit import kernel\n\n@kernel\ndef walk(x):\n    return step(x) * 10\n"
STRANGER = "from pkg.jit import kernel\n\n@kernel\ndef jump(x):\n    return x - {}\n"
REPORT = """
from pkg.caller import walk
from pkg.jit import _cache_directory
print(walk(1), _cache_directory("caller"), sum(walk.stats.cache_hits.values()))
"""
SETTINGS = """
import numba
before = numba.config.CACHE_DIR
import pkg.caller
print(repr(before), numba.config.CACHE_DIR == before)
"""


def make_package(directory: Path, added: int) -> None:
    package = directory / "pkg"
    package.mkdir(exist_ok=True)
    for name, source in {
        "__init__.py": "",
        "jit.py": JIT_SOURCE,
        "callee.py": CALLEE.format(added),
        "caller.py": CALLER,
        "stranger.py": STRANGER.format(added),
    }.items():
        (package / name).write_text(source, encoding="utf-8")


def run(code: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", code],
        cwd=directory,
        env={**kept, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_changed_callee_is_never_answered_from_the_cache(tmp_path: Path) -> None:
    """numba's own cache of `walk` looks at caller.py alone, and would go on adding 1."""
    cache = str(tmp_path / "cache")
    make_package(tmp_path, added=1)
    done = run(REPORT, tmp_path, NUMBA_CACHE_DIR=cache)
    assert done.stderr == ""  # the line about compiling is for terminals; in a pipe or a log it would be noise
    first = done.stdout.split()
    second = run(REPORT, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split()
    assert first[0] == second[0] == "20"
    assert first[1] == second[1]
    assert (first[2], second[2]) == ("0", "1")  # the second process compiles nothing
    make_package(tmp_path, added=2)
    third = run(REPORT, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split()
    assert third[0] == "30"
    assert third[1] != first[1]
    make_package(tmp_path, added=1)
    assert run(REPORT, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split() == second


def test_a_changed_module_that_is_not_imported_costs_no_compiling(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    make_package(tmp_path, added=1)
    first = run(REPORT, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split()
    (tmp_path / "pkg" / "stranger.py").write_text(STRANGER.format(5), encoding="utf-8")
    assert run(REPORT, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split() == [*first[:2], "1"]


def test_bounds_checks_have_a_cache_of_their_own(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    make_package(tmp_path, added=1)
    plain = run(REPORT, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split()
    checked = run(REPORT, tmp_path, NUMBA_CACHE_DIR=cache, NUMBA_BOUNDSCHECK="1").stdout.split()
    assert plain[1] != checked[1]
    assert checked[2] == "0"


def test_the_cache_is_in_the_users_cache_directory(tmp_path: Path) -> None:
    make_package(tmp_path, added=1)
    found = run(REPORT, tmp_path, XDG_CACHE_HOME=str(tmp_path / "xdg"), LOCALAPPDATA=str(tmp_path / "xdg")).stdout
    assert Path(found.split()[1]).is_relative_to(tmp_path / "xdg" / "rtree-anon")
    assert not list((tmp_path / "pkg").glob("**/*.nbi"))


def test_without_a_cache_directory_kernels_still_work_and_a_warning_says_so(tmp_path: Path) -> None:
    """A file where the directory should be: nobody can write there, not even root."""
    make_package(tmp_path, added=1)
    (tmp_path / "occupied").write_text("", encoding="utf-8")
    done = run(REPORT, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "occupied"))
    assert done.stdout.split() == ["20", "None", "0"]
    assert done.stderr.count("RuntimeWarning") == 1
    assert "cannot keep its compiled kernels in" in done.stderr
    assert "Set NUMBA_CACHE_DIR to a directory that can be written" in done.stderr


def test_importing_kernels_leaves_numbas_settings_alone(tmp_path: Path) -> None:
    make_package(tmp_path, added=1)
    assert run(SETTINGS, tmp_path, XDG_CACHE_HOME=str(tmp_path)).stdout.split() == ["''", "True"]
    own = str(tmp_path / "own")
    assert run(SETTINGS, tmp_path, NUMBA_CACHE_DIR=own).stdout.split() == [repr(own), "True"]


def test_kernels_run_without_jit(tmp_path: Path) -> None:
    """For debuggers and for measuring coverage."""
    make_package(tmp_path, added=1)
    code = "from pkg.caller import walk; print(walk(1), type(walk).__name__)"
    assert run(code, tmp_path, NUMBA_DISABLE_JIT="1").stdout.split() == ["20", "function"]
