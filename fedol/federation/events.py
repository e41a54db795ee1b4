"""What a collection decides, as events of the run's log: who is in, who was refused and why, and when it closed."""

from __future__ import annotations

import getpass
from collections.abc import Mapping

from fedol.federation.roster import Roster
from fedol.knowledge.task import Task
from fedol.runs.eventlog import EventLog


class Minutes:
    """Writes down that a process begins, or goes on with, a run, and then what has changed since it last looked."""

    def __init__(self, log: EventLog, task: Task, roster: Roster, configuration: str) -> None:
        self._log, self._task, self._roster = log, task, roster
        self._arriving: Mapping[str, str] = {}
        self._log.append("started", task=self._task.id, configuration=configuration, by=_user())

    def roster(self, now: Roster) -> None:
        """Who came in, who was refused, and whether the collection was closed."""
        before, self._roster = self._roster, now
        for name, arrival in now.clients.items():
            if name not in before.clients:
                about = {"file": arrival.file, "bytes": arrival.bytes, "codec": arrival.codec, "sha256": arrival.sha256}
                self._log.append("accepted", client=name, key=self._task.clients.get(name), **about)
        for file, why in now.refused.items():
            if before.refused.get(file) != why:
                self._log.append("refused", file=file, why=why)
        if now.closed and not before.closed:
            more = {"refused_unnamed": now.unnamed} if now.unnamed else {}
            self._log.append("closed", why=now.closed, clients=len(now.clients), refused=len(now.refused), **more)

    def arriving(self, now: Mapping[str, str]) -> None:
        """Files that are not whole, or not there, each when that is first so."""
        before, self._arriving = self._arriving, dict(now)
        for file, why in now.items():
            if file not in before:
                self._log.append("incomplete", file=file, why=why)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "unknown"
