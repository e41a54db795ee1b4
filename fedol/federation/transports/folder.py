"""A folder that clients put their files into. It is only ever read: nothing here needs the right to write there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from fedol.errors import FedolError, InputError
from fedol.federation.roster import Roster
from fedol.federation.transports import Transport
from fedol.knowledge.container import Incomplete, read_bounded
from fedol.knowledge.task import Task

SUFFIX = ".fedol"
UNSEEN = "it was not looked at before the training began"


class Inbox(Transport):
    """Looks at every ``*.fedol`` file once, and again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Files that end too early (still being copied, perhaps), or wait their turn.
        self._arriving: dict[str, str] = {}
        self._seen: dict[str, tuple[int, ...]] = {}

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
        for name in new:
            del self._arriving[name]
            try:
                data = read_bounded(self.path / name, task.limit, follow=False)
                roster = roster.take(data, name, task, into)
            except Incomplete as error:
                self._arriving[name] = str(error)
            except InputError as error:
                roster = roster.refuse(name, str(error))
            self._seen[name] = states[name]
            yield roster

    def _names(self) -> list[str]:
        try:
            names = os.listdir(self.path)
        except OSError as error:
            raise FedolError(
                f"The inbox {self.path} cannot be read ({error.strerror}); mend that and give the same command again."
            ) from None
        return sorted(name for name in names if name.endswith(SUFFIX) and not name.startswith("."))


def _state(path: Path) -> tuple[int, ...] | None:
    """Changes whenever the file does; None where it has just gone."""
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns
