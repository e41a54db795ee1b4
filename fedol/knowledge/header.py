"""The header of a knowledge file, and whether a task admits it: all that is decided before the body is unpacked."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedol.errors import InputError
from fedol.knowledge import codecs, signing
from fedol.knowledge.task import Task, TaskRef
from fedol.models.held import sound
from fedol.text import MOST, check_name, printable

TRAINING_EXAMPLE = (
    "adding or removing any one training example: it bounds what the model, and therefore these predictions, "
    "reveal about whether it was there"
)
PUBLIC_LABEL = (
    "the reported class of each public image by itself (randomised response); not the training data, and over "
    "many images the guarantees add up"
)


@dataclass(frozen=True)
class Guarantee:
    """(ε, δ)-differential privacy, and with respect to what. It is the client's own word: nobody else can check it."""

    epsilon: float
    delta: float
    covers: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0 and 0 <= self.delta < 1):
            raise InputError(f"epsilon must be positive and delta in [0, 1), but are {self.epsilon} and {self.delta}.")

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.3g}, δ = {self.delta:.3g}; it covers {printable(self.covers)}."

    def and_then(self, other: Guarantee) -> Guarantee:
        """What still holds of the same data for both results together: epsilons and deltas add up."""
        return dataclasses.replace(self, epsilon=self.epsilon + other.epsilon, delta=self.delta + other.delta)

    @classmethod
    def from_json(cls, values: Any) -> Guarantee | None:
        """From what a stranger's header says; None where it says nothing."""
        if values is None:
            return None
        good = isinstance(values, dict) and set(values) == {"epsilon", "delta", "covers"}
        if not good or not all(type(values[key]) in (int, float) for key in ("epsilon", "delta")):
            raise InputError("its header promises privacy in a way that cannot be read")
        if type(values["covers"]) is not str or len(values["covers"]) > MOST:
            raise InputError("its header promises privacy in a way that cannot be read")
        try:
            return cls(float(values["epsilon"]), float(values["delta"]), values["covers"])
        except (InputError, OverflowError):
            raise InputError("its header promises privacy with numbers that make no sense") from None


@dataclass(frozen=True)
class Ratios:
    """How a client came to its masses (``fedol.core.union``): beside each sample's predictions the body has log m_k."""

    private: int = 0  # n_k, its private samples; 0 where it does not say
    folds: int = 1  # into how many parts the public set was cut, so that no model answers on what it has seen

    @classmethod
    def from_json(cls, values: Any) -> Ratios | None:
        """From what a stranger's header says; None where it sends predictions alone."""
        if values is None:
            return None
        good = isinstance(values, dict) and set(values) == {"private", "folds"}
        if not good or not all(type(n) is int and 0 <= n < 1 << 53 for n in values.values()) or not values["folds"]:
            raise InputError("its header says nothing sensible about its ratios")
        return cls(**values)


SCHEMA = 2
# Values (samples x classes) that are unpacked of a file for which no task says how many there are: each takes some tens
# of bytes of memory. A small file may be a bomb, so it may hold no more than its size makes likely.
MOST_VALUES = 1 << 25
FEW_VALUES, VALUES_PER_BYTE = 1 << 20, 256
MOST_LISTED = 2048  # classes that a header has room for; a client that holds more, and not all, sends all columns


@dataclass(frozen=True)
class Header:
    """What a file says about itself."""

    task: TaskRef
    samples: int
    classes: int
    client: str
    codec: str
    signature: str = ""
    privacy: Guarantee | None = None  # what the client promises
    ratios: Ratios | None = None  # where it sends more than predictions
    held: tuple[int, ...] = ()  # the task's classes that it has columns for, by position, where it lacks some
    findings: int = 0  # of a sample: ``samples`` is then the number of rows, one for each finding of each

    def as_json(self) -> dict[str, Any]:
        """As plain values; without a promise, ratios or findings, or with all classes, there is no entry for it."""
        about = {"held": list(self.held) or None, "findings": self.findings or None}
        entries = {"schema": SCHEMA, **dataclasses.asdict(self), **about}
        return {key: value for key, value in entries.items() if value is not None}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Header:
        """The reverse for whatever a stranger sends: every entry is there and of its type, or an error."""
        if values.get("schema") != SCHEMA:
            raise InputError(f"it has the schema {str(values.get('schema'))[:20]}, but this version reads {SCHEMA}")
        task = values["task"] if isinstance(values.get("task"), dict) else {}
        ref: list[Any] = [task.get(field.name) for field in dataclasses.fields(TaskRef)]
        texts: list[Any] = [values.get(key) for key in ("client", "codec", "signature")]
        counts = [values.get(key) for key in ("samples", "classes")]
        if not all(type(text) is str for text in [*ref, *texts]) or not all(type(n) is int and n > 0 for n in counts):
            raise InputError("its header lacks an entry or has one of a wrong type")
        check_name(values["client"])
        header = cls(TaskRef(*ref), values["samples"], values["classes"], *texts)
        privacy, ratios = Guarantee.from_json(values.get("privacy")), Ratios.from_json(values.get("ratios"))
        held, findings = _held(values, header.classes), _findings(values, header)
        return dataclasses.replace(header, privacy=privacy, ratios=ratios, held=held, findings=findings)

    @property
    def columns(self) -> int:
        """How many classes the body has predictions for."""
        return len(self.held) or self.classes

    @property
    def packing(self) -> codecs.Codec:
        """How the predictions are packed."""
        return codecs.find(self.codec) if self.columns > 1 else codecs.Certain(self.codec)

    def message(self, body: bytes) -> bytes:
        """What a signature covers: every other entry of the header, and the body."""
        entries = dataclasses.replace(self, signature="").as_json()
        return b"fedol knowledge\n" + json.dumps(entries, sort_keys=True).encode() + hashlib.sha256(body).digest()


