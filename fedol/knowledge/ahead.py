"""Reading ahead: the next clients' files are read and unpacked by other threads while one is heard.

Most of that work lets go of Python's lock: reading, zstd, NumPy and torch. Results come in the order of their files,
so that sums over clients are the same to the last bit; and so do errors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = 2  # and as many results that wait, at most: what memory holds beside the client that is heard


def ahead(work: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
    """``map(work, parts)``, a little ahead of whoever asks."""
    waiting = deque[Future[R]]()
    pool = ThreadPoolExecutor(THREADS, "ahead")
    try:
        for part in parts:
            if len(waiting) == THREADS:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, part))
        while waiting:
            yield waiting.popleft().result()
    finally:  # whoever stops early does not wait for what nobody wants
        pool.shutdown(wait=False, cancel_futures=True)
