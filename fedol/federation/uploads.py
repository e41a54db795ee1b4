"""The clients' files, read one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedol.knowledge import Knowledge
from fedol.task import Task


@dataclass(frozen=True)
class Uploads:
    """Knowledge files as a method hears them: each is read, and may be freed, before the next."""

    paths: Sequence[Path]
    task: Task

    def __iter__(self) -> Iterator[Knowledge]:
        for path in self.paths:
            yield Knowledge.load(path, self.task)
