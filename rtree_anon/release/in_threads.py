"""Work on a sequence of items in threads, results in order, few items in memory at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_order(items: Iterator[_Item], work: Callable[[_Item], _Result], threads: int | None) -> Iterator[_Result]:
    """work(item) for every item, done in threads, results in the order of the items.

    Another thread reads ahead. At most `threads` + 1 items are under way or waiting to be taken, which bounds memory.
    """
    n_threads = threads or os.cpu_count() or 1
    try:
        yield from map(work, items) if n_threads == 1 else _in_threads(items, work, n_threads)
    finally:
        if isinstance(items, Generator):
            items.close()  # now, and not when the collector finds it: it may hold a file or a snapshot


def _in_threads(items: Iterator[_Item], work: Callable[[_Item], _Result], n_threads: int) -> Iterator[_Result]:
    end = object()

    def read_and_work(reading: Future[Any]) -> Any:
        item = reading.result()
        return end if item is end else work(item)

    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(n_threads) as workers:
        waiting: deque[Future[Any]] = deque()
        try:
            while True:
                while len(waiting) <= n_threads:
                    waiting.append(workers.submit(read_and_work, reader.submit(next, items, end)))
                result = waiting.popleft().result()
                if result is end:
                    return
                yield result
        finally:
            reader.shutdown(wait=False, cancel_futures=True)  # what waits for a cancelled one is cancelled with it
            workers.shutdown(wait=False, cancel_futures=True)
