"""A short life of a store on the real disk, to be run under `strace -e inject`: reports what was acknowledged, names
its error.

    python -m tests.storage.injected PATH
"""

from __future__ import annotations

import sys

from rtree_anon.errors import StorageError
from rtree_anon.storage import create_store


def main() -> None:
    print("started", flush=True)
    try:
        with create_store(sys.argv[1], page_bytes=4096) as store:
            print("created", flush=True)
            store.allocate(8)
            for version in range(1, 5):
                for page_id in range(8):
                    store.write(page_id, b"%d" % version, 16)
                print("journal", store.append([b"%d" % version]), flush=True)
                store.commit({"version": version})
                print("commit", version, flush=True)
            store.compact()
    except StorageError as error:
        print("error", type(error).__name__, str(error)[:200], flush=True)


if __name__ == "__main__":
    main()
