"""P5: a flipped bit in a page, the page map, a commit record, the journal or a manifest is reported when it is read."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rtree_anon.errors import AnonError, CorruptionError
from rtree_anon.storage import Publication, Snapshot, create_store, open_snapshot, open_store, read_publication
from rtree_anon.storage.page import empty_run, payloads
from tests.storage.deep import accumulate
from tests.storage.disk import SimulatedDisk
from tests.storage.hostile import frames_of

PROLOGUE = 16384


def thousand_pages(page_bytes: int, n_pages: int = 1000) -> SimulatedDisk:
    disk = SimulatedDisk(1)
    with create_store("index", page_bytes=page_bytes, fs=disk) as store:
        run = empty_run(n_pages, page_bytes)
        payloads(run)[:] = np.random.default_rng(1).integers(0, 256, payloads(run).shape, np.uint8)
        store.allocate(n_pages)
        store.write_run(np.arange(n_pages, dtype=np.uint64), run, 16)
        store.commit({"rows": n_pages})
    return disk


def flip_pages(disk: SimulatedDisk, snapshot: Snapshot, bits_of_page) -> int:
    """Flip bits of pages one at a time and read the page; every flip must be reported. `bits_of_page(physical)` yields
    bits.
    """
    content, page_bytes = disk.content("index/data"), snapshot.page_bytes
    out = np.empty((1, page_bytes), np.uint8)
    page_of = {int(entry[0]): page_id for page_id, entry in enumerate(snapshot.locate(snapshot.page_ids()))}
    n_flips = 0
    for physical, page_id in page_of.items():
        ids = np.array([page_id], np.uint64)
        for bit in bits_of_page(physical):
            at, mask = PROLOGUE + physical * page_bytes + bit // 8, 1 << bit % 8
            content[at] ^= mask
            try:
                snapshot.read_run(ids, out)
            except CorruptionError:
                n_flips += 1
            else:
                raise AssertionError(f"bit {bit} of page {page_id} was flipped and the page was read without complaint")
            finally:
                content[at] ^= mask
    return n_flips


def test_64_flips_in_each_of_a_thousand_pages_are_reported(tally):
    disk = thousand_pages(512)
    rng = random.Random(1)
    with open_snapshot("index", fs=disk) as snapshot:
        n_flips = flip_pages(disk, snapshot, lambda physical: rng.sample(range(512 * 8), 64))
    assert n_flips == 64_000
    tally("bit flips", n_flips)


@pytest.mark.deep
def test_every_bit_of_200_pages(tally):
    disk = thousand_pages(4096, n_pages=200)

    def step(seed: int) -> int:
        chosen = (seed - 1000) % 200
        with open_snapshot("index", fs=disk) as snapshot:
            return flip_pages(disk, snapshot, lambda physical: range(4096 * 8) if physical == chosen else ())

    n_now, total = accumulate("bit flips", 200 * 4096 * 8, step)
    tally("bit flips", n_now)
    tally("bit flips in pages, all deep runs of this code", total)


def test_flips_in_the_page_map_are_reported_when_the_index_is_opened(tally):
    disk = thousand_pages(512)
    content, rng, n_flips = disk.content("index/data"), random.Random(2), 0
    n_pages = (len(content) - PROLOGUE) // 512
    for physical in range(1000, n_pages):  # the pages of the map were written behind the others
        for bit in rng.sample(range(512 * 8), 24):
            at = PROLOGUE + physical * 512 + bit // 8
            content[at] ^= 1 << bit % 8
            with pytest.raises(CorruptionError):
                open_snapshot("index", fs=disk)
            content[at] ^= 1 << bit % 8
            n_flips += 1
    assert n_flips > 800
    tally("bit flips", n_flips)


def test_flips_in_header_and_commit_records_never_give_another_version(tally):
    """A flip in the newest record is an error and not a quiet return to the one before (P6); in the older one it is
    harmless.
    """
    disk = SimulatedDisk(4)
    with create_store("index", page_bytes=512, fs=disk) as store:
        for number in range(3):
            store.write(store.allocate(), bytes([number]) * 9, 16)
            newest = store.commit({"number": number})
    content, n_reported = disk.content("index/data"), 0
    rng = random.Random(3)
    bits = [
        block * 4096 * 8 + bit
        for block in range(3)
        for bit in (*range(130 * 8), *rng.sample(range(130 * 8, 4096 * 8), 300))
    ]
    for bit in bits:
        content[bit // 8] ^= 1 << bit % 8
        for open_it in (open_snapshot, open_store):
            try:
                with open_it("index", fs=disk) as opened:
                    assert (opened.commit_id, opened.metadata) == (newest, {"number": 2})
                    assert [bytes(opened.read(page))[0] for page in range(3)] == [0, 1, 2]
            except AnonError:
                n_reported += 1
        content[bit // 8] ^= 1 << bit % 8
    assert n_reported == 2 * 2 * len(bits) // 3  # header and newest record; the older record is the third block
    tally("bit flips", len(bits))


def test_every_flip_in_the_journal_is_reported_or_harmless(tally):
    disk = SimulatedDisk(5)
    records = [bytes([number]) * (5 * number) for number in range(6)]
    store = create_store("index", page_bytes=512, fs=disk)
    store.append(records[:2])
    store.append(records[2:3])
    store.append(records[3:])
    store.close()
    content = bytes(disk.content("index/journal"))
    seal_at = frames_of(content)[-1]
    in_reserve = range(8 * (seal_at + 32), 8 * len(content), 1013)
    for bit in [*range(0, 4096 * 8, 17), *range(4096 * 8, 8 * (seal_at + 32)), *in_reserve]:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        image = disk.copy()
        image.content("index/journal")[:] = flipped
        try:
            with open_store("index", fs=image) as opened:
                replayed = [record for _, record in opened.replay()]
            assert bit // 8 >= seal_at, f"bit {bit} of the journal was flipped without complaint"
            assert replayed == records
        except CorruptionError:
            assert bit // 8 < seal_at
        tally("bit flips", 1)


def test_every_flip_in_a_manifest_and_its_files_is_reported(tally):
    disk = SimulatedDisk(7)
    with Publication("out", fs=disk) as publication:
        publication.write("k5.csv", b"age,zip\n")
        publication.finish({"k": 5, "name": "größe"})
    n_flips = 0
    for name in ("manifest.json", "k5.csv"):
        content = disk.content(f"out/{name}")
        for bit in range(len(content) * 8):
            content[bit // 8] ^= 1 << bit % 8
            with pytest.raises(CorruptionError):
                read_publication("out", fs=disk)
            content[bit // 8] ^= 1 << bit % 8
            n_flips += 1
    assert read_publication("out", fs=disk)["k"] == 5
    tally("bit flips", n_flips)
