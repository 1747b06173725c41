"""Hostile index files: fields changed to anything, and the checksums repaired all the way up to the commit record.

Knows the byte maps on its own (from FORMAT.md, not from the code), so that it also checks that the document is right.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
from dataclasses import dataclass

import numpy as np
import xxhash

from rtree_anon.errors import AnonError
from rtree_anon.storage import create_store, open_snapshot, open_store, verify_store
from rtree_anon.storage.blob import read_blob, write_blob
from rtree_anon.storage.files import Access
from rtree_anon.storage.verify import inspect_page, inspect_store
from tests.storage.disk import Directory, Node, SimulatedDisk
from tests.storage.workloads import ViolationError

PAGE = 512
NOWHERE = (1 << 64) - 1
FIRST_PAGE = 16384
MAX_READS = 20_000  # of the simulated disk: more than any honest file of this size needs
MAX_MEMORY_BYTES = 64 << 20
INTERESTING = [0, 1, 2, 3, 29, 30, 31, 255, 256, 511, 512, 4096, 65535, 1 << 59, (1 << 62) + 1, (1 << 64) - 17]
INTERESTING += [(1 << power) + more for power in (31, 32, 40, 63, 64) for more in (-1, 0, 1)]
SLOT_FIELDS = [
    (16, "Q"),
    (24, "Q"),
    (32, "Q"),
    (40, "Q"),
    (56, "Q"),
    (64, "Q"),
    (72, "I"),
    (76, "I"),
    (80, "Q"),
    (96, "I"),
]
HEADER_FIELDS = [(8, "Q"), (16, "I"), (20, "I"), (24, "I"), (28, "I"), (32, "Q"), (48, "Q")]
PAGE_FIELDS = [(8, "H"), (10, "B"), (11, "B"), (12, "I"), (16, "Q"), (24, "Q")]
JOURNAL_FIELDS = [(8, "Q"), (16, "I"), (20, "I"), (24, "Q"), (48, "Q"), (56, "Q")]
FRAME_FIELDS = [(8, "I"), (12, "I"), (16, "Q"), (24, "I"), (28, "I"), (32, "I")]


@dataclass
class Pristine:
    """An honest index, and where its parts are."""

    data: bytes
    journal: bytes
    slot_at: int
    levels: list[list[int]]  # physical pages: levels[0] data pages, levels[-1] the root page
    frames: list[int]


def pristine(n_pages: int = 70) -> Pristine:
    disk = SimulatedDisk(3)
    store = create_store("index", page_bytes=PAGE, fs=disk)
    reference = write_blob(store, bytes(range(256)) * 6, 17)
    for number in range(n_pages):
        store.write(store.allocate(), bytes([number]) * (number * 7 % 480), 16)
    store.commit({"blob": reference, "name": "x" * 20})
    store.free(np.array([10, 11], np.uint64))
    store.commit()
    store.append([b"one", b"two" * 30])
    store.append([b"three"])
    store.close()
    data, journal = bytes(disk.content("index/data")), bytes(disk.content("index/journal"))
    slot_at = max((4096, 8192), key=lambda at: struct.unpack_from("<Q", data, at + 16)[0])
    (n_logical, root) = struct.unpack_from("<QQ", data, slot_at + 32)
    levels = [[root]]
    while len(levels) < 3:  # 70-odd pages and 30 entries per map page: the root, the map pages, the pages
        entries = []
        for physical in levels[-1]:
            (n_payload,) = struct.unpack_from("<I", data, place(physical) + 12)
            entries += [struct.unpack_from("<Q", data, place(physical) + 32 + at)[0] for at in range(0, n_payload, 16)]
        levels.append(entries)
    frames = frames_of(journal)
    assert len(levels[-1]) == n_logical and len(frames) == 3
    return Pristine(data, journal, slot_at, levels[::-1], frames)


def frames_of(journal: bytes | bytearray) -> list[int]:
    """Where the frames of a whole journal begin; the last one is the seal, and behind it are zeros."""
    frames = [4096]
    while struct.unpack_from("<I", journal, frames[-1] + 12)[0]:
        frames.append(frames[-1] + 32 + struct.unpack_from("<I", journal, frames[-1] + 24)[0])
    assert not any(journal[frames[-1] + 32 :])
    return frames


def place(physical: int) -> int:
    return FIRST_PAGE + physical * PAGE


def repair(honest: Pristine, data: bytearray, journal: bytearray, touched: set[int] | None = None) -> None:
    """Make every checksum right again, from the pages up to the slot, and in the journal.

    `touched` are the physical pages that were changed, so that the others, which are right, can be left alone.
    """
    is_touched = (lambda physical: True) if touched is None else touched.__contains__
    for level in range(len(honest.levels) - 1):
        changed: set[int] = set()
        for number, physical in enumerate(honest.levels[level]):
            parent = honest.levels[level + 1][number // 30]
            if physical != NOWHERE and (is_touched(physical) or is_touched(parent)):
                digest = _seal_page(data, physical)
                struct.pack_into("<Q", data, place(parent) + 32 + 16 * (number % 30) + 8, digest)
                changed.add(parent)
        if touched is not None:
            touched |= changed
    struct.pack_into("<Q", data, honest.slot_at + 48, _seal_page(data, honest.levels[-1][0]))
    for block in (0, honest.slot_at):
        struct.pack_into("<Q", data, block, xxhash.xxh3_64_intdigest(bytes(data[block + 8 : block + 4096])))
    struct.pack_into("<Q", journal, 0, xxhash.xxh3_64_intdigest(bytes(journal[8:4096])))
    (salt,) = struct.unpack_from("<Q", journal, 40)
    for at in honest.frames:
        (n_body,) = struct.unpack_from("<I", journal, at + 24)
        struct.pack_into("<Q", journal, at, xxhash.xxh3_64_intdigest(bytes(journal[at + 8 : at + 32 + n_body]), salt))


def _seal_page(data: bytearray, physical: int) -> int:
    at = place(physical)
    digest = xxhash.xxh3_64_intdigest(bytes(data[at + 8 : at + PAGE]))
    struct.pack_into("<Q", data, at, digest)
    return digest


def mutate(honest: Pristine, seed: int, *, quickly: bool = True) -> SimulatedDisk:
    """A disk with one to three fields changed and the checksums repaired (mostly)."""
    rng = random.Random(seed)
    data, journal = bytearray(honest.data), bytearray(honest.journal)
    n_pages = (len(data) - FIRST_PAGE) // PAGE
    touched: set[int] = set()
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.choice(("slot", "slot", "entry", "entry", "page", "header", "journal", "frame", "metadata", "bytes"))
        if kind == "slot":
            _poke(data, honest.slot_at, rng.choice(SLOT_FIELDS), rng, n_pages)
        elif kind == "header":
            _poke(data, 0, rng.choice(HEADER_FIELDS), rng, n_pages)
        elif kind == "entry":
            level = rng.choice((1, 1, 2))
            physical = rng.choice(honest.levels[level])
            touched.add(physical)
            _poke(data, place(physical), (32 + 16 * rng.randrange(30), "Q"), rng, n_pages)
        elif kind == "page":
            physical = rng.randrange(n_pages)
            touched.add(physical)
            _poke(data, place(physical), rng.choice(PAGE_FIELDS), rng, n_pages)
        elif kind == "journal":
            _poke(journal, 0, rng.choice(JOURNAL_FIELDS), rng, n_pages)
        elif kind == "frame":
            _poke(journal, rng.choice(honest.frames[:2]), rng.choice(FRAME_FIELDS), rng, n_pages)
        elif kind == "metadata":
            for _ in range(rng.randrange(1, 6)):
                data[honest.slot_at + 96 + rng.randrange(60)] = rng.choice(
                    (0x80, 0xC0, 0xC7, 0xD9, 0xDD, 0xDF, 0xFF, rng.randrange(256))
                )
        else:
            at = rng.randrange(len(data) - 3)
            data[at : at + 4] = rng.randbytes(4)
            touched |= {(end - FIRST_PAGE) // PAGE for end in (at, at + 3)}
    if rng.random() < 0.95:
        repair(honest, data, journal, touched if quickly else None)
    if rng.random() < 0.05:
        del data[rng.randrange(len(data)) :]
    if rng.random() < 0.05:
        data += bytes(rng.randrange(3000))
    if rng.random() < 0.05:
        del journal[rng.randrange(len(journal)) :]
    return disk_with({"data": data, "journal": journal, "writer.lock": bytearray()})


def _poke(target: bytearray, base: int, field: tuple[int, str], rng: random.Random, n_pages: int) -> None:
    offset, code = field
    width = struct.calcsize(f"<{code}")
    (old,) = struct.unpack_from(f"<{code}", target, base + offset)
    choices = [
        rng.choice(INTERESTING),
        rng.randrange(n_pages + 2),
        old + 1,
        max(old - 1, 0),
        rng.getrandbits(8 * width),
    ]
    struct.pack_into(f"<{code}", target, base + offset, rng.choice(choices) % (1 << 8 * width))


def disk_with(files: dict[str, bytearray]) -> SimulatedDisk:
    disk = SimulatedDisk(1)
    nodes: dict[str, Node | Directory] = {name: Node(bytearray(content), content) for name, content in files.items()}
    index = Directory(dict(nodes), nodes)
    disk.root = Directory({"index": index}, {"index": index})
    return disk


def exercise(disk: SimulatedDisk, *, measure_memory: bool = False) -> int:
    """Do everything with a hostile index; how much of it was refused. ViolationError for a crash, a hang or a memory
    bomb.
    """
    n_reads = 0

    def count_reads(operation: str, path: str) -> None:
        nonlocal n_reads
        n_reads += operation == "read"
        if n_reads > MAX_READS:
            raise ViolationError("reading a hostile file does not end")

    disk.before = count_reads
    n_refused = 0
    if measure_memory:
        tracemalloc.start()
    try:
        for act in (_read_everything, _look_at_everything, _write_something):
            try:
                act(disk)
            except AnonError:
                n_refused += 1
            except ViolationError:
                raise
            except Exception as error:
                raise ViolationError(f"{act.__name__}: a hostile file makes the store fail with {error!r}") from error
        if measure_memory and tracemalloc.get_traced_memory()[1] > MAX_MEMORY_BYTES:
            raise ViolationError(f"a hostile file takes {tracemalloc.get_traced_memory()[1]} bytes of memory")
    finally:
        if measure_memory:
            tracemalloc.stop()
    if disk.n_open:
        raise ViolationError("a hostile file leaves a handle open")
    return n_refused


def _read_everything(disk: SimulatedDisk) -> None:
    with open_snapshot("index", fs=disk) as snapshot:
        ids = snapshot.page_ids()
        snapshot.read_run(ids, np.empty((len(ids), snapshot.page_bytes), np.uint8))
        snapshot.read(int(ids[0]) if len(ids) else 0)
        read_blob(snapshot, snapshot.metadata.get("blob"))


def _look_at_everything(disk: SimulatedDisk) -> None:
    verify_store("index", fs=disk)
    inspect_page("index", 3, fs=disk)
    inspect_store("index", fs=disk)


def _write_something(disk: SimulatedDisk) -> None:
    with open_store("index", allow_rollback=True, fs=disk) as store:
        store.replay()
        store.write(store.allocate(), b"new", 16)
        store.commit()
        store.compact()


def hostile_pin(disk: SimulatedDisk, content: bytes) -> None:
    """A living reader with an absurd registration."""
    pin = disk.open("index/reader-000", Access.CREATE)
    pin.write(memoryview(content), 0)
    assert pin.try_lock()
