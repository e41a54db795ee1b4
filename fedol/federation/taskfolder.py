"""A task as a folder that everyone gets a copy of: ``task.json`` and, unless they travel otherwise, the samples."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fedol.core.arrays import Array
from fedol.data.reading import Reading
from fedol.data.samples import Samples, samples
from fedol.data.stored import load_samples, store, stored, told_kind
from fedol.errors import FedolError, InputError
from fedol.files import intact, read_json, write_json
from fedol.knowledge.task import Task
from fedol.knowledge.terms import Terms

SCHEMA = 2
UNSIGNED = 1  # the schema before: its id covered neither keys nor a nonce, so it is read only where nothing is signed
FRESH = "get a fresh copy"


@dataclass(frozen=True)
class TaskFolder:
    """Where a task lies."""

    path: Path
    task: Task
    reading: Reading = field(default_factory=Reading)  # of public rows that travel otherwise

    @classmethod
    def create(cls, path: Path, task: Task, public: Samples | Array | None, reading: Reading = Reading()) -> TaskFolder:
        """Write a new task; without ``public`` only its fingerprint is in it, and what the columns of rows mean."""
        if (path / "task.json").exists():
            raise FedolError(f"{path} holds a task already, which others may have got; choose another folder.")
        if public is not None:
            store(samples(public, "public samples"), path)
        write_json(path / "task.json", {"schema": SCHEMA, "id": task.id, **_plain(task), **_told(reading)})
        return cls(path, task, reading)

    @classmethod
    def open(cls, path: str | Path) -> TaskFolder:
        """Read a task."""
        path = Path(path)
        if not (path / "task.json").exists():
            raise FedolError(f"There is no task in {path}; make one with: fedol task new {path}.")
        values = read_json(path / "task.json", FRESH)
        task = read_task(values, path / "task.json")
        with intact(path / "task.json", FRESH):
            return cls(path, task, Reading.from_json(values.get("reading", {})))

    @classmethod
    def of_run(cls, run: Path) -> TaskFolder:
        """The task that a server's run is about."""
        kept, advice = run / "task.json", "give the folder of another run"
        with intact(kept, advice):
            folder = Path(read_json(kept, advice)["folder"])
        return cls.open(folder)

    def public(self, elsewhere: Path | None = None) -> npt.NDArray[Any]:
        """The public samples as an array: of images, uint8 [N, channels, H, W]."""
        return self.samples(elsewhere).array()

    def samples(self, elsewhere: Path | None = None) -> Samples:
        """The public samples, from the folder or ``elsewhere``: exactly those the task was made of, in their order."""
        place, reading = self._place(elsewhere), replace(self.reading, image_size=self.task.image_size)
        found, _ = load_samples(place, self.task.samples, reading)
        if found.fingerprint != self.task.fingerprint:
            raise FedolError(
                f"The {found.kind} in {place} are not the task's, or not in its order; get the right ones."
            )
        return found

    def kind(self, elsewhere: Path | None = None) -> str:
        """What the public samples are, by as little as tells it."""
        return told_kind(self._place(elsewhere)) or self.samples(elsewhere).kind

    def _place(self, elsewhere: Path | None) -> Path:
        place = elsewhere or stored(self.path)
        if not place.exists():
            raise FedolError(f"The public samples are not in {place}; say where with --public.")
        return place

    def known(self, elsewhere: Path | None = None) -> Samples | None:
        """The public samples likewise; None where there is only their fingerprint."""
        return self.samples(elsewhere) if elsewhere or stored(self.path).exists() else None


def read_task(values: Any, where: Path) -> Task:
    """A task from the values in a ``task.json``."""
    with intact(where, FRESH):
        schema, keys = values["schema"], [key for key in values["clients"].values() if key is not None]
        if schema == UNSIGNED and keys:
            raise FedolError(
                f"{where} was made by an earlier version, whose signed files could be used again elsewhere; make the "
                "task again."
            )
        if schema not in (SCHEMA, UNSIGNED):
            raise FedolError(f"{where} has the schema {schema}, but this version reads {SCHEMA}.")
        task = Task(
            classes=tuple(values["classes"]),
            samples=int(values["samples"]),
            fingerprint=str(values["fingerprint"]),
            name=str(values["name"]),
            codecs=tuple(values["codecs"]),
            max_bytes=int(values["max_bytes"]),
            clients=dict(values["clients"]),
            nonce=str(values.get("nonce", "")),
            image_size=None if (size := values.get("image_size")) is None else int(size),
            secret=Terms.from_json(values.get("secret")),
            publish_targets=values.get("publish_targets") is True,
            findings=tuple(values.get("findings", ())),
        )
        if task.id != values["id"]:
            raise InputError("its id does not fit its content")
        return task


def _plain(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "classes": list(task.classes),
        "samples": task.samples,
        "fingerprint": task.fingerprint,
        "codecs": list(task.codecs),
        "max_bytes": task.max_bytes,
        "clients": dict(task.clients),
        "nonce": task.nonce,
        **({"image_size": task.image_size} if task.image_size else {}),
        **({"secret": task.secret.as_json()} if task.secret else {}),
        **({"publish_targets": True} if task.publish_targets else {}),
        **({"findings": list(task.findings)} if task.findings else {}),
    }


def _told(reading: Reading) -> dict[str, Any]:
    told = reading.as_json()
    return {"reading": told} if told else {}
