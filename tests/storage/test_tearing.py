"""Commit records, journals, journal records and manifests torn at *every* byte.

Random sampling of crashes once missed a commit record without a checksum; cutting it at each of its bytes cannot.
Behind the cut is what was there before, garbage, or zeros.
"""

from __future__ import annotations

import random

import pytest

from tests.storage import workloads
from tests.storage.disk import SimulatedDisk, torn_fates
from tests.storage.workloads import Script, ViolationError, check

RESTS = {
    "old bytes": lambda lost: b"",
    "garbage": lambda lost: random.Random(len(lost)).randbytes(len(lost)),
    "zeros": lambda lost: bytes(len(lost)),
}


def tear_every_byte(script: Script, is_target, act, *, thorough: bool) -> int:
    """Run `act`; each write that `is_target` chooses is torn at every byte; the number of images.

    Every cut is tried with one kind of rest behind it, in turn, or (`thorough`) with all of them, names kept and lost.
    """
    disk, n_images = script.disk, 0

    def tear(operation: str, path: str) -> None:
        nonlocal n_images
        if operation != "write" or not is_target(path, *disk.last_write):
            return
        ways = [(names, rest) for names in ("kept", "lost") for rest in RESTS]
        n_bytes = len(disk.last_write[1])
        n_used = len(disk.last_write[1].rstrip(b"\0"))
        # Zeros in reserve are like each other.
        for cut in (*range(n_used + 1), *range(n_used + 1, n_bytes + 1, 13 if thorough else 61)):
            for names, rest in ways if thorough else (ways[cut % len(ways)],):
                image = disk.crash(torn_fates(disk.last_write, cut, names, RESTS[rest]))
                n_images += 1
                try:
                    check(image, script.model, depth=n_images % 4)
                except ViolationError as violation:
                    raise ViolationError(
                        f"{violation} -- {path} cut at byte {cut}, {rest} behind it, names {names}"
                    ) from None

    disk.after = tear
    act()
    disk.after = lambda operation, path: None
    return n_images


def prepared() -> Script:
    script = Script(SimulatedDisk(5), 5)
    script.create()
    script.write_new(5)
    script.commit()
    script.append(2)
    return script


def tear_commit_record(thorough: bool) -> int:
    script = prepared()
    script.rewrite(2)
    return tear_every_byte(
        script,
        lambda path, offset, data: path.endswith("/data") and offset in (4096, 8192),
        script.commit,
        thorough=thorough,
    )


def tear_new_journal(thorough: bool) -> int:
    script = prepared()
    script.rewrite(2)
    return tear_every_byte(
        script,
        lambda path, offset, data: path.endswith("/journal.new"),
        lambda: script.commit(apply=True),
        thorough=thorough,
    )


def tear_journal_record(thorough: bool) -> int:
    script = prepared()
    return tear_every_byte(
        script, lambda path, offset, data: path.endswith("/journal"), lambda: script.append(3), thorough=thorough
    )


def tear_record_behind_the_reserve(thorough: bool) -> int:
    script = prepared()
    log = script.store._journal
    while log._n_file_bytes - log._end > 600:
        script.append(1)
    return tear_every_byte(
        script,
        lambda path, offset, data: path.endswith("/journal") and len(data) > 16 << 10,
        lambda: [script.append(1) for _ in range(8)],
        thorough=thorough,
    )


def tear_manifest(thorough: bool) -> int:
    script = prepared()
    return tear_every_byte(
        script,
        lambda path, offset, data: path.endswith("/manifest.json"),
        lambda: script.publish("out"),
        thorough=thorough,
    )


TARGETS = {
    "commit record": tear_commit_record,
    "journal header": tear_new_journal,
    "journal record": tear_journal_record,
    "journal record behind the reserve": tear_record_behind_the_reserve,
    "manifest": tear_manifest,
}


@pytest.mark.parametrize("target", TARGETS)
def test_a_record_torn_anywhere_is_not_believed(target, tally):
    n_images = TARGETS[target](thorough=False)
    assert n_images > 100
    tally("torn records", n_images)


@pytest.mark.deep
@pytest.mark.parametrize("page_bytes", [512, 4096, 8192, 16384, 32768, 65536])
@pytest.mark.parametrize("target", TARGETS)
def test_a_record_torn_at_every_byte_for_all_page_sizes(target, page_bytes, tally, monkeypatch):
    monkeypatch.setattr(workloads, "PAGE_BYTES", page_bytes)
    tally("torn records", TARGETS[target](thorough=page_bytes == 512))
