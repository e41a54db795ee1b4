"""Who is in, who was refused and why: kept in the run folder, so that a killed server knows it again."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedol.container import Incomplete, read_bounded
from fedol.errors import InputError
from fedol.files import intact, read_json, write_atomically, write_json
from fedol.knowledge import Knowledge
from fedol.task import Task


@dataclass(frozen=True)
class Arrival:
    """One client's accepted file."""

    file: str
    bytes: int
    codec: str
    sha256: str
    privacy: str = ""  # what the client promises, in words


@dataclass(frozen=True)
class Roster:
    """The state of a collection. ``closed`` says why no more files are taken; training starts then."""

    opened: float  # Unix time: a deadline counts from here, however often the server is started
    closed: str = ""
    clients: dict[str, Arrival] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # file -> reason

    @classmethod
    def read(cls, path: Path, now: float) -> Roster:
        """The roster of a run, or a new one."""
        if not path.exists():
            return cls(now)
        advice = "choose another --out"
        with intact(path, advice):
            values = read_json(path, advice)
            clients = {name: Arrival(**arrival) for name, arrival in values["clients"].items()}
            return cls(float(values["opened"]), str(values["closed"]), clients, dict(values["refused"]))

    def write(self, path: Path) -> None:
        """Keep it."""
        values: dict[str, Any] = asdict(self)
        write_json(path, values)

    def take(self, data: bytes, file: str, task: Task, into: Path) -> Roster:
        """Validate a file's bytes and keep a copy, or refuse it: one bad file never stops the others.

        The copy matters: what lies in the inbox can still be changed by whoever put it there.
        """
        digest = hashlib.sha256(data).hexdigest()
        if any(arrival.sha256 == digest and arrival.file == file for arrival in self.clients.values()):
            return self
        if any(arrival.file == file for arrival in self.clients.values()):
            return self.refuse(file, "it was replaced after it had been accepted; the first one counts")
        try:
            knowledge, header = Knowledge.decode(data, task)
            for name, arrival in self.clients.items():
                if name.casefold() == knowledge.client.casefold():  # the same file name on some systems
                    raise InputError(f"'{name}' has already sent a file ({arrival.file}); the first one counts")
        except Incomplete:  # it may still be arriving: whether to wait is the caller's to know
            raise
        except InputError as error:
            return self.refuse(file, str(error))
        write_atomically(into / f"{header.client}.fedol", data)
        clients = {
            **self.clients,
            header.client: Arrival(file, len(data), header.codec, digest, str(header.privacy or "")),
        }
        return replace(self, clients=dict(sorted(clients.items())), refused=_without(self.refused, file))

    def unlike(self, files: list[Path], limit: int) -> str:
        """Why these are not the files that it was made of; empty where they are."""
        before = {arrival.file: arrival.sha256 for arrival in self.clients.values()}

        def digest(path: Path) -> str | None:
            try:
                return hashlib.sha256(read_bounded(path, limit)).hexdigest()
            except InputError:  # moved away, say: the run has its copy
                return before.get(str(path))

        given = {path: digest(path) for path in files if str(path) not in self.refused}
        strange = [path for path, found in given.items() if found not in before.values()]
        if strange:
            return f"{strange[0]} is not among them"
        return "not all of them are given" if set(before.values()) - set(given.values()) else ""

    def refuse(self, file: str, reason: str) -> Roster:
        """Remember why a file was not taken."""
        return replace(self, refused={**self.refused, file: reason})

    def close(self, reason: str) -> Roster:
        """Take no more files."""
        return replace(self, closed=reason)


def _without(refused: dict[str, str], file: str) -> dict[str, str]:
    return {name: reason for name, reason in refused.items() if name != file}
