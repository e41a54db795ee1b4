"""What a server that listens says of a client's file, signed: that it has come, whole, and whether it counts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from fedol.errors import InputError
from fedol.knowledge import signing

DIGEST = "fedol-sha256"  # the header of an upload that says of which file it is a part
# Not looked at yet; one of the run's clients; not one; another file of this client counts; come too late.
State = Literal["waiting", "accepted", "refused", "elsewhere", "late"]


@dataclass(frozen=True)
class Receipt:
    """One client's file, and what became of it so far."""

    task: str  # the task's id
    client: str
    sha256: str  # of the file
    size: int  # in bytes
    received: str  # when it was whole, in UTC
    state: State
    reason: str = ""  # why it is not one of the run's, where it is not
    server: str = ""  # the server's public key
    signature: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Receipt:
        """From what a server sends; its signature is not checked here."""
        kinds: dict[str, type] = {field.name: str for field in fields(cls)} | {"size": int}
        if not isinstance(values, dict) or set(values) != set(kinds):
            raise InputError("it is no receipt")
        if not all(type(values[name]) is kind for name, kind in kinds.items()) or values["state"] not in get_args(
            State
        ):
            raise InputError("it is no receipt")
        return cls(**values)

    @property
    def message(self) -> bytes:
        """What the signature covers: all else."""
        return b"fedol receipt\n" + json.dumps(replace(self, signature="").as_json(), sort_keys=True).encode()

    def signed(self, key: Path) -> Receipt:
        """With the signature of the server whose private key this is."""
        own = replace(self, server=signing.public_key(key))
        return replace(own, signature=signing.sign(key, own.message))

    def check(self, task: str, client: str, sha256: str, server: str | None = None) -> None:
        """An error unless it is about this file, and signed: by this server, where one is named."""
        if (self.task, self.client, self.sha256) != (task, client, sha256):
            raise InputError("it is about another file")
        if server is not None and self.server != server:
            raise InputError(f"it is signed by the server {self.server[:16]}…, not by {server[:16]}…")
        if not signing.verify(self.server, self.signature, self.message):
            raise InputError("its signature is not the server's")
