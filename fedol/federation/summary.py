"""The result of a server run as plain values: who took part, who was refused, what came of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from fedol.config import ServerConfig
from fedol.data import Labelled
from fedol.data.reading import Reading, load_test
from fedol.data.samples import Samples, check_alike
from fedol.federation.client import task_classes
from fedol.federation.roster import Roster
from fedol.federation.taskfolder import TaskFolder
from fedol.files import read_json
from fedol.knowledge.task import Task
from fedol.model import ServerModel, load
from fedol.models import describe, size_of
from fedol.runs.evaluation import scored
from fedol.runs.provenance import versions
from fedol.secret.noise import guarantee

WITHDRAWN = "withdrawn.json"  # of whom a run knows nothing more: hashes of a name and of a file


def test_set(path: Path, task: Task, public: Samples) -> Labelled:
    """Of rows, an .npz file or a folder of images by class: in the task's classes, and like the public samples."""
    data = load_test(path, Reading().under(public))
    index = task_classes(data, task)
    check_alike(data.test.samples, public, f"The test {data.test.samples.kind} in {path}")
    return Labelled(data.test.samples.like(public), index[data.test.y])


def federation_summary(
    task: Task,
    config: ServerConfig,
    roster: Roster,
    server: ServerModel,
    public: Samples,
    start: Path | None,
    test: Labelled | None,
) -> dict[str, Any]:
    """What ``summary.json`` holds. ``test`` are labelled samples, where there are any; nothing was chosen by them."""
    log_probs = server.predict_log_proba(public)
    summary: dict[str, Any] = {
        "task": {
            "name": task.name,
            "id": task.id,
            "samples": task.samples,
            "classes": list(task.classes),
            **({"findings": list(task.findings)} if task.findings else {}),
        },
        "config": config.as_json(),
        "clients": [{"client": name, **asdict(arrival)} for name, arrival in roster.clients.items()],
        "refused": _refused(roster),
        "closed": roster.closed,
        "server": {"model": describe(config.server_model), **size_of(server.module)},
        "history": server.history,
        "public_class_mix": _mix(log_probs, task),
        "test": _score(server, test),
        "versions": versions("numpy", "safetensors", "zstandard"),
        "device": str(server.device),
    }
    if start is not None:
        before = load(start, config.server_model)
        before.device = server.device
        classes = before.predict_log_proba(public).argmax(1)  # of findings, no or yes
        summary["changed"] = {
            "from": str(start),
            "new_clients": [n for n, arrival in roster.clients.items() if arrival.sha256 in config.added],
            "public_labels_changed": (classes != log_probs.argmax(1)).double().mean().item(),
            "coverage": [before.history[-1].get("coverage"), server.history[-1].get("coverage")],
            "test": [_score(before, test), _score(server, test)],
        }
    return summary


def about_task(folder: TaskFolder) -> dict[str, Any]:
    """What a run keeps of its task: enough to know it again wherever it lies, and no client's name."""
    task = folder.task
    known = {"name": task.name, "public": task.fingerprint, "samples": task.samples, "classes": list(task.classes)}
    return {"id": task.id, "folder": str(folder.path.resolve()), **known}


def supplement(out: Path, task: Task) -> dict[str, Any]:
    """What is to be said of some runs only: how clients were summed in secret, and who has withdrawn, by hashes."""
    found: dict[str, Any] = {}
    if task.secret:
        promise = guarantee(task)
        found["secret"] = {"helpers": list(task.secret.helpers), "privacy": str(promise) if promise else ""}
    if (withdrawn := out / WITHDRAWN).exists():
        found["withdrawn"] = read_json(withdrawn)
    return found


def _refused(roster: Roster) -> list[dict[str, str]]:
    """Every refused file with its reason; of a flood, the first ones and how many more."""
    named = [{"file": file, "reason": reason} for file, reason in roster.refused.items()]
    more = {"file": f"{roster.unnamed:,} more", "reason": f"beyond {len(named)}, refused files are counted only"}
    return [*named, more] if roster.unnamed else named


def _mix(log_probs: torch.Tensor, task: Task) -> dict[str, float]:
    """The share of the public samples that the model puts into each class, or finds to have each finding."""
    if task.findings:
        found = log_probs.argmax(1).view(-1, len(task.findings)).double().mean(0)
        return dict(zip(task.findings, found.tolist(), strict=True))
    counts = torch.bincount(log_probs.argmax(1), minlength=len(task.classes)) / len(log_probs)
    return dict(zip(task.classes, counts.tolist(), strict=True))


def _score(model: ServerModel, test: Labelled | None) -> dict[str, Any] | None:
    if test is None:
        return None
    return {**scored(model, test), "samples": len(test)}
