"""A client's file for a sum in secret: its two shares, each sealed to one helper, and its signature over both.

An envelope is HPKE (RFC 9180: X25519, HKDF-SHA256, AES-256-GCM) with the task, the client, a nonce, both helpers' keys
and the addressee as ``info``. In any other place, or among parts of another file, it does not open. The signature
covers all of that and the envelopes' hashes, so that a helper can tell whose file it is without opening anything.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedol.errors import InputError, cause
from fedol.knowledge import Knowledge, Task, signing
from fedol.knowledge.container import Container, check_size, read_bounded
from fedol.knowledge.header import Guarantee, check_welcome
from fedol.knowledge.task import TaskRef
from fedol.secret.encoding import SEED, Encoding, Part, masked
from fedol.secret.keys import HelperKey, hpke
from fedol.text import MOST, check_name, printable

SCHEMA = "sealed 1"
CODEC = "sealed"  # what a roster says of such a file's packing
ENVELOPE = 48  # bytes that an envelope has more than what is in it: an X25519 key and the tag of AES-GCM
NONCE = 32  # hexadecimal digits


@dataclass(frozen=True)
class Head:
    """What a sealed file says about itself, for everybody to read."""

    task: TaskRef
    client: str
    nonce: str
    envelopes: tuple[str, ...]  # the SHA-256 of each, in the order of the task's helpers
    signature: str = ""
    privacy: Guarantee | None = None  # what the client promises about its predictions, by its own word

    codec = CODEC

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"schema": SCHEMA, **asdict(self), "envelopes": list(self.envelopes)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Head:
        """From whatever a stranger sends."""
        if values.get("schema") != SCHEMA:
            raise InputError(
                "it is not sealed, but the task's answers are summed in secret; make it again for the task"
            )
        task = values["task"] if isinstance(values.get("task"), dict) else {}
        ref: list[Any] = [task.get(field.name) for field in fields(TaskRef)]
        texts: list[Any] = [values.get(key) for key in ("client", "nonce", "signature")]
        hashes: Any = values.get("envelopes")
        listed = isinstance(hashes, list) and len(hashes) == 2 and all(type(one) is str for one in hashes)
        if not listed or not all(type(text) is str for text in [*ref, *texts]) or len(values["nonce"]) != NONCE:
            raise InputError("its header lacks an entry or has one of a wrong type")
        check_name(values["client"])
        privacy = Guarantee.from_json(values.get("privacy"))
        return cls(TaskRef(*ref), texts[0], texts[1], tuple(hashes), texts[2], privacy)

    @property
    def message(self) -> bytes:
        """What the signature covers: all else."""
        entries = replace(self, signature="").as_json()
        return b"fedol sealed\n" + json.dumps(entries, sort_keys=True).encode()

    @property
    def digest(self) -> str:
        """Names this file: both helpers must have summed the same ones."""
        return hashlib.sha256(self.message).hexdigest()

    def info(self, task: Task, helper: str) -> bytes:
        """What an envelope is bound to: the whole task, for its short id could be made alike for other terms."""
        assert task.secret is not None
        bound = [task.digest, self.client, self.nonce, task.secret.as_json()["helpers"], helper]
        return b"fedol share\n" + json.dumps(bound).encode()


@dataclass(frozen=True)
class Sealed:
    """A sealed file."""

    head: Head
    envelopes: tuple[memoryview, memoryview]

    @classmethod
    def decode(cls, data: bytes, task: Task, wanted: Sequence[int] = (0, 1)) -> Sealed:
        """Read a file's bytes and check all that can be without a helper's key, of the ``wanted`` envelopes.

        The error is half a sentence, because the caller alone knows which file it is about.
        """
        check_size(data, task.limit)
        header, start = Container.split(data)
        body = memoryview(data)[start:]  # no copies: a helper reads thousands of these
        try:
            head = Head.from_json(header)
            check_welcome(head.client, None, bool(head.signature), task)
        except InputError as error:  # a whole sentence where a name is none, or longer than anybody wants to read
            raise InputError(printable(cause(error), MOST)) from None
        if head.task != task.ref:
            other = printable(head.task.id, 20) or "none"
            raise InputError(f"it answers another task ({other}, not {task.id}); make it again for this")
        sizes = sizes_of(task)
        if len(body) != sum(sizes):
            raise InputError(f"its envelopes have {len(body):,} bytes instead of {sum(sizes):,}")
        key = task.clients[head.client]
        if key is None or not signing.verify(key, head.signature, head.message):
            raise InputError(f"its signature is not by the key that the task lists for '{head.client}'")
        envelopes = body[: sizes[0]], body[sizes[0] :]
        if any(hashlib.sha256(envelopes[place]).hexdigest() != head.envelopes[place] for place in wanted):
            raise InputError("its envelopes are not those that were signed")
        return cls(head, envelopes)

    def open(self, task: Task, key: HelperKey, total: Part) -> None:
        """Add the share in the envelope to this helper to a total; an error leaves that as it was."""
        encoding, place = Encoding.of(task), place_of(task, key)
        assert task.secret is not None
        suite, _ = hpke()
        from cryptography.exceptions import InvalidTag

        info = self.head.info(task, list(task.secret.helpers)[place])
        try:
            share = suite.decrypt(self.envelopes[place], key.sealing, info)
        except (InvalidTag, ValueError):
            raise InputError("its envelope does not open: it was sealed to another key or for another place") from None
        (encoding.add, encoding.expand)[place](total, share)


def file_for(task: Task, knowledge: Knowledge, codec: str, key: Path | None) -> bytes:
    """What a client sends for this task: a sealed file where it sums in secret, a knowledge file otherwise."""
    return seal(knowledge, task, key) if task.secret else knowledge.encode(codec, key)


def seal(knowledge: Knowledge, task: Task, key: Path | None, rng: np.random.Generator | None = None) -> bytes:
    """The file that a client sends: its part of the sum, so that only both helpers together could read it.

    Rounding and noise come from the system's randomness unless a generator is given; seed and nonce always do.
    """
    encoding = Encoding.of(task)
    assert task.secret is not None
    if key is None:
        raise InputError("The task's answers are summed in secret, and only of clients that sign; give your --key.")
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    suite, _ = hpke()
    rng = np.random.default_rng(secrets.randbits(256)) if rng is None else rng
    seed = secrets.token_bytes(SEED)
    shares = masked(encoding.encode(knowledge, rng), seed, encoding), seed
    head = Head(task.ref, knowledge.client, secrets.token_hex(NONCE // 2), (), privacy=knowledge.privacy)
    envelopes = []
    for share, (helper, public) in zip(shares, task.secret.helpers.items(), strict=True):
        to = X25519PublicKey.from_public_bytes(bytes.fromhex(public[64:]))
        envelopes.append(suite.encrypt(share, to, head.info(task, helper)))
    head = replace(head, envelopes=tuple(hashlib.sha256(envelope).hexdigest() for envelope in envelopes))
    head = replace(head, signature=signing.sign(key, head.message))
    return Container(head.as_json(), b"".join(envelopes)).pack()


def sizes_of(task: Task) -> tuple[int, int]:
    """Bytes of the two envelopes."""
    return Encoding.of(task).packed + ENVELOPE, SEED + ENVELOPE


def place_of(task: Task, key: HelperKey) -> int:
    """Which of the task's helpers has this key."""
    assert task.secret is not None
    keys = list(task.secret.helpers.values())
    if key.public not in keys:
        raise InputError(f"This key is none of the task's helpers' ({', '.join(task.secret.helpers)}); use theirs.")
    return keys.index(key.public)


def is_sealed(path: Path) -> bool:
    """Whether a file is one of these, whatever else is wrong with it."""
    return schema_of(path) == SCHEMA


def schema_of(path: Path) -> object:
    """What a file says that it is; None where it says nothing."""
    try:
        return Container.unpack(read_bounded(path)).header.get("schema")
    except InputError:
        return None


def look_at(path: Path, task: Task | None = None) -> dict[str, Any]:
    """What everybody can see of a sealed file and, with a task, whether it fits."""
    try:
        data = read_bounded(path)
        head = Head.from_json(Container.unpack(data).header)
    except InputError as error:
        raise InputError(f"{path} is no sealed file that can be read: {error}.", path) from None
    reason = ""
    try:
        _ = Sealed.decode(data, task) if task else None
    except InputError as error:
        reason = str(error)
    return {
        "file": str(path),
        "bytes": len(data),
        "codec": CODEC,
        "client": head.client,
        "task": head.task.id,
        "signed": bool(head.signature),
        "privacy": asdict(head.privacy) if head.privacy else None,
        "fits": {"task": task.id, "fits": not reason, "reason": reason} if task else None,
    }
