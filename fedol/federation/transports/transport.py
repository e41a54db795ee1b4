"""What a way for knowledge files to travel is: the same bytes, taken by the same roster, wherever they come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from fedol.federation.roster import Roster
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
