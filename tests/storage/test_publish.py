"""P9, P11: published directories are complete or absent, and no name leads out of them."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path

import pytest

from rtree_anon.errors import AnonError, CorruptionError, StorageError, UsageError
from rtree_anon.storage import Publication, publish_file, read_publication
from rtree_anon.storage.publish import MAX_NAME_BYTES, require_file_name
from tests.storage.deep import accumulate
from tests.storage.disk import SimulatedDisk

BAD_NAMES = [
    *("", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "..\\x", "a\0b", "\0", "x\n", "a\tb", "a\x7f", "a\u202eb"),
    *("C:", "c:x", "a:b", "x|y", "x*", "x?", '"', "<x", "x>", ".hidden", "trailing.", "trailing ", " leading", "-rf"),
    *("NUL.csv", "con", "Aux.parquet", "com1", "lpt9.txt", "prn.", "x" * 201, "é" * 101, "\ud800", "a\u2028b", "./x"),
    *("x/..", "//x", "\\\\server\\x", "%00\0", "a\rb", "a\x1bb", "a\u200bb/", "..;/", "....//", "\ufeff/", "a/../b"),
    *("manifest.json", "MANIFEST.JSON", "~root", "nul", "x/.", "…/x", "~", "-", "con.tar.gz", "\x85", ".manifest.json"),
]
GOOD_NAMES = [
    "k5.parquet",
    "k10.csv",
    "größe.csv",
    "名前.csv",
    "a b.csv",
    "x" * 200,
    "release-2024_01.parquet",
    "a..b",
    "k=5",
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: ascii(name)[:30])
def test_a_name_that_could_lead_elsewhere_is_refused(name, tmp_path, tally):
    assert len(BAD_NAMES) >= 60
    publication = Publication(tmp_path / "out")
    with pytest.raises(UsageError, match=r"cannot be a file name|already part"):
        publication.path(name)
    publication.abort()
    assert list(tmp_path.iterdir()) == []
    tally("hostile file names", 1)


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_an_ordinary_name_is_taken_as_it_is(name, tmp_path):
    with Publication(tmp_path / "out") as publication:
        publication.write(name, b"content")
        publication.finish({})
    assert (tmp_path / "out" / name).read_bytes() == b"content"


def try_names(seed: int, n_names: int) -> int:
    """Random names of nasty pieces: whatever is accepted must be one plain component."""
    rng = random.Random(seed)
    pieces = [
        "..",
        "/",
        "\\",
        "\0",
        ".",
        "a",
        "é",
        " ",
        ":",
        "\n",
        "nul",
        "con",
        ".csv",
        "\ud83d",
        "\u202e",
        "~",
        "-",
        "x" * 60,
    ]
    for _ in range(n_names):
        name = "".join(rng.choice((*pieces, rng.choice(string.printable))) for _ in range(rng.randrange(6)))
        try:
            require_file_name(name)
        except UsageError:
            continue
        path = Path("/some/where") / name
        assert path.parent == Path("/some/where"), name
        assert path.name == name
        assert not name.startswith(".")
        assert len(name.encode()) <= MAX_NAME_BYTES
    return n_names


def test_random_names(tally):
    tally("hostile file names", try_names(1, 2_000))


@pytest.mark.deep
def test_random_names_deep(tally):
    n_now, _ = accumulate("hostile file names", 20_000, lambda seed: try_names(seed, 5_000))
    tally("hostile file names", n_now)


@pytest.mark.parametrize("target", ["", "/", "a/..", ".", "..", "x\0y", "a/../"])
def test_a_target_without_a_name_is_refused(target):
    with pytest.raises(UsageError, match="cannot be the path of a new"):
        Publication(target, fs=SimulatedDisk())


def test_a_finished_directory_is_read_back_with_its_facts(tmp_path):
    with Publication(tmp_path / "out") as publication:
        Path(publication.path("k5.csv")).write_bytes(b"age\n" * 300_000)  # written by somebody else, by its path
        publication.write("empty.csv", b"")
        manifest = publication.finish({"k": 5, "quality": {"certainty": 0.25}, "name": "größe"})
    assert read_publication(tmp_path / "out") == manifest
    assert manifest["files"]["k5.csv"]["bytes"] == 1_200_000
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["empty.csv", "k5.csv", "manifest.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_directory_may_be_filled_and_another_may_not(tmp_path):
    (tmp_path / "out").mkdir()
    with Publication(tmp_path / "out") as publication:
        publication.finish({})
    with pytest.raises(UsageError, match="exists already"):
        Publication(tmp_path / "out")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="exists already"):
        Publication(tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="exists already"):
        Publication(tmp_path / "link")


def test_a_directory_that_appears_meanwhile_is_not_overwritten(tmp_path):
    with Publication(tmp_path / "out") as publication:
        publication.write("k5.csv", b"x")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "precious").write_text("data")
        with pytest.raises(UsageError, match="exists already"):
            publication.finish({})
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "precious"]


def test_giving_up_leaves_nothing_behind(tmp_path):
    with pytest.raises(KeyError), Publication(tmp_path / "out") as publication:
        publication.write("k5.csv", b"x")
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="finished or was given up"):
        publication.finish({})


def test_an_announced_file_that_was_not_written_or_one_that_was_not_announced_is_an_error(tmp_path):
    with pytest.raises(StorageError, match=r"'k5.csv' is missing"), Publication(tmp_path / "out") as publication:
        publication.path("k5.csv")
        publication.finish({})
    with (
        pytest.raises(StorageError, match="'stray' is missing or was not announced"),
        Publication(tmp_path / "out") as publication,
    ):
        Path(publication.path("k5.csv")).with_name("stray").write_text("x")
        Path(publication._making, "k5.csv").write_text("x")
        publication.finish({})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("manifest", [{"files": 1}, {"manifest_sha256": 1}, {"x": float("nan")}, {"x": object()}])
def test_a_manifest_that_cannot_be_is_refused(manifest, tmp_path):
    with pytest.raises(UsageError, match=r"reserved|as JSON"), Publication(tmp_path / "out") as publication:
        publication.finish(manifest)
    assert list(tmp_path.iterdir()) == []


def hostile_manifest(tmp_path: Path, change) -> Path:
    out = tmp_path / "out"
    with Publication(out) as publication:
        publication.write("k5.csv", b"x")
        publication.finish({"k": 5})
    content = change((out / "manifest.json").read_bytes())
    (out / "manifest.json").write_bytes(content)
    return out


def resealed(**changes):
    """Facts changed and the digest made right again."""
    from rtree_anon.storage.publish import _canonical, _with_digest

    return lambda content: _canonical(_with_digest({**json.loads(content), **changes}))


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: b"[" * 100_000,
        lambda content: b"[]\n",
        lambda content: b"{}",
        lambda content: content + b" ",
        lambda content: b"\xff" + content,
        lambda content: content.replace(b"5", b"6", 1),
        lambda content: b"1" * 17_000_000,
        resealed(files=5),
        resealed(files={"../../etc/passwd": {"bytes": 1, "sha256": ""}}),
        resealed(files={"/etc/passwd": {"bytes": 1, "sha256": ""}}),
        resealed(files={"k5.csv": None}),
        resealed(files={"k5.csv": {"bytes": 2, "sha256": ""}}),
    ],
)
def test_a_hostile_manifest_is_refused(tmp_path, change):
    with pytest.raises(CorruptionError):
        read_publication(hostile_manifest(tmp_path, change))


def test_a_file_that_is_missing_longer_or_a_link_is_reported(tmp_path):
    out = hostile_manifest(tmp_path, lambda content: content)
    (out / "k5.csv").write_bytes(b"xx")
    with pytest.raises(CorruptionError, match="not the one that was published"):
        read_publication(out)
    (out / "k5.csv").unlink()
    with pytest.raises(StorageError, match="could not read the published file"):
        read_publication(out)
    (out / "k5.csv").symlink_to("/etc/passwd")
    with pytest.raises(StorageError, match="symbolic link"):
        read_publication(out)


def test_a_single_file_is_published_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out.csv"
    publish_file(target, lambda path: Path(path).write_text("one"))
    assert target.read_text() == "one"
    with pytest.raises(UsageError, match="exists already"):
        publish_file(target, lambda path: Path(path).write_text("two"))
    publish_file(target, lambda path: Path(path).write_text("two"), replace=True)
    assert target.read_text() == "two"

    def fail(path: str) -> None:
        Path(path).write_text("half")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        publish_file(target, fail, replace=True)
    with pytest.raises(AnonError, match="could not publish"):
        publish_file(target, lambda path: None, replace=True)
    assert target.read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_errors_while_giving_up_do_not_hide_the_first_one():
    disk = SimulatedDisk()

    def broken(operation: str, path: str) -> None:
        raise OSError(5, "broken", path)

    with pytest.raises(StorageError, match="could not publish"), Publication("out", fs=disk) as publication:
        publication.write("k5.csv", b"x")
        disk.before = broken
        publication.finish({})
    disk.before = lambda operation, path: None
    with pytest.raises(StorageError, match="could not remove"), Publication("out", fs=disk):
        disk.before = broken
    with pytest.raises(StorageError, match="could not publish"):
        publish_file("file", lambda path: disk.make_directory(path) if False else None, fs=disk)
