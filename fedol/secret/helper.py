"""A helper's work: sum the shares of a list of clients, never of so few that a single one would show.

What two sums differ by is a sum, too. So the helper keeps a ledger of all lists that it has summed, and refuses one
with which clients could be told apart: whatever combination of sums somebody forms, clients that were in the same lists
have the same weight in it, and each such group must have the task's least number of members.

The ledger is written before the sum, and the same list gives the same bytes again: a helper that is killed at any
moment has promised nothing that it does not know of, and repeats.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from fedol.errors import InputError
from fedol.files import intact, read_json, write_atomically, write_json
from fedol.knowledge import Task
from fedol.knowledge.container import Container, read_bounded
from fedol.knowledge.terms import Terms
from fedol.progress import watched
from fedol.secret.encoding import Encoding, Part
from fedol.secret.keys import HelperKey
from fedol.secret.sealed import Sealed, place_of, schema_of
from fedol.text import printable

SUM = "sum 1"
SUFFIX = ".fedol"
ADVICE = "mend it; without it nobody knows which sums were given out, and another one could show a single client"


@dataclass(frozen=True)
class Client:
    """A client in a list: its file's name for itself, and how large it is."""

    name: str
    digest: str
    bytes: int


def held(task: Task, inbox: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The clients whose files are in the inbox, signed and whole; and of the other files why not."""
    found: dict[str, Path] = {}
    wrong: dict[str, str] = {}
    if not inbox.is_dir():
        raise InputError(f"There is no folder {inbox}; give the one with the clients' files as --inbox.")
    paths = sorted(path for path in inbox.iterdir() if path.suffix == SUFFIX and not path.name.startswith("."))
    for path in watched(paths, "checking files"):
        try:
            client = Sealed.decode(read_bounded(path, task.limit, follow=False), task).head.client
        except InputError as error:
            wrong[printable(path.name)] = str(error)
            continue
        if client in found:
            wrong[printable(path.name)] = f"'{client}' has sent another file ({found[client].name}); keep one of them"
        else:
            found[client] = path
    return found, wrong


def sum_up(task: Task, inbox: Path, names: Sequence[str], key: HelperKey, ledger: Path, out: Path) -> list[Client]:
    """Write the helper's sum over these clients, signed with the exact list of their files."""
    terms = _terms(task)
    _check_names(names, task, terms)
    if out.absolute() == ledger.absolute() or (out.exists() and schema_of(out) != SUM):
        raise InputError(f"{out} is no place for a sum: something else is there, and would be lost. Choose another.")
    files = _files(inbox, names, task)
    # The lock holds from the look at the ledger to the end: two lists at once must know of each other.
    with FileLock(ledger.with_name(f"{ledger.name}.lock")):
        total = Encoding.of(task).nothing()
        listed = [add(total, name, files[name], task, key) for name in watched(sorted(names), "summing")]
        Ledger.read(ledger).allowing(task, {client.name: client.digest for client in listed}).write(ledger)
        write_atomically(out, packed(task, key, listed, total))
    return listed


def add(total: Part, name: str, file: Path, task: Task, key: HelperKey) -> Client:
    """Add the client's share in this file to the helper's total."""
    try:
        data = read_bounded(file, task.limit, follow=False)
        sealed = Sealed.decode(data, task, [place_of(task, key)])
        if sealed.head.client != name:
            raise InputError(f"it is a file of '{sealed.head.client}'; name it so")
        sealed.open(task, key, total)
    except InputError as error:
        raise InputError(f"{file} is refused: {error}. Nothing was summed.", file) from None
    return Client(name, sealed.head.digest, len(data))


def _terms(task: Task) -> Terms:
    if task.secret is None:
        raise InputError("The task names no helpers, so there is nothing to sum; see --helpers of fedol task new.")
    return task.secret


def _check_names(names: Sequence[str], task: Task, terms: Terms) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1} if len(names) > len(set(names)) else ()):
        raise InputError(f"The list names '{twice[0]}' twice; name each client once.")
    if strange := sorted(set(names) - set(task.clients)):
        raise InputError(f"The list names '{printable(strange[0], 80)}', whom the task does not list.")
    if len(names) < terms.least:
        raise InputError(
            f"A sum of {len(names)} client{'s' if len(names) > 1 else ''} would show too much of each; the task asks "
            f"for at least {terms.least}."
        )


