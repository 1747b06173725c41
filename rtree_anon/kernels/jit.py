"""How every kernel is compiled: one policy, one cache that cannot be stale, one line when the first compile runs.

* `nogil=True`: kernels run on plain arrays and never touch Python objects, so threads really overlap.
* No explicit signatures: an array over a read-only buffer is another type, and would be refused.
* numba's own cache looks at the file of the function that it stores, not at the files of the functions that this one
  calls, so a changed callee gives a stale result. Our cache therefore lives in a directory whose name is a digest of
  *all* kernel sources (and of the versions of numba and Python): any change of any kernel is a new, empty cache.
* The directory is in the user's cache directory, so a read-only installation works. Where nothing can be written,
  kernels are compiled in every process and a warning says so. numba writes an entry to a temporary file and renames it,
  so several processes can share the directory.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile a function as a kernel (on its first call, for the types of its arguments).

    A literal number as an argument is a type of its own and compiles a second copy: kernels hand each other
    `np.int64(0)`.
    """
    compile_: Any = numba.njit  # numba says that a compiled function has another type than the function
    configuration: Any = numba.config
    options = {"nogil": True, "error_model": "numpy"}
    if _CACHE_DIRECTORY is None:
        return compile_(**options)(function)  # type: ignore[no-any-return]
    # The cache's place is read from numba's global configuration when the decorator runs. It is set for that moment
    # only: a user's own numba functions keep their own settings.
    before = configuration.CACHE_DIR
    configuration.CACHE_DIR = str(_CACHE_DIRECTORY)
    try:
        return compile_(cache=True, **options)(function)  # type: ignore[no-any-return]
    finally:
        configuration.CACHE_DIR = before


def _sources_digest() -> str:
    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _cache_directory() -> Path | None:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return None
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        base = Path(named)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    flavour = "-checked" if os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0") else ""
    directory = base / "rtree-anon" / f"kernels-{_sources_digest()}{flavour}"
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
            kept = "kept for the next time" if _CACHE_DIRECTORY is not None else "this process only"
            print(f"rtree-anon: compiling its kernels for this machine ({kept}) ...", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass


_CACHE_DIRECTORY = _cache_directory()
event.register("numba:compile", _CompileNotice())  # type: ignore[no-untyped-call]
