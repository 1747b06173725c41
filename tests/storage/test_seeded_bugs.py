"""The tests of the tests: every seeded bug is caught by a test that passes without it, and the run says by which.

The detectors are the tests of this folder, called at a small size. Quick runs do the bugs that are found fast; `-m
deep` does all of them, trying the other detectors where the expected one does not find the bug.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.storage import (
    test_allocation,
    test_bit_flips,
    test_conformance,
    test_faults,
    test_hostile_files,
    test_model,
    test_readers,
    test_rollback,
    test_scrub,
    test_sync_ahead,
    test_tearing,
)
from tests.storage.crashes import explore_crashes
from tests.storage.disk import SimulatedDisk
from tests.storage.faults import inject_everywhere
from tests.storage.hostile import pristine
from tests.storage.mutants import MUTANTS, Mutant, applied
from tests.storage.workloads import WORKLOADS


def crash(workload: str) -> Callable[[], object]:
    return lambda: [explore_crashes(workload, seed, n_outcomes=12) for seed in range(2)]


def ignore(what: str, value: object) -> None:
    """Stands for the fixture `tally`."""


def second_writer() -> None:
    disk = SimulatedDisk()
    with test_readers.create_store("index", page_bytes=512, fs=disk), pytest.raises(test_readers.LockedError):
        test_readers.open_store("index", fs=disk)


def model() -> None:
    few = settings(
        max_examples=60,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=test_model.CHECKS,
        phases=[Phase.generate],  # finding the bug is enough, the smallest example is not needed
    )
    run_state_machine_as_test(test_model.StoreMachine, settings=few)


def conformance(check: Callable[..., None]) -> Callable[[], None]:
    def run() -> None:
        with test_readers.create_store("index", page_bytes=512, fs=SimulatedDisk()) as store:
            check(store)

    return run


def short_writes() -> None:
    for workload in ("create", "journal rotation"):
        inject_everywhere(workload, "short write", for_good=False)


def all_faults() -> None:
    for workload in ("commits with splits", "journal rotation", "bulk load"):
        for for_good in (False, True):
            inject_everywhere(workload, "EIO", for_good=for_good)


def hostile(check: Callable[..., None], *arguments: object) -> Callable[[], None]:
    return lambda: check(pristine(), *arguments)


DETECTORS: dict[str, Callable[[], object]] = {
    "readers: second writer": second_writer,
    "readers: pinned": lambda: test_readers.check_pinned_reader(SimulatedDisk(), "index"),
    "readers: file growth": lambda: test_readers.check_file_growth_after_reader(SimulatedDisk(), "index"),
    "readers: registering": test_readers.test_a_reader_that_registers_while_two_commits_pass_takes_a_newer_version,
    "rollback: damaged newest record": (
        test_rollback.test_a_damaged_newest_commit_record_is_not_silently_replaced_by_the_older_one
    ),
    "rollback: stale page": lambda: test_rollback.test_a_page_that_is_intact_but_not_the_right_one_is_found("stale"),
    "scrub: deleted": test_scrub.test_nothing_of_a_deleted_page_record_or_metadata_is_left_after_a_scrub,
    "scrub: buffers": test_scrub.test_a_reused_buffer_leaks_nothing_behind_a_short_payload,
    "conformance: gaps": conformance(test_conformance.check_gap_of_unwritten_ids),
    "conformance: ids": test_allocation.test_ids_are_given_out_as_the_twin_in_memory_does,
    "syncing ahead: error": lambda: test_sync_ahead.test_an_error_of_syncing_ahead_ends_the_store(rebuild=True),
    "syncing ahead: commit": test_sync_ahead.test_a_commit_does_not_believe_its_own_sync_after_another_one_failed,
    "syncing ahead: close": test_sync_ahead.test_the_file_is_not_closed_while_it_is_synced,
    "conformance: freed places": conformance(test_conformance.check_place_is_given_out_once),
    "faults: failed sync": test_faults.test_after_a_failed_sync_the_writer_has_ended_and_says_so,
    "faults: failed journal sync": test_faults.test_after_a_failed_journal_sync_the_writer_has_ended,
    "hostile: absurd pin": lambda: test_hostile_files.test_an_absurd_registration_of_a_living_reader_only_stops_reuse(
        b"\xff" * 4096
    ),
    "hostile: long payload": hostile(test_hostile_files.test_a_payload_longer_than_its_page_is_refused),
    "hostile: one page twice": hostile(test_hostile_files.test_two_pages_in_one_place_are_refused),
    "hostile: terabytes": hostile(test_hostile_files.test_a_page_number_that_asks_for_terabytes_is_refused),
    "hostile: logical pages": hostile(
        test_hostile_files.test_more_logical_pages_than_can_be_are_refused, (1 << 64) - 1
    ),
    "flips: pages": lambda: test_bit_flips.test_flips_in_the_page_map_are_reported_when_the_index_is_opened(ignore),
    "flips: journal": lambda: test_bit_flips.test_every_flip_in_the_journal_is_reported_or_harmless(ignore),
    "flips: manifest": lambda: test_bit_flips.test_every_flip_in_a_manifest_and_its_files_is_reported(ignore),
    "faults: short writes": short_writes,
    **{f"crash: {workload}": crash(workload) for workload in WORKLOADS},
    "model": model,
    "tear: journal record": lambda: test_tearing.tear_journal_record(thorough=False),
    "tear: commit record": lambda: test_tearing.tear_commit_record(thorough=False),
    "faults: all": all_faults,
}


def find(mutant: Mutant) -> str | None:
    """The first detector that fails with the bug in the store: the expected one, or any other."""
    with applied(mutant):
        for name in (mutant.hint, *(name for name in DETECTORS if name != mutant.hint)):
            try:
                DETECTORS[name]()
            except (NameError, SyntaxError):  # the patch is wrong, not the store
                raise
            except (Exception, pytest.fail.Exception):
                return name
    return None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_seeded_bug_is_caught(mutant, tally):
    found_by = find(mutant)
    assert found_by is not None, f"no test catches the bug: {mutant.name}"
    tally("seeded bugs caught", 1)
    tally(f"caught by [{found_by}]", mutant.name)


@pytest.mark.deep
@pytest.mark.parametrize("name", DETECTORS)
def test_the_detector_is_silent_without_a_bug(name):
    DETECTORS[name]()
