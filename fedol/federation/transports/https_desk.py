"""Where uploads over HTTPS lie while they come, the receipts for those that are whole, and what became of each.

A part is a file of the run's folder that grows; a whole upload becomes a file in the inbox, under a name of its own, at
once. So a server that is killed at any moment knows all it had said it has. Nothing here is read as knowledge:
that is the inbox's part, and the roster's.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import IO

from fedol.errors import InputError
from fedol.federation.receipts import Receipt, State
from fedol.federation.roster import Roster
from fedol.files import intact, private_folder, read_json, sweep, write_atomically, write_json
from fedol.knowledge import signing
from fedol.knowledge.task import Task
from fedol.text import printable

ENDING = ".https.fedol"  # of uploads in the inbox: whoever puts files there by hand takes no upload's place
PART = ".part"


@dataclass(frozen=True)
class Upload:
    """A client's whole upload; where there is none, only the address of its page."""

    page: str
    sha256: str = ""
    size: int = 0
    received: str = ""


class Busy(Exception):
    """Another upload of the same client is under way."""


class Desk:
    """The uploads of one run: one thread takes them, another looks at them and says so by ``look``."""

    def __init__(self, task: Task, inbox: Path, kept: Path) -> None:
        self.task, self.inbox, self.kept = task, inbox, kept
        self.roster = Roster(0.0)
        self._lock = RLock()  # of the records
        private_folder(kept)
        for place, names in ((kept, "*"), (inbox, f"*{ENDING}")):
            sweep(place, names)
        self.key = kept / "server.key"
        self.public_key = signing.public_key(self.key) if self.key.exists() else signing.new_key(self.key)
        self.uploads = {path.stem: self._read(path) for path in sorted(kept.glob("*.json"))}
        self.arriving: dict[str, tuple[int, int]] = {}  # who is sending now: bytes that are here, and of how many
        self.waiting = {name for name, upload in self.uploads.items() if upload.sha256 and self.file(name).exists()}

    def look(self, roster: Roster) -> None:
        """See what became of the uploads; one that is in, and of which a kill left no record, has one again."""
        self.roster = roster
        for name, arrival in roster.clients.items():
            if arrival.file == self.file(name).name and not self._upload(name).sha256:
                self._record(name, arrival.sha256, arrival.bytes)

    def file(self, client: str) -> Path:
        """Where a client's upload lies in the inbox."""
        return self.inbox / f"{client}{ENDING}"

    def page(self, client: str) -> str:
        """The address of a client's page: whoever has it sees what became of this client's file."""
        with self._lock:
            if client not in self.uploads:
                self._write(client, Upload(secrets.token_urlsafe(24)))
            return self.uploads[client].page

    def _upload(self, client: str) -> Upload:
        return self.uploads.get(client, Upload(""))

    def whose(self, page: str) -> str | None:
        """The client whose page this is."""
        given = page.encode(errors="replace")
        known = list(self.uploads.items())
        return next((name for name, upload in known if secrets.compare_digest(upload.page.encode(), given)), None)

    def state(self, client: str) -> tuple[State | None, str]:
        """What became of a client's upload, and why; None where none is whole."""
        roster = self.roster
        for name, arrival in roster.clients.items():
            if name.casefold() == client.casefold():
                if arrival.file == self.file(client).name:
                    return "accepted", ""
                return "elsewhere", f"the file {printable(arrival.file)} of this client is in, and the first one counts"
        if not self._upload(client).sha256:
            return None, ""
        refused = roster.refused.get(printable(self.file(client).name))
        if refused is not None and client not in self.waiting:
            return "refused", refused
        return ("late", "the training had begun before it was looked at") if roster.closed else ("waiting", "")

    def receipt(self, client: str) -> Receipt | None:
        """What the server signs about a client's upload; None where none is whole."""
        upload, (state, reason) = self._upload(client), self.state(client)
        if not upload.sha256 or state is None:
            return None
        about = Receipt(self.task.id, client, upload.sha256, upload.size, upload.received, state, reason)
        return about.signed(self.key)

    def offset(self, client: str, sha256: str) -> int:
        """How much of this file is here."""
        try:
            return self._part(client, sha256).stat().st_size
        except OSError:
            return 0

    @contextmanager
    def receiving(self, client: str, sha256: str, offset: int, total: int) -> Iterator[IO[bytes]]:
        """The part to write to, from ``offset`` on; parts of other files of this client are given up."""
        if client in self.arriving:
            raise Busy
        self.arriving[client] = offset, total
        try:
            part = self._part(client, sha256)
            for other in self._parts(client):
                if other != part:
                    other.unlink(missing_ok=True)
            with open(part, "ab", opener=_for_its_owner) as file:
                file.truncate(offset)
                yield file
        finally:
            del self.arriving[client]

    def complete(self, client: str, sha256: str) -> None:
        """Put a part that is whole into the inbox; an error where it is not what its sender says it is."""
        part = self._part(client, sha256)
        data = part.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if sha256 and digest != sha256:
            part.unlink()
            raise InputError("What came is not what was announced, its SHA-256 is another; send the file again.")
        write_atomically(self.file(client), data, private=True)
        self._record(client, digest, len(data))
        self.waiting.add(client)  # only now: a look that is under way may have seen the file before
        part.unlink()

    def _record(self, client: str, sha256: str, size: int) -> None:
        received = datetime.now(UTC).isoformat(timespec="seconds")
        with self._lock:
            self._write(client, Upload(self.page(client), sha256, size, received))

    def _part(self, client: str, sha256: str) -> Path:
        return self.kept / f"{client}.{sha256 or 'whole'}{PART}"

    def _parts(self, client: str) -> list[Path]:
        """A client's parts; not those of one whose name begins with the same letters."""
        names = [name for name in os.listdir(self.kept) if name.endswith(PART)]
        return [self.kept / name for name in names if name.removesuffix(PART).rpartition(".")[0] == client]

    def _read(self, path: Path) -> Upload:
        advice = "remove it, and the client can send its file again"
        with intact(path, advice):
            return Upload(**read_json(path, advice))

    def _write(self, client: str, upload: Upload) -> None:
        write_json(self.kept / f"{client}.json", upload.__dict__, private=True)
        self.uploads[client] = upload


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