def _files(inbox: Path, names: Sequence[str], task: Task) -> dict[str, Path]:
    """The file of each client: of its name, as a server's copies are, or whichever says that it is that client's."""
    named = {name: inbox / f"{name}{SUFFIX}" for name in names}
    if all(path.is_file() for path in named.values()):
        return named
    there, wrong = held(task, inbox)
    if missing := sorted(set(names) - set(there)):
        why = "; ".join(f"{file}: {reason}" for file, reason in list(wrong.items())[:3])
        raise InputError(
            f"{inbox} has no file of '{missing[0]}' that can be summed{f' ({why})' if why else ''}; leave the client "
            "out of both helpers' lists."
        )
    return {name: there[name] for name in names}


@dataclass(frozen=True)
class Ledger:
    """Which lists a helper has summed: by task, each list with the digest of every client's file."""

    tasks: Mapping[str, Sequence[Mapping[str, str]]]

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """The ledger beside a key, or a new one."""
        if not path.exists():
            return cls({})
        with intact(path, ADVICE):
            tasks = read_json(path, ADVICE)
            if not all(isinstance(names, dict) for lists in tasks.values() for names in lists):
                raise InputError("it is no ledger")
            return cls(tasks)

    def write(self, path: Path) -> None:
        """Keep it, for the helper's eyes only."""
        write_json(path, self.tasks, private=True)

    def allowing(self, task: Task, wanted: Mapping[str, str]) -> Ledger:
        """With this list in it, or an error where with the lists before it would show too few clients apart."""
        lists, terms = [dict(names) for names in self.tasks.get(task.id, ())], _terms(task)
        if dict(wanted) in lists:
            return self
        for before in lists:
            if other := sorted(name for name in wanted if before.get(name, wanted[name]) != wanted[name]):
                raise InputError(
                    f"'{other[0]}' was summed before with another file, and of both the difference would show; sum the "
                    "first."
                )
        if lists and terms.noise:
            raise InputError(
                "A sum of this task was given out already, and its noise covers one; the same list can be summed again."
            )
        lists.append(dict(wanted))
        groups: dict[tuple[bool, ...], list[str]] = {}
        for name in sorted(set().union(*lists)):
            groups.setdefault(tuple(name in names for names in lists), []).append(name)
        if len(smallest := min(groups.values(), key=len)) < terms.least:
            raise InputError(
                f"With the sums that were given out before, this one would show {', '.join(smallest)} apart from all "
                f"others: fewer than the {terms.least} clients that the task asks for. Wait for more clients, or leave "
                "them out."
            )
        return Ledger({**self.tasks, task.id: lists})


def packed(task: Task, key: HelperKey, listed: Sequence[Client], total: Part) -> bytes:
    """A helper's sum as a file: the list, the sum, and the signature over both."""
    entries = json.dumps([[client.name, client.digest, client.bytes] for client in listed]).encode()
    body = entries + Encoding.of(task).pack(total)
    head: dict[str, Any] = {
        "schema": SUM,
        "task": task.id,
        "helper": list(_terms(task).helpers)[place_of(task, key)],
        "listed": len(entries),
        "body": hashlib.sha256(body).hexdigest(),
    }
    return Container({**head, "signature": key.signing.sign(message(head)).hex()}, body).pack()


def message(head: Mapping[str, Any]) -> bytes:
    """What a helper signs."""
    entries = {name: value for name, value in head.items() if name != "signature"}
    return b"fedol sum\n" + json.dumps(entries, sort_keys=True).encode()
