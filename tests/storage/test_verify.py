"""`verify` names all damage and changes nothing; `inspect` shows a page as it stands; both as commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rtree_anon.cli.inspect import command as inspect_command
from rtree_anon.cli.verify import command as verify_command
from rtree_anon.errors import StorageError, UsageError
from rtree_anon.storage import create_store, open_snapshot, open_store, verify_store
from rtree_anon.storage.verify import inspect_page, inspect_store
from tests.storage.hostile import frames_of


@pytest.fixture
def index(tmp_path) -> Path:
    path = tmp_path / "people.idx"
    with create_store(path, page_bytes=512) as store:
        store.allocate(40)
        for page_id in range(40):
            store.write(page_id, bytes([page_id]) * 50, 16)
        store.commit({"schema": b"\x01", "rows": 40})
        store.free(np.array([3, 4], np.uint64))
        store.write(0, b"changed", 17)
        store.commit()
        store.append([b"one", b"two"])
    return path


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 16
    path.write_bytes(content)


def place_of(index: Path, page_id: int) -> int:
    with open_snapshot(index) as snapshot:
        return int(snapshot.locate(np.array([page_id], np.uint64))[0, 0])


def test_every_page_is_accounted_for(index):
    report = verify_store(index)
    assert report.ok
    assert report.notes == []
    assert (report.commit_id, report.page_bytes, report.n_live, report.n_map, report.n_journal_records) == (
        3,
        512,
        38,
        3,
        2,
    )
    # of the version before: three data pages, and the two map pages and the root above them
    assert report.n_kept == 3 + 2
    assert report.n_live + report.n_map + report.n_kept + report.n_free == report.n_pages


def test_verify_changes_nothing(index):
    files = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in index.iterdir()}
    verify_store(index)
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in index.iterdir()}
    assert {name: after[name] for name in files} == files
    assert set(after) - set(files) <= {"reader-000"}


def test_verify_names_every_damaged_page(index):
    for page_id in (7, 20, 33):
        flip(index / "data", 16384 + 512 * place_of(index, page_id) + 60)
    problems = " ".join(verify_store(index).problems)
    assert all(f"page {page_id} is damaged: its checksum is wrong" in problems for page_id in (7, 20, 33))
    assert problems.count("is damaged") == 3


def test_verify_works_while_the_index_is_written(index):
    with open_store(index) as store:
        store.write(1, b"uncommitted", 16)
        assert verify_store(index).ok


def test_verify_gives_a_living_writer_the_benefit_of_the_doubt(index, monkeypatch):
    """Versions are replaced, and their pages reused, while they are being checked; that is no damage."""
    from rtree_anon.storage import verify

    original, n_slips = verify._verify_version, 0
    with open_store(index) as store:

        def slip_in(data, commit):
            nonlocal n_slips
            if n_slips < 8:
                n_slips += 1
                for page_id in range(5, 30):
                    store.write(page_id, bytes([n_slips]) * 9, 16)
                store.commit()
            return original(data, commit)

        monkeypatch.setattr(verify, "_verify_version", slip_in)
        report = verify_store(index)
        assert report.problems == []
        assert report.overtaken


def test_a_journal_record_in_the_making_is_no_damage(index, monkeypatch):
    from rtree_anon.errors import CorruptionError
    from rtree_anon.storage import verify

    original, n_failures = verify.scan_journal, 2

    def flickering(file, header):
        nonlocal n_failures
        n_failures -= 1
        if n_failures >= 0:
            raise CorruptionError("half of it")
        return original(file, header)

    monkeypatch.setattr(verify, "scan_journal", flickering)
    assert verify_store(index).ok


def test_verify_without_the_right_to_register_says_so(index, monkeypatch):
    def refuse(*arguments: object) -> None:
        raise StorageError("not allowed to write here")

    monkeypatch.setattr("rtree_anon.storage.opening.Pin.take", refuse)
    report = verify_store(index)
    assert report.ok
    assert "only right while nobody writes" in report.notes[0]


def test_an_interrupted_commit_is_a_note_and_not_a_problem(index):
    with open_store(index) as store:
        newest = store.commit_id
    older_slot = 4096 * (1 + (newest + 1) % 2)
    flip(index / "data", older_slot + 5)
    report = verify_store(index)
    assert report.ok
    assert "interrupted commit" in report.notes[0]


def test_an_unfinished_journal_write_is_a_note(index):
    with (index / "journal").open("r+b") as journal:
        journal.seek(frames_of(journal.read())[-1])
        journal.write(b"half of a frame".ljust(32, b"\0"))  # over the seal, which is not synced
    assert "15 bytes at the end of the journal" in verify_store(index).notes[0]


def test_a_missing_journal_and_a_missing_index_are_reported(index, tmp_path):
    (index / "journal").unlink()
    assert "journal is missing" in " ".join(verify_store(index).problems)
    with pytest.raises(StorageError, match="there is no index here"):
        verify_store(tmp_path / "nothing")


def test_inspect_shows_what_a_page_is(index):
    live = inspect_page(index, place_of(index, 0))
    assert live["state"] == "version 3: page 0"
    assert live["damage"] is None
    assert (live["header"]["page_id"], live["header"]["kind"], live["header"]["payload_bytes"]) == (0, 17, 7)
    assert live["bytes"][32:39] == b"changed"
    states = [inspect_page(index, physical)["state"] for physical in range(inspect_store(index)["pages_in_file"])]
    assert sum("level 1" in state for state in states) == 3  # two map pages, one of which differs between the versions
    assert any(state == "version 2: page 3" for state in states)
    flip(index / "data", 16384 + 512 * place_of(index, 9) + 100)
    assert inspect_page(index, place_of(index, 9))["damage"] == "its checksum is wrong"
    with pytest.raises(StorageError, match="there is no page 999"):
        inspect_page(index, 999)


def test_inspect_of_a_version_that_cannot_be_followed(index):
    root = inspect_store(index)["slots"][1]["root_physical"]
    flip(index / "data", 16384 + 512 * root + 100)
    assert "version 3 cannot be followed" in inspect_page(index, 0)["state"]
    assert not verify_store(index).ok


def test_inspect_shows_slots_and_journal(index):
    facts = inspect_store(index)
    assert [slot["commit_id"] for slot in facts["slots"]] == [2, 3]
    assert facts["journal"] == {"durable_commit": 3, "first_seq": 1, "next_seq": 3, "frames": 1, "torn_bytes": 0}
    flip(index / "data", 4096 + 100)
    assert inspect_store(index)["slots"][0] == {"state": "not valid"}
    fresh = index.with_name("fresh")
    create_store(fresh).close()
    assert inspect_store(fresh)["slots"][0] == {"state": "empty"}
    assert inspect_store(fresh)["slots"][1]["root_physical"] is None


def test_the_command_verify(index):
    run = CliRunner()
    good = run.invoke(verify_command, [str(index)])
    assert good.exit_code == 0
    assert "version 3" in good.output
    assert good.output.endswith("sound\n")
    as_json = json.loads(run.invoke(verify_command, [str(index), "--json"]).output)
    assert as_json["ok"] is True
    flip(index / "data", 16384 + 512 * place_of(index, 7) + 60)
    bad = run.invoke(verify_command, [str(index)])
    assert bad.exit_code == 3
    assert "damaged: " in bad.output
    assert "1 problems found" in bad.output
    (index / "data").write_bytes(b"")
    assert run.invoke(verify_command, [str(index)]).exit_code == 3
    flip(index / "journal", 4096 + 40)
    assert run.invoke(verify_command, [str(index), "--json"]).exit_code == 3


def test_the_command_verify_shows_notes(index):
    flip(index / "data", 4096 + 5)
    assert "note: commit slot 0" in CliRunner().invoke(verify_command, [str(index)]).output


def test_the_command_inspect(index):
    run = CliRunner()
    facts = run.invoke(inspect_command, [str(index)])
    assert facts.exit_code == 0
    assert '"durable_commit": 3' in facts.output
    assert '"schema": "01"' in facts.output
    page = run.invoke(inspect_command, [str(index), "--page", str(place_of(index, 0)), "--bytes", "48"])
    assert "state: version 3: page 0" in page.output
    assert "changed" in page.output
    assert len([line for line in page.output.splitlines() if line.startswith("0000")]) == 3
    as_json = json.loads(run.invoke(inspect_command, [str(index), "--page", "0", "--json"]).output)
    assert as_json["physical"] == 0
    assert len(as_json["bytes"]) == 512


def test_creating_where_something_is_or_with_a_strange_page_size_is_refused(index, tmp_path):
    with pytest.raises(UsageError, match="exists already"):
        create_store(index)
    for page_bytes in (0, 100, 513, 1 << 21):
        with pytest.raises(UsageError, match="power of two"):
            create_store(tmp_path / "new", page_bytes=page_bytes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.idx"]
