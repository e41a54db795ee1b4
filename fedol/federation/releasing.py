"""Looking at a file before it leaves: what it gives away, which private samples it answers on, and attacks on it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedol import __version__
from fedol.data import Labelled
from fedol.data.duplicates import duplicates
from fedol.data.samples import Samples
from fedol.errors import InputError
from fedol.federation.client import client_data
from fedol.federation.outputs import Outputs
from fedol.federation.predictors import Asked, open_model, recipe_of
from fedol.federation.record import Record, codec_of, note_of, now
from fedol.federation.taskfolder import TaskFolder
from fedol.files import read_json, write_json
from fedol.knowledge import Knowledge
from fedol.knowledge.container import read_bounded
from fedol.knowledge.inspection import inspect
from fedol.knowledge.task import Task
from fedol.model import ServerModel
from fedol.privacy.audit import audit
from fedol.privacy.file_attack import attack_file
from fedol.privacy.leakage import variation
from fedol.secret.sealed import look_at
from fedol.training import OnEpoch, Recipe

REVEALS = ("entropy", "class_mix", "mean_probability", "ratios", "held")  # parts of an inspection


@dataclass(frozen=True)
class Model:
    """The model behind a file, to be attacked, too: by how many shadow models, and what its outputs are."""

    spec: str
    shadows: int = 0
    outputs: Outputs = ""
    trust_code: bool = False


def looked_at(
    file: Path,
    folder: TaskFolder,
    data: str,
    purpose: str = "",
    model: Model | None = None,
    public: Path | None = None,
    on_epoch: OnEpoch = lambda epoch: None,
) -> Record:
    """The record of a file, not yet approved: ``data`` are those that its model was trained on, with test samples."""
    task = folder.task
    sent = read_bounded(file, task.limit)
    sealed = task.secret is not None
    knowledge = None if sealed else Knowledge.load(file, task)
    seen = look_at(file, task) if sealed else inspect(file, task)
    if sealed and not seen["fits"]["fits"]:
        raise InputError(f"{file} is refused: {seen['fits']['reason']}.", file)
    members, others = client_data(data, task)
    shared = folder.samples(public)
    found = duplicates(members.samples, shared)
    made, attacks, mix = _note(file, sent), dict[str, Any](), dict[str, float]()
    if knowledge is not None and not task.findings:  # attacks are on one class a sample
        attacks |= attack_file(knowledge, members, others, found, duplicates(others.samples, shared))
        mix = _mix(seen["mean_probability"], members, task)
    if model is not None and not task.findings:
        release = made["release"] if made else None
        codec = task.codec if sealed else seen["codec"]
        attacks |= _of_model(model, task, members, others, shared, codec, release, on_epoch)
    about = {
        "schema": 1,
        "file": {"name": file.name, "sha256": hashlib.sha256(sent).hexdigest(), "bytes": len(sent)}
        | {"client": seen["client"], "codec": codec_of(sent), "signed": seen["signed"], "sealed": sealed},
        "task": {"name": task.name, "id": task.id, "public": task.fingerprint},
        "purpose": purpose or f"To train one server model for the task {task.name} by a single upload.",
        "date": now(),
        "fedol": __version__,
        "made": made,
        "model": model.spec if model else made["model"] if made else None,
        "data": {"samples": len(members), "held_out": len(others), "fingerprint": members.samples.fingerprint},
        "reveals": {name: seen.get(name) for name in REVEALS},
        "label_mix_error": mix or None,
        "duplicates": found.as_json(),
        "membership": attacks,
        "privacy": seen["privacy"],
    }
    return Record(file, about)


def noted(file: Path, data: bytes, model: str, release: str | None) -> None:
    """Keep how a file was made: a release by noise cannot be told from the file."""
    path = Path(model)
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    note = {"sha256": hashlib.sha256(data).hexdigest(), "model": model, "model_sha256": content, "release": release}
    write_json(note_of(file), {**note, "date": now(), "fedol": __version__}, private=True)


def ro_crate(record: Record) -> dict[str, Any]:
    """The record in the words of RO-Crate 1.1 and schema.org: what an archive makes ``ro-crate-metadata.json`` of."""
    about = record.about
    file, who = about["file"], record.approval
    main: dict[str, Any] = {
        "@id": file["name"],
        "@type": "File",
        "name": f"Predictions of {file['client']} for the task {about['task']['name']}",
        "contentSize": file["bytes"],
        "sha256": file["sha256"],
        "encodingFormat": "application/vnd.safetensors",
        "dateModified": about["date"],
    }
    making = {
        "@id": "#making",
        "@type": "CreateAction",
        "name": about["purpose"],
        "result": {"@id": file["name"]},
        "instrument": {"@id": "#fedol"},
        "endTime": about["made"]["date"] if about["made"] else about["date"],
    }
    fedol = {"@id": "#fedol", "@type": "SoftwareApplication", "name": "FedOL", "version": about["fedol"]}
    graph = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
            "about": {"@id": "./"},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": main["name"],
            "description": about["purpose"],
            "datePublished": who["date"] if who else about["date"],
            "hasPart": [{"@id": file["name"]}],
            "mentions": [{"@id": "#making"}],
        },
        main,
        making,
        fedol,
    ]
    if who:
        main["accountablePerson"] = {"@id": f"#{who['key'][:16]}"}
        graph.append({"@id": f"#{who['key'][:16]}", "@type": "Person", "name": who["name"], "identifier": who["key"]})
    return {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph}


def _note(file: Path, sent: bytes) -> dict[str, Any] | None:
    """How this very file was made, where ``noted`` says so."""
    if not note_of(file).exists():
        return None
    advice = "make the file again"
    note = read_json(note_of(file), advice)
    if not isinstance(note, dict) or not {"sha256", "release", "model", "date"} <= note.keys():
        raise InputError(f"{note_of(file)} does not say how the file was made; {advice}.")
    return note if note["sha256"] == hashlib.sha256(sent).hexdigest() else None


def _mix(told: dict[str, float], members: Labelled, task: Task) -> dict[str, float]:
    """How far off the class mix is that the file's mean prediction tells, and that of guessing evenly."""
    true = np.bincount(members.y, minlength=len(task.classes)) / len(members)
    seen = np.array([told[name] for name in task.classes])
    return {"told": variation(seen, true), "guessed": variation(np.full(len(true), 1 / len(true)), true)}


def _of_model(
    model: Model,
    task: Task,
    members: Labelled,
    others: Labelled,
    shared: Samples,
    codec: str,
    release: str | None,
    on_epoch: OnEpoch,
) -> dict[str, Any]:
    """The audit of the model behind a file: what the file would say, were the private samples among the public ones."""
    opened = open_model(model.spec, model.trust_code)
    asked = opened if isinstance(opened, ServerModel) else Asked(model.spec, opened, task, model.outputs)
    kept = recipe_of(opened)
    if model.shadows and kept is None:
        raise InputError(f"{model.spec} does not say how it was trained, so no shadows can be; leave --shadows out.")
    found = audit(
        asked, members, others, shared, kept or Recipe(), codec, model.shadows, on_epoch=on_epoch, release=release
    )
    return {f"the model's {name}": leak for name, leak in found["membership"].items()}


def kept(record: Record) -> dict[str, Any]:
    """What is written beside the file."""
    return {"about": record.about, "approval": record.approval, "ro_crate": ro_crate(record)}