def _held(values: dict[str, Any], classes: int) -> tuple[int, ...]:
    """The classes that a stranger's header lists; none where it has all."""
    if "held" not in values:
        return ()
    held = values["held"]
    if not (isinstance(held, list) and len(held) <= MOST_LISTED and sound(held, classes)):
        raise InputError(f"its list of classes must name some of the {classes:,}, each once and in their order")
    return tuple(held)


def _findings(values: dict[str, Any], header: Header) -> int:
    """How many findings a stranger's header says a sample has; none where a sample is of one class."""
    findings = values.get("findings", 0)
    if findings == 0 and "findings" not in values:
        return 0
    if type(findings) is not int or findings < 1 or header.samples % findings or header.classes != 2:
        raise InputError("its header says nothing sensible about its findings")
    return findings


def likely_values(size: int) -> int:
    """How many values are unpacked of a file of so many bytes, where no task says how many there are."""
    return min(MOST_VALUES, max(FEW_VALUES, VALUES_PER_BYTE * size))


def admit(header: Header, body: bytes, task: Task | None, most: int | None = None) -> codecs.Codec:
    """The codec to read the body with, or an error: which task, whose file, which codec, how large.

    Where there is no task, ``most`` values are unpacked, or as many as its size makes likely.
    """
    if task is not None:
        if task.secret:
            raise InputError(
                "it is not sealed, but the task's answers are summed in secret; make it again for the task"
            )
        _same_task(header, task)
        check_welcome(header.client, header.codec, bool(header.signature), task)
        key = task.clients.get(header.client)
        if key is not None and not signing.verify(key, header.signature, header.message(body)):
            raise InputError(f"its signature is not by the key that the task lists for '{header.client}'")
    elif header.samples * header.classes > (limit := likely_values(len(body)) if most is None else most):
        raise InputError(
            f"it claims {header.samples:,} x {header.classes:,} predictions in {len(body):,} bytes, but at most "
            f"{limit:,} values are unpacked here; give its task"
        )
    codec = header.packing
    expected = codecs.size(codec, header.samples, header.columns, header.ratios is not None)
    if expected is not None and len(body) != expected:
        raise InputError(f"its body has {len(body):,} bytes instead of {expected:,}")
    return codec


def _same_task(header: Header, task: Task) -> None:
    ref = task.ref
    if header.findings != len(task.findings):
        wanted = f"{len(task.findings)} findings of each sample" if task.findings else "one class of each sample"
        raise InputError(f"it does not answer what the task asks: {wanted}; make it for the task")
    if header.task.classes != ref.classes or header.classes != len(task.classes):
        raise InputError("it was made for another list of classes, or another order of them; use the task's")
    if header.task.public != ref.public or header.samples != task.rows:
        raise InputError("it was made on other public samples, or another order of them; use the task's")
    if header.task.id != ref.id:
        raise InputError(f"it answers another task ({header.task.id or 'none'}, not {ref.id}); make it again for this")


def check_welcome(client: str, codec: str | None, signed: bool, task: Task) -> None:
    """An error where the task does not take this client's file, signed or not, packed by this codec, if by one."""
    if task.clients and client not in task.clients:
        raise InputError(f"the task does not list the client '{client}'; use the name that it lists")
    if task.clients.get(client) is not None and not signed:
        raise InputError(f"it is not signed, but the task has a key for '{client}'; sign it with that key")
    if codec is not None and task.codecs and codec not in task.codecs:
        raise InputError(f"it uses the codec {codec[:40]}, but the task accepts {', '.join(task.codecs)}")


def check_sender(client: str, codec: str, key: Path | None, task: Task) -> None:
    """Refuse what the server would refuse once it is sent, and what cannot be sent, before a client works for it."""
    check_name(client)
    codecs.find(codec)
    own = None if key is None else signing.public_key(key)
    try:
        check_welcome(client, codec, key is not None, task)
    except InputError as error:
        raise InputError(f"The server would not take your file: {error}.") from None
    listed = task.clients.get(client)
    if own is not None and listed is not None and own != listed:
        raise InputError(f"{key} is not the key that the task lists for '{client}'; sign with that.")
