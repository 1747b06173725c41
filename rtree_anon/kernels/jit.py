"""How every kernel is compiled: one policy, one cache that cannot be stale, one line when the first compile runs.

* `nogil=True`: kernels run on plain arrays and never touch Python objects, so threads really overlap.
* No explicit signatures: an array over a read-only buffer is another type, and would be refused.
* numba's own cache looks at the file of the function that it stores, not at the files of the functions that this one
  calls, so a changed callee gives a stale result. Our cache of a module therefore lives in a directory whose name is a
  digest of that module and of every kernel module that it imports, directly or not (and of the versions of numba and
  Python): any change of what a kernel is made of is a new, empty cache.
* The directory is in the user's cache directory, so a read-only installation works. Where nothing can be written,
  kernels are compiled in every process and a warning says so. numba writes an entry to a temporary file and renames it,
  so several processes can share the directory.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event

_Function = TypeVar("_Function", bound=Callable[..., Any])
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def kernel(function: _Function) -> _Function:
    """Compile a function as a kernel (on its first call, for the types of its arguments).

    A literal number as an argument is a type of its own and compiles a second copy: kernels hand each other
    `np.int64(0)`.
    """
    return _compiled(function, _OPTIONS)


def lean_kernel(function: _Function) -> _Function:
    """A kernel that counts no references: for what is called once per node of a tree. It cannot make arrays.

    numba counts references to arrays even where they are only looked at; handing a tuple of a dozen arrays from one
    small function to the next then takes longer than the work on a few rows.
    """
    return _compiled(function, {**_OPTIONS, "_nrt": False})


def _compiled(function: _Function, options: dict[str, Any]) -> _Function:
    compile_: Any = numba.njit  # numba says that a compiled function has another type than the function
    configuration: Any = numba.config
    directory = _cache_directory(Path(function.__code__.co_filename).stem)
    if directory is None:
        return compile_(**options)(function)  # type: ignore[no-any-return]
    # The cache's place is read from numba's global configuration when the decorator runs. It is set for that moment
    # only: a user's own numba functions keep their own settings.
    before = configuration.CACHE_DIR
    configuration.CACHE_DIR = str(directory)
    try:
        return compile_(cache=True, **options)(function)  # type: ignore[no-any-return]
    finally:
        configuration.CACHE_DIR = before


def inlined(function: _Function) -> _Function:
    """Compile a function as a part of every kernel that calls it.

    For what is called in an innermost loop: to hand over a dozen arrays can cost more than the work itself.
    """
    compile_: Any = numba.njit
    return compile_(forceinline=True, **_OPTIONS)(function)  # type: ignore[no-any-return]


def lean_inlined(function: _Function) -> _Function:
    """As `inlined`, and as `lean_kernel`."""
    compile_: Any = numba.njit
    return compile_(forceinline=True, **_OPTIONS, _nrt=False)(function)  # type: ignore[no-any-return]


def _sources_of(module: str, found: dict[str, bytes]) -> dict[str, bytes]:
    """The sources of a kernel module and of all kernel modules that it imports, by module name."""
    path = Path(__file__).with_name(f"{module}.py")
    if module not in found and path.is_file():
        source = found[module] = path.read_bytes()
        package = re.escape(__name__.rpartition(".")[0].encode())
        for imported in re.findall(rb"^(?:from|import) " + package + rb"\.(\w+)", source, re.MULTILINE):
            _sources_of(imported.decode(), found)
        for names in re.findall(rb"^from " + package + rb" import (.+)$", source, re.MULTILINE):
            for imported in re.findall(rb"\w+", names):
                _sources_of(imported.decode(), found)
    return found


def _cache_directory(module: str) -> Path | None:
    """Where the compiled kernels of a module are kept; None where nothing can be written."""
    base = _cache_base()
    if base is None:
        return None
    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for name, source in sorted(_sources_of(module, {}).items()):
        digest.update(name.encode() + b"\0" + source + b"\0")
    flavour = "-checked" if os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0") else ""
    return base / f"{module}-{digest.hexdigest()[:16]}{flavour}"


@cache
def _cache_base() -> Path | None:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return None
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        base = Path(named)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = base / "rtree-anon" / "kernels"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        warnings.warn(
            f"rtree-anon cannot keep its compiled kernels in {directory} ({error.strerror}); they will be compiled "
            "again in every process. Set NUMBA_CACHE_DIR to a directory that can be written.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return directory


class _CompileNotice(event.Listener):
    """Says once, on a terminal, that compiling is what takes the time."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        dispatcher = event.data.get("dispatcher") if isinstance(event.data, dict) else None
        module = getattr(getattr(dispatcher, "py_func", None), "__module__", None) or ""  # None: made by exec
        if self.said or not module.startswith("rtree_anon."):
            return
        self.said = True
        if sys.stderr is not None and sys.stderr.isatty():
            kept = "kept for the next time" if _cache_base() is not None else "this process only"
            print(f"rtree-anon: compiling its kernels for this machine ({kept}) ...", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _CompileNotice())  # type: ignore[no-untyped-call]
