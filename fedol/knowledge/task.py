"""What all parties agree on before anyone trains: the public samples, in their order, and the classes, in theirs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fedol.core.arrays import Array
from fedol.data.decoding import check_size
from fedol.data.findings import ANSWERS, check_findings
from fedol.data.imagefiles import ImageFiles
from fedol.data.samples import Samples, samples
from fedol.errors import InputError
from fedol.knowledge import codecs, signing
from fedol.knowledge.terms import Terms
from fedol.text import Card, check_name, is_text, printable

OVERHEAD = 32_768  # what a file may be larger than its float32 predictions: header, signature, an unlucky compression
SHORT = 16  # hexadecimal digits of a hash that names something to people


@dataclass(frozen=True)
class TaskRef:
    """What a knowledge file says about the task it answers: enough to name what differs from another."""

    id: str
    public: str  # fingerprint of the public samples
    classes: str  # hash of the class names in their order


NO_TASK = TaskRef("", "", "")


@dataclass(frozen=True, repr=False)
class Task(Card):
    """A federation's common ground.

    Its id changes with its name, any sample or class name, their order, the clients' keys, the nonce and how answers
    are summed in secret. A signature covers the id, so a file that was signed for one federation is of no use in
    another, whatever the two share.
    """

    classes: tuple[str, ...]
    samples: int
    fingerprint: str  # of the public samples: content and order
    name: str = ""  # sets apart two federations on the same samples: knowledge for one is refused by the other
    codecs: tuple[str, ...] = ()  # the accepted ones; empty: any
    max_bytes: int = 0  # of one knowledge file; 0: what float32 needs
    clients: Mapping[str, str | None] = field(default_factory=dict)  # the admitted ones, with their keys; empty: anyone
    nonce: str = ""  # drawn anew for each federation between organisations; a simulation has none, so that it repeats
    image_size: int | None = None  # that the public image files are made; without it all have one size
    secret: Terms | None = None  # how answers are summed in secret; without it a client's file is open to the server
    publish_targets: bool = False  # whether the server may hand back what it was taught about the public samples
    findings: tuple[str, ...] = ()  # where a sample may have several: the classes are then no and yes

    def __post_init__(self) -> None:
        if len(set(self.classes)) != len(self.classes) or len(self.classes) < 2:
            raise InputError("The class names of a task must be distinct, and there must be at least two.")
        if "" in self.classes:
            place = self.classes.index("") + 1
            raise InputError(f"Class {place} of {len(self.classes)} has no name; name it or leave it out.")
        if self.findings and (self.classes != ANSWERS or self.secret):
            raise InputError("A task of findings has the classes no and yes, and answers that the server may see.")
        if self.findings:
            check_findings(self.findings, "The task")
        for name in (self.name, self.nonce, *self.classes, *self.findings):
            if not is_text(name):
                raise InputError(f"The name '{printable(name, 80)}' in a task is not text; write it in UTF-8.")
        for key in self.clients.values():
            if key is not None:
                signing.check_public_key(key)
        if self.samples < 1:
            raise InputError("A task needs at least one public sample.")
        if self.image_size is not None:
            check_size(self.image_size)
        if self.max_bytes < 0:
            raise InputError(f"The largest knowledge file cannot have {self.max_bytes} bytes.")
        for codec in self.codecs:
            codecs.find(codec)
        for client in self.clients:
            check_name(client)
        if len({client.casefold() for client in self.clients}) < len(self.clients):  # file names on some systems
            raise InputError("Two clients of a task have the same name but for capital letters; name them apart.")
        if self.secret and (len(self.clients) < self.secret.least or None in self.clients.values()):
            raise InputError(
                f"A task with helpers must list at least {self.secret.least} clients, each with its key: "
                "--client NAME=PUBLIC_KEY."
            )

    @classmethod
    def of(cls, public: Samples | Array, classes: Sequence[str], name: str = "", findings: Sequence[str] = ()) -> Task:
        """The task of these public samples (an array: images, uint8 [N, channels, H, W]) and class names.

        With ``findings`` a sample may have several of these, and the classes are no and yes.
        """
        shared = samples(public, "public samples")
        size = shared.form.size if isinstance(shared, ImageFiles) else None
        about = tuple(classes), len(shared), shared.fingerprint, name
        return cls(*about, image_size=size, findings=tuple(findings))

    def facts(self) -> dict[str, Any]:
        """What is agreed on, counted."""
        secret = {"helpers": len(self.secret.helpers)} if self.secret else {}
        named = {"name": self.name, "id": self.id[:12], "samples": self.samples, "classes": len(self.classes)}
        return {**named, "clients": len(self.clients) or "anyone", **secret}

    @property
    def id(self) -> str:
        """A short name for the agreement itself."""
        return self.digest[:SHORT]

    @cached_property  # a helper asks for it with every client's file, and it covers every client's key
    def digest(self) -> str:
        """The agreement's full hash: who writes two tasks can make their ids alike, but not these."""
        keys = sorted((client, key) for client, key in self.clients.items() if key is not None)
        fresh: list[object] = [self.nonce, keys] if self.nonce or keys else []
        fresh += [self.secret.as_json()] if self.secret else []
        fresh += ["targets"] if self.publish_targets else []
        fresh += [self.findings] if self.findings else []
        return _hash([self.name, self.classes, self.samples, self.fingerprint, *fresh])

    @property
    def ref(self) -> TaskRef:
        """What its knowledge files say about it."""
        return TaskRef(self.id, self.fingerprint, _hash(self.findings or self.classes)[:SHORT])

    @property
    def rows(self) -> int:
        """The rows of an answer: one a sample, or one for each finding of each sample."""
        return self.samples * max(1, len(self.findings))

    @property
    def limit(self) -> int:
        """The most bytes a knowledge file may have."""
        values = self.rows * (len(self.classes) + 1)
        return self.max_bytes or (8 if self.secret else 4) * values + OVERHEAD

    @property
    def codec(self) -> str:
        """What a client uses where it does not choose."""
        return self.codecs[0] if self.codecs and codecs.DEFAULT not in self.codecs else codecs.DEFAULT


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
