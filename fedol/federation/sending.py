"""A client's file on its way to the coordinator: what is known of it before it leaves, and the way into a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedol.errors import InputError
from fedol.federation.policy import Policy
from fedol.federation.transports import SUFFIX
from fedol.files import write_atomically
from fedol.knowledge.container import Container, read_bounded
from fedol.knowledge.header import Header
from fedol.secret.sealed import SCHEMA as SEALED
from fedol.secret.sealed import Head


@dataclass(frozen=True)
class Outgoing:
    """A file, whose it is and which task it answers."""

    data: bytes
    client: str
    task: str


def look(file: Path, policy: Path | None = None) -> Outgoing:
    """Read a knowledge file or a sealed one. What is neither is not sent, nor what the site's policy keeps back."""
    try:
        data = read_bounded(file)
        values = Container.unpack(data).header
        head = Head.from_json(values) if values.get("schema") == SEALED else Header.from_json(values)
    except InputError as error:
        raise InputError(f"{file} is not a file to send: {error}.", file) from None
    if rules := Policy.found(policy):
        rules.check_leaving(file, data)
    return Outgoing(data, head.client, head.task.id)


def into_folder(file: Path, folder: Path, policy: Path | None = None) -> Path:
    """Put the file into a folder that the coordinator looks into, whole or not at all."""
    outgoing = look(file, policy)
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}; write https://HOST:PORT to send to a server.")
    place = folder / (file.name if file.name.endswith(SUFFIX) else f"{file.name}{SUFFIX}")
    if place.exists() and place.read_bytes() != outgoing.data:
        raise InputError(f"{place} is another file; the first one counts, so give yours another name.")
    write_atomically(place, outgoing.data)
    return place
