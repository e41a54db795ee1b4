"""A folder that clients put their files into. It is only ever read: nothing here needs the right to write there."""

from __future__ import annotations

import os
from pathlib import Path

from fedol.container import Incomplete, read_bounded
from fedol.errors import FedolError, InputError
from fedol.federation.roster import Roster
from fedol.task import Task

SUFFIX = ".fedol"


class Inbox:
    """Looks at every ``*.fedol`` file once, and again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arriving: dict[str, str] = {}  # files that end too early: still being copied, perhaps
        self._seen: dict[str, tuple[int, ...]] = {}

    def scan(self, roster: Roster, task: Task, into: Path, keep: Path) -> Roster:
        """Take what is new; the roster is written to ``keep`` after every change."""
        for name in self._names():
            state = _state(self.path / name)
            if state is None or self._seen.get(name) == state:
                continue
            self.arriving.pop(name, None)
            before = roster
            try:
                data = read_bounded(self.path / name, task.limit, follow=False)
                roster = roster.take(data, name, task, into)
            except Incomplete as error:
                self.arriving[name] = str(error)
            except InputError as error:
                roster = roster.refuse(name, str(error))
            if roster != before:
                roster.write(keep)
            self._seen[name] = state
        return roster

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
