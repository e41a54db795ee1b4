"""Clients' files as a method hears them: the next ones are read and unpacked by other threads while one is heard.

Most of that work lets go of Python's lock: reading, zstd, NumPy and torch. Results come in the order of their files,
so that sums over clients are the same to the last bit; and so do errors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from fedol.knowledge.task import Task
from fedol.knowledge.upload import Knowledge
from fedol.progress import watched

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


class Uploads:
    """Files as a method hears them, whenever it goes through them: each may be freed before the next is read."""

    def __init__(self, paths: Sequence[Path], read: Callable[[Path, int], Iterable[Knowledge]]) -> None:
        self._paths, self._read = paths, read

    def __iter__(self) -> Iterator[Knowledge]:
        return (client for _, client in self.numbered())

    def numbered(self, left_out: Collection[int] = ()) -> Iterator[tuple[int, Knowledge]]:
        """Each with the position of its file; those that are left out are not read."""
        wanted = [(k, path) for k, path in enumerate(self._paths) if k not in left_out]
        read = ahead(lambda part: (part[0], self._read(part[1], part[0])), watched(wanted, "reading files"))
        yield from ((k, client) for k, clients in read for client in clients)


def knowledge_files(paths: Sequence[Path], task: Task) -> Uploads:
    """Uploads that are knowledge files, each checked against the task as it is read."""
    return Uploads(paths, lambda path, k: [Knowledge.load(path, task)])
