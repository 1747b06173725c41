"""P8 on the real process: system calls that fail by `strace -e inject`, at the first, second, third … call until none
fires.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rtree_anon.storage import open_store, verify_store

ROOT = Path(__file__).parents[2]
CALLS = [
    ("fdatasync", "EIO"),
    ("fsync", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("pwrite64", "EIO"),
    ("rename", "EIO"),
    ("preadv,preadv2", "EIO"),
]


def strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


def run_injected(path: Path, call: str, error: str, when: str) -> list[str]:
    strace = [
        "strace",
        "-f",
        "-qq",
        "-o",
        f"{path}.trace",
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:error={error}:when={when}",
    ]
    command = [*strace, sys.executable, "-m", "tests.storage.injected", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{call} {error} {when}: not a named error: {done.stderr[-800:]}"
    return done.stdout.splitlines()


def check_left_behind(path: Path, lines: list[str], name: str) -> None:
    acknowledged = {
        kind: int(number) for kind, number in (line.split() for line in lines if line[:6] in ("commit", "journa"))
    }
    if not path.exists():
        assert "created" not in lines, name
        return
    report = verify_store(path)
    assert report.ok, (name, report.problems)
    with open_store(path) as store:
        version = store.metadata.get("version", 0)
        assert acknowledged.get("commit", 0) <= version <= acknowledged.get("commit", 0) + 1, name
        assert {bytes(store.read(page_id)) for page_id in store.page_ids().tolist()} <= {b"%d" % version}, name
        assert store.journal_seq + len(store.replay()) >= acknowledged.get("journal", 0), name


@pytest.mark.deep
@pytest.mark.skipif(not strace_works(), reason="strace is not here or may not trace")
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize(("call", "error"), CALLS, ids=lambda value: value)
def test_a_failing_system_call_of_the_real_process_is_a_named_error(call, error, for_good, tmp_path, tally):
    # Python's own start does none of these calls but preadv's relatives; opening and creating does all of them.
    for position in range(1, 200):
        path = tmp_path / f"{position}.idx"
        lines = run_injected(path, call, error, f"{position}+" if for_good else str(position))
        assert lines[0] == "started"
        fired = "INJECTED" in Path(f"{path}.trace").read_text()
        check_left_behind(path, lines, f"{call} {error} at {position}")
        if not fired:
            assert position > 1
            break
        assert any(line.startswith("error") for line in lines), f"{call} {error} at {position} went unnoticed"
        tally("faults injected into system calls", 1)
        if position > 40:  # the rest repeats: one version is like another
            break
