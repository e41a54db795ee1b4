"""What was decided in a run, when, by whom and why: ``events.jsonl``, one line an event, each chained to the last.

A line holds the hash of the one before it, so a line that was removed, moved or changed shows (``verify``). The chain
is over a salted digest of the facts, not over the facts: where a site withdraws, the facts that name it are erased, the
chain holds, and ``verify`` counts what was erased. ``events.head`` has the number and the hash of the last line, so
that a log that was cut short shows, too. Whoever can write here could make all of it anew; who fears that keeps a hash
elsewhere, as a receipt or ``--notify`` does, and gives it to ``verify``.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any

from filelock import FileLock

from fedol.errors import FedolError
from fedol.files import private_folder, read_json, write_atomically, write_json
from fedol.text import MOST, naming, printable

EVENTS, HEAD, LOCK = "events.jsonl", "events.head", "events.lock"
BEGIN = "0" * 64  # what the first line follows
SEALED = ("n", "time", "kind", "digest", "before")  # the parts of a line that its hash covers
LEVELS = {"refused": logging.WARNING, "failed": logging.ERROR, "incomplete": logging.DEBUG}  # of a kind; else INFO
Listener = Callable[[dict[str, Any]], None]
_logger = logging.getLogger("fedol.events")
_logger.addHandler(logging.NullHandler())  # nobody is told who has not asked (``fedol.cli.logs``)


class EventLog:
    """The log of one run's folder. Threads and processes may append at once."""

    def __init__(self, folder: Path, listeners: Collection[Listener] = ()) -> None:
        self.path, self._head = folder / EVENTS, folder / HEAD
        self._listeners = list(listeners)  # each is told of every event: a notification, metrics, a status page
        self._threads = RLock()
        private_folder(folder)
        self._processes = FileLock(folder / LOCK)

    def listen(self, listener: Listener) -> None:
        """Tell also this one of every event from now on."""
        self._listeners.append(listener)

    def append(self, kind: str, **facts: Any) -> dict[str, Any]:
        """Write down an event and tell it: its number, time, kind, facts and hash, which a receipt may carry."""
        plain = {name: _plain(value) for name, value in facts.items() if value is not None}
        with self._threads, self._processes:
            number, before = self._last()
            salt = secrets.token_hex(16)
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"n": number + 1, "time": time, "kind": kind, "facts": plain, "salt": salt}
            line |= {"digest": _digest(salt, plain), "before": before}
            self._write(json.dumps(line) + "\n")
            found = hash_of(line)
            write_json(self._head, {"n": number + 1, "hash": found}, private=True)
        event = {"n": number + 1, "time": time, "kind": kind, **plain, "hash": found}
        _logger.log(LEVELS.get(kind, logging.INFO), kind, extra={"event": event})
        for listener in self._listeners:
            listener(event)
        return event

    def erase(self, word: str) -> list[int]:
        """Take away the facts of every line that says ``word``, a client's name; the chain still holds.

        The numbers of the lines go into the next event, as ``erased``: an erased line that none accounts for shows.
        """
        with self._threads, self._processes:
            lines, gone = read(self.path.parent) if self.path.exists() else [], list[int]()
            said = naming(word)
            for line in lines:  # none in a run of an earlier version
                if "facts" in line and said.search(json.dumps(line["facts"], ensure_ascii=False)):
                    del line["facts"], line["salt"]
                    gone.append(line["n"])
            if gone:
                text = "".join(json.dumps(line) + "\n" for line in lines)
                write_atomically(self.path, text.encode(), private=True)
        return gone

    def _last(self) -> tuple[int, str]:
        """Number and hash of the last line. What a killed process left of one is not a line, and goes."""
        if not self.path.exists():
            return 0, BEGIN
        size = self.path.stat().st_size
        with open(self.path, "r+b") as file:
            end, tail = size, b""
            while tail.count(b"\n") < 2 and len(tail) < size:  # a line is short, but no length is promised
                file.seek(max(0, size - 2 * len(tail) - 4096))
                tail = file.read()
            whole = tail[: tail.rfind(b"\n") + 1]
            end -= len(tail) - len(whole)
            file.truncate(end)
        if not whole:
            return 0, BEGIN
        line = _parsed(whole.splitlines()[-1], self.path)
        return int(line["n"]), hash_of(line)

    def _write(self, text: str) -> None:
        try:
            with open(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FedolError(
                f"{self.path} cannot be written ({error.strerror}); fix that and rerun the command.", self.path, True
            ) from None


@dataclass(frozen=True)
class Verified:
    """What a log turned out to be: how many events, the last one's hash, and which lines were erased."""

    events: int
    hash: str
    erased: tuple[int, ...]


def verify(folder: Path, head: str | None = None) -> Verified:
    """Check every line of a run's log, or say in an error which one is wrong; ``head`` is a hash that must occur."""
    lines, before, hashes = read(folder), BEGIN, set[str]()
    erased, accounted = list[int](), set[int]()
    for place, line in enumerate(lines, start=1):
        where = f"{folder / EVENTS}, line {place}"
        if line["n"] != place or line["before"] != before:
            raise FedolError(f"{where}: a line before it was removed, moved or changed; keep the file as it is.")
        if "facts" not in line:
            erased.append(place)
        elif line["digest"] != _digest(line["salt"], line["facts"]):
            raise FedolError(f"{where}: its facts were changed after they were written; keep the file as it is.")
        accounted |= set(line.get("facts", {}).get("erased", []))
        before = hash_of(line)
        hashes.add(before)
    if unsaid := set(erased) - accounted:
        raise FedolError(f"{folder / EVENTS}, line {min(unsaid)}: its facts are gone, and no withdrawal says why.")
    if (folder / HEAD).exists():
        kept = read_json(folder / HEAD)
        if kept["n"] > len(lines):
            raise FedolError(f"{folder / EVENTS} has {len(lines)} lines, but there were {kept['n']}: it was cut short.")
        head_at = hash_of(lines[kept["n"] - 1])
        if head_at != kept["hash"]:
            raise FedolError(f"{folder / EVENTS}, line {kept['n']}: it is another than {HEAD} remembers.")
    if head is not None and head not in hashes:
        raise FedolError(f"{folder / EVENTS} has no event with the hash {printable(head, 70)}: it is another log.")
    return Verified(len(lines), before, tuple(erased))


def read(folder: Path) -> list[dict[str, Any]]:
    """The lines as they are, without what a killed process left of the last one."""
    return list(_lines(folder / EVENTS))


def hash_of(line: dict[str, Any]) -> str:
    """What the next line holds of this one."""
    return hashlib.sha256(json.dumps({name: line[name] for name in SEALED}).encode()).hexdigest()


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        raise FedolError(f"There is no event log in {path.parent}; give the folder of a run that has {EVENTS}.", path)
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    for text in whole.splitlines():
        yield _parsed(text, path)


def _parsed(text: bytes, path: Path) -> dict[str, Any]:
    try:
        line = dict(json.loads(text))
        if all(name in line for name in SEALED) and isinstance(line["n"], int):
            return line
    except (ValueError, TypeError, RecursionError):
        pass
    raise FedolError(f"{path} holds a line that is no event; keep the file as it is and find out who changed it.", path)


def _digest(salt: str, facts: dict[str, Any]) -> str:
    return hashlib.sha256((salt + json.dumps(facts, sort_keys=True)).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """A fact as JSON: plain values as they are, anybody's text printable and of a bounded length."""
    if isinstance(value, dict):
        return {printable(key, MOST): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else printable(value, MOST)
