"""Two helpers' sums become one: checked against each other, added up, and compared with what is possible at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedol.core.union import Sums
from fedol.errors import InputError
from fedol.knowledge import Task, signing
from fedol.knowledge.container import Container, read_bounded
from fedol.knowledge.task import OVERHEAD
from fedol.secret.encoding import Encoding, Part
from fedol.secret.helper import SUM, Client, message
from fedol.text import MOST, printable

ENTRY = 256  # bytes that a client may take in a list


@dataclass(frozen=True, eq=False)
class Opened:
    """The sums, and whose they are of."""

    sums: Sums
    clients: tuple[Client, ...]


@dataclass(frozen=True, eq=False)
class Share:
    """One helper's sum, as it was read and found to be signed by that helper."""

    helper: str
    clients: tuple[Client, ...]
    total: Part

    @classmethod
    def decode(cls, data: bytes, task: Task) -> Share:
        """From a file's bytes; the error is half a sentence."""
        encoding = Encoding.of(task)
        assert task.secret is not None
        container = Container.unpack(data)
        head, body = container.header, container.body
        if head.get("schema") != SUM:
            raise InputError("it is no helper's sum; make one with: fedol helper sum")
        if head.get("task") != task.id:
            raise InputError(f"it belongs to another task ({printable(head.get('task'), 20)}, not {task.id})")
        helper, signature = str(head.get("helper")), str(head.get("signature"))
        key = task.secret.helpers.get(helper)
        if key is None:
            raise InputError(f"'{printable(helper, 80)}' is none of the task's helpers")
        if not signing.verify(key[:64], signature, message(head)):
            raise InputError(f"its signature is not by the key that the task lists for the helper '{helper}'")
        if head.get("body") != hashlib.sha256(body).hexdigest():
            raise InputError("its sum is not the one that was signed")
        listed = head.get("listed")
        if type(listed) is not int or len(body) != listed + encoding.packed:
            raise InputError(f"its sum has not the {encoding.packed:,} bytes that the task's sums have")
        try:
            clients = tuple(
                Client(str(name), str(digest), int(size)) for name, digest, size in json.loads(body[:listed])
            )
        except (ValueError, TypeError, RecursionError):
            raise InputError("its list of clients cannot be read") from None
        return cls(helper, clients, encoding.unpack(body[listed:]))


def read(path: Path, task: Task) -> Share:
    """A helper's sum from its file."""
    limit = 4 * Encoding.of(task).size + ENTRY * len(task.clients) + OVERHEAD
    try:
        return Share.decode(read_bounded(path, limit), task)
    except InputError as error:
        raise InputError(f"{path} is refused: {printable(error, MOST)}.", path) from None


def opened(shares: Sequence[Share], task: Task) -> Opened:
    """What both helpers have summed; an error where they have not summed the same files, or not honestly."""
    encoding = Encoding.of(task)
    assert task.secret is not None
    first, second = shares
    if {first.helper, second.helper} != set(task.secret.helpers):
        raise InputError(f"Both sums are by the helper '{first.helper}'; give one of each helper.")
    lists = [{client.name: client.digest for client in share.clients} for share in shares]
    for mine, other, helper in ((lists[0], lists[1], second.helper), (lists[1], lists[0], first.helper)):
        if lacking := sorted(set(mine) - set(other)):
            raise InputError(
                f"The helper '{helper}' has not summed '{lacking[0]}', the other has; both must sum the same list."
            )
    if different := sorted(name for name in lists[0] if lists[0][name] != lists[1][name]):
        raise InputError(f"The helpers have summed different files of '{different[0]}'; both must sum the same one.")
    if strange := sorted(set(lists[0]) - set(task.clients)):
        raise InputError(f"The sums are of '{printable(strange[0], 80)}', whom the task does not list.")
    if len(lists[0]) < task.secret.least or any(len(share.clients) != len(lists[0]) for share in shares):
        raise InputError(
            f"The sums are of {len(lists[0])} different clients, but the task asks for at least {task.secret.least}."
        )
    total = Part(first.total.counts.copy(), first.total.values.copy())
    total.add(second.total)
    try:
        return Opened(encoding.decode(total, len(lists[0])), first.clients)
    except InputError as error:
        raise InputError(f"{error}.") from None
