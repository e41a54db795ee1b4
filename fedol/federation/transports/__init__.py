"""What a way for knowledge files to travel is: the same bytes, taken by the same roster, wherever they come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedol.federation.roster import Roster
from fedol.files import intact, read_json
from fedol.knowledge.task import Task


class Transport(ABC):
    """Where clients' files come from: a folder, or the nodes of a network."""

    @property
    @abstractmethod
    def arriving(self) -> dict[str, str]:
        """What is expected but not there, and what to say of it if it stays so."""

    @abstractmethod
    def scan(self, roster: Roster, task: Task, into: Path) -> Iterator[Roster]:
        """Take what is new, keep copies in the folder ``into``, and give the roster as it changes."""


@dataclass(frozen=True)
class Nodes:
    """Who is connected, who is at work, how many are in or refused (the roster says who), and the bytes that came."""

    connected: tuple[str, ...] = ()
    training: tuple[str, ...] = ()
    done: int = 0
    refused: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        counts = f"{len(self.connected)} connected, {len(self.training)} training, {self.done} done"
        return f"nodes: {counts}, {self.refused} refused, {self.bytes:,} bytes received"

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def read(cls, path: Path) -> Nodes:
        """The present state; empty before the first look."""
        if not path.exists():
            return cls()
        with intact(path, "remove it"):
            values = read_json(path, "remove it")
            who = tuple(values["connected"]), tuple(values["training"])
            return cls(*who, int(values["done"]), int(values["refused"]), int(values["bytes"]))
