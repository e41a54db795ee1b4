"""Who is in, who was refused and why: kept in the run folder, so that a killed server knows it again.

Here an upload is taken or refused. Whatever is wrong with a file is that file's refusal, a short printable reason, and
never an error of the server.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedol.errors import FedolError, InputError, cause
from fedol.files import intact, read_json, write_atomically, write_json
from fedol.knowledge import Knowledge
from fedol.knowledge.container import Incomplete, read_bounded
from fedol.knowledge.header import Header
from fedol.knowledge.task import Task
from fedol.secret.sealed import Head, Sealed
from fedol.text import MOST, is_text, naming, printable

SAID = 5  # refused files that an error names
MOST_REFUSED = 200  # files that are named with their reason: a flood of junk must not fill the disk or the page


@dataclass(frozen=True)
class Arrival:
    """One client's accepted file."""

    file: str
    bytes: int
    codec: str
    sha256: str
    privacy: str = ""  # what the client promises, in words


@dataclass(frozen=True)
class Examined:
    """A file's bytes, and what they say or why they cannot: what needs no look at the other files."""

    data: bytes
    sha256: str
    found: Header | Head | Exception

    @classmethod
    def of(cls, data: bytes, task: Task) -> Examined:
        """Of bytes that anybody may have sent."""
        digest = hashlib.sha256(data).hexdigest()
        try:
            return cls(data, digest, Sealed.decode(data, task).head if task.secret else Knowledge.examine(data, task))
        except Exception as error:  # nobody foresees all that a stranger can send
            return cls(data, digest, error)

    @property
    def header(self) -> Header | Head:
        """What it says; raises what is wrong."""
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@dataclass(frozen=True)
class Roster:
    """The state of a collection. ``closed`` says why no more files are taken; training starts then."""

    opened: float  # Unix time: a deadline counts from here, however often the server is started
    closed: str = ""
    clients: dict[str, Arrival] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # file -> reason
    unnamed: int = 0  # refusals beyond those that are named

    @classmethod
    def read(cls, path: Path, now: float) -> Roster:
        """The roster of a run, or a new one."""
        if not path.exists():
            return cls(now)
        advice = "choose another --out"
        with intact(path, advice):
            values = read_json(path, advice)
            clients = {name: Arrival(**arrival) for name, arrival in values["clients"].items()}
            more = int(values.get("unnamed", 0))  # earlier versions named them all
            return cls(float(values["opened"]), str(values["closed"]), clients, dict(values["refused"]), more)

    def write(self, path: Path) -> None:
        """Keep it, for the server's eyes only."""
        values: dict[str, Any] = asdict(self)
        write_json(path, values, private=True)

    def take(self, data: bytes | Examined, file: str, task: Task, into: Path, sender: str = "") -> Roster:
        """Validate a file's bytes and keep a copy, or refuse it: one bad file never stops the others.

        The copy matters: what lies in the inbox can still be changed by whoever put it there. Only its owner can read
        it. ``sender`` is the name under which a network knows whoever sent it.
        """
        if not is_text(file):
            return self.refuse(file, "its name is not UTF-8; rename it")
        known = data if isinstance(data, Examined) else Examined.of(data, task)
        if any(arrival.sha256 == known.sha256 and arrival.file == file for arrival in self.clients.values()):
            return self
        if any(arrival.file == file for arrival in self.clients.values()):
            return self.refuse(file, "it was replaced after it had been accepted; the first one counts")
        try:
            header = known.header
            if sender and header.client != sender:
                raise InputError(f"its sender is known as '{sender}', but it is in the name of '{header.client}'")
            for name, arrival in self.clients.items():
                if name.casefold() == header.client.casefold():  # the same file name on some systems
                    raise InputError(f"'{name}' has already sent a file ({arrival.file}); the first one counts")
        except Incomplete:  # it may still be arriving: whether to wait is the caller's to know
            raise
        except InputError as error:
            return self.refuse(file, str(error))
        except FedolError:  # a package that is missing here: no file's fault
            raise
        except Exception as error:
            return self.refuse(file, f"it cannot be read ({cause(error)})")
        write_atomically(into / f"{header.client}.fedol", known.data, private=True)
        clients = {
            **self.clients,
            header.client: Arrival(file, len(known.data), header.codec, known.sha256, str(header.privacy or "")),
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

        given = {path: digest(path) for path in files if printable(path) not in self.refused}
        strange = [path for path, found in given.items() if found not in before.values()]
        if strange and not self.unnamed:  # of those that are not named, nobody knows which they were
            return f"{strange[0]} is not among them"
        return "not all of them are given" if set(before.values()) - set(given.values()) else ""

    def refuse(self, file: str, reason: str) -> Roster:
        """Remember why a file was not taken; of very many, how many more there were."""
        name = printable(file)
        if name not in self.refused and len(self.refused) >= MOST_REFUSED:
            return replace(self, unnamed=self.unnamed + 1)
        return replace(self, refused={**self.refused, name: printable(reason, MOST)})

    def miss(self, clients: dict[str, str]) -> Roster:
        """Remember who was expected and is not in, and why; these are few, so each is named."""
        missing = {printable(name): printable(reason, MOST) for name, reason in clients.items()}
        return replace(self, refused={**self.refused, **missing})

    def said_of_refused(self) -> str:
        """The first few that were refused, in words."""
        said = [f"{name}: {why}" for name, why in list(self.refused.items())[:SAID]]
        more = len(self.refused) + self.unnamed - len(said)
        return "; ".join([*said, *([f"and {more:,} more"] if more else [])]) or "no file came"

    def without(self, client: str) -> Roster:
        """The same without a client, and without what was said of it."""
        said = naming(client)
        others = {name: arrival for name, arrival in self.clients.items() if name != client}
        refused = {file: why for file, why in self.refused.items() if not said.search(f"{file}\n{why}")}
        return replace(self, clients=others, refused=refused)

    def go_on(self) -> Roster:
        """As a restarted server begins: while it is open every file is looked at, and counted, again."""
        return self if self.closed else replace(self, unnamed=0)

    def close(self, reason: str) -> Roster:
        """Take no more files."""
        return replace(self, closed=reason)


def _without(refused: dict[str, str], file: str) -> dict[str, str]:
    return {name: reason for name, reason in refused.items() if name != printable(file)}


def check_there(files: list[Path]) -> None:
    """Refuse a name that no file has: a slip, not a bad file of somebody else's."""
    if missing := [path for path in files if not path.exists()]:
        raise InputError(f"There is no file {missing[0]}; nothing was begun.")
