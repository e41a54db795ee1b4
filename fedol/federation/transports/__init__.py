"""What a way for knowledge files to travel is: the same bytes, taken by the same roster, wherever they come from.

The simplest is here: a folder that clients put their files into. Flower's nodes are in ``flower_inbox``, and what fills
the folder over HTTPS is in ``https``.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedol.errors import FedolError, InputError
from fedol.federation.roster import Examined, Roster
from fedol.files import intact, read_json
from fedol.knowledge.ahead import ahead
from fedol.knowledge.container import Incomplete, read_bounded
from fedol.knowledge.task import Task
from fedol.text import steady


class Transport(ABC):
    """Where clients' files come from: a folder, or the nodes of a network."""

    @property
    @abstractmethod
    def arriving(self) -> dict[str, str]:
        """What is expected but not there, and what to say of it if it stays so."""

    @abstractmethod
    def scan(self, roster: Roster, task: Task, into: Path) -> Iterator[Roster]:
        """Take what is new, keep copies in the folder ``into``, and give the roster as it changes."""

    @property
    def ended(self) -> str:
        """Why the training is to begin with whoever is in, where somebody has said so."""
        return ""


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


@dataclass(frozen=True)
class Scan:
    """How far a look at a folder is."""

    files: int
    of_files: int
    bytes: int
    of_bytes: int
    seconds: float  # that it has taken

    @property
    def left(self) -> float:
        """Seconds, as far as one can say: a file takes as long as it is large."""
        return self.seconds * (self.of_bytes - self.bytes) / max(1, self.bytes)


SUFFIX = ".fedol"
PATIENCE = 2.0  # seconds: a look that is over by then needs no telling
UNSEEN = "it was not looked at before the training began"


class Inbox(Transport):
    """Looks at every ``*.fedol`` file once, and again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Files that end too early (still being copied, perhaps), or wait their turn.
        self._arriving: dict[str, str] = {}
        self._seen: dict[str, tuple[int, ...]] = {}
        self.on_scan: Callable[[Scan], None] = lambda scan: None  # told of a look that takes its time, file by file

    @property
    def arriving(self) -> dict[str, str]:
        """Files that are not whole, or were not looked at."""
        return self._arriving

    def scan(self, roster: Roster, task: Task, into: Path) -> Iterator[Roster]:
        """Take what is new, and give the roster after each file; whoever has enough stops."""
        states = {name: state for name in self._names() if (state := _state(self.path / name))}
        self._seen = {name: seen for name, seen in self._seen.items() if name in states}
        new = [name for name, state in states.items() if self._seen.get(name) != state]
        kept = {name: why for name, why in self._arriving.items() if name in states}
        self._arriving = kept | dict.fromkeys(new, UNSEEN)
        began, read, total = steady(), 0, sum(states[name][SIZE] for name in new)
        looks = ahead(lambda name: self._look(name, task), new)
        for number, (name, found) in enumerate(zip(new, looks, strict=True), 1):
            del self._arriving[name]
            sender = self.sender(name)
            try:
                if isinstance(found, InputError):
                    raise found
                roster = roster.take(found, name, task, into, sender)
            except Incomplete as error:
                if sender:  # it came whole: nothing more will arrive
                    roster = roster.refuse(name, str(error))
                else:
                    self._arriving[name] = str(error)
            except InputError as error:
                roster = roster.refuse(name, str(error))
            self._seen[name] = states[name]
            read += states[name][SIZE]
            if (taken := steady() - began) > PATIENCE:
                self.on_scan(Scan(number, len(new), read, total, taken))
            yield roster

    def _look(self, name: str, task: Task) -> Examined | InputError:
        """A file as it is, whatever the others are; many at once."""
        try:
            return Examined.of(read_bounded(self.path / name, task.limit, follow=False), task)
        except InputError as error:
            return error

    def sender(self, name: str) -> str:
        """Who is known to have sent a file; of a folder that anybody writes into, nobody."""
        return ""

    def _names(self) -> list[str]:
        try:
            names = os.listdir(self.path)
        except OSError as error:
            raise FedolError(
                f"The inbox {self.path} cannot be read ({error.strerror}); fix that and rerun the command."
            ) from None
        return sorted(name for name in names if name.endswith(SUFFIX) and not name.startswith("."))


SIZE = 1  # where it is in a state


def _state(path: Path) -> tuple[int, ...] | None:
    """Changes whenever the file does, or who may read it; None where it has just gone."""
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_mode, state.st_uid, state.st_gid
