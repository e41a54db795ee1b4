"""What a collection decides, as events of the run's log: who came, who is in, who was refused and why, and the end."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from threading import Lock

from fedol.federation.roster import Roster
from fedol.knowledge.task import Task
from fedol.runs.eventlog import EventLog

MOST_TURNED_AWAY = 200  # that are each an event; more are counted: a flood must not fill the disk
Turned = Callable[[str, str, str, bool], None]
"""Told of each that is turned away: the address, the client it was said to be, the sentence, whether it is news."""


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


class Door:
    """Writes down what happens where clients come in over a network: told by a server's threads, in any order."""

    def __init__(self, log: EventLog, tell: Turned) -> None:
        self._log, self._tell, self._lock = log, tell, Lock()
        self._turned: set[tuple[str, str, str]] = set()
        self._turned_away = 0

    def open(self, url: str, server: str) -> None:
        """The server listens; its public key is that of the receipts."""
        self._log.append("listening", url=url, server=server)

    def received(self, client: str, address: str, known_by: str, sha256: str, size: int) -> str:
        """A client's file is here, whole; the hash of that event, which its receipt carries."""
        about = {"address": address, "known_by": known_by, "sha256": sha256, "bytes": size}
        return str(self._log.append("received", client=client, **about)["hash"])

    def turned_away(self, address: str, client: str, why: str) -> None:
        """A request was refused, of whoever said to be this client; written down where that is news."""
        told = (address, client, why)
        with self._lock:
            self._turned_away += 1
            news = told not in self._turned and len(self._turned) < MOST_TURNED_AWAY
            if news:
                self._turned.add(told)
        if news:
            self._log.append("turned_away", address=address, client=client or None, why=why)
        self._tell(address, client, why, news)

    def login(self, address: str, why: str) -> None:
        """Somebody tried to log in as the coordinator, in vain where there is a reason."""
        if why:
            self.turned_away(address, "", why)
        else:
            self._log.append("login", address=address)

    def shut(self) -> None:
        """The server listens no more."""
        self._log.append("silent", turned_away=self._turned_away)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "unknown"
