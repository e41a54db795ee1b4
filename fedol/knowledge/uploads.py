"""The clients' files, read one at a time."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path

from fedol.knowledge import Knowledge
from fedol.knowledge.task import Task
from fedol.progress import watched


class Uploads:
    """Files as a method hears them, whenever it goes through them: each may be freed before the next is read."""

    def __init__(self, paths: Sequence[Path], read: Callable[[Path, int], Iterator[Knowledge]]) -> None:
        self._paths, self._read = paths, read

    def __iter__(self) -> Iterator[Knowledge]:
        return (client for _, client in self.numbered())

    def numbered(self, left_out: Container[int] = ()) -> Iterator[tuple[int, Knowledge]]:
        """Each with the position of its file; those that are left out are not read."""
        wanted = [(k, path) for k, path in enumerate(self._paths) if k not in left_out]
        for k, path in watched(wanted, "reading files"):
            yield from ((k, client) for client in self._read(path, k))


def knowledge_files(paths: Sequence[Path], task: Task) -> Uploads:
    """Uploads that are knowledge files, each checked against the task as it is read."""
    return Uploads(paths, lambda path, k: iter([Knowledge.load(path, task)]))
