"""What a knowledge file holds and gives away: a client's last look before it sends it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedol.core.voting import shannon
from fedol.errors import InputError
from fedol.knowledge import Knowledge, codecs
from fedol.knowledge.container import Container, read_bounded
from fedol.knowledge.header import Header
from fedol.knowledge.task import Task

BINS = 10
ROWS = 4096  # samples that are looked at at a time


def inspect(path: Path, task: Task | None = None) -> dict[str, Any]:
    """Size, codec, histograms of entropy and mass, the predicted class mix and, with a task, whether it fits.

    Nothing is unpacked that is larger than the task's predictions are or, without a task, than the file's size allows.
    """
    try:
        data = read_bounded(path)
        fits = _fits(data, task)
        most = task.rows * len(task.classes) if task else None
        knowledge, header = Knowledge.decode(data, most=most)
    except InputError as error:
        raise InputError(f"{path} is no knowledge file that can be read: {error}.") from None
    starts = range(0, header.samples, ROWS)
    parts = [knowledge.log_probs[start : start + ROWS].softmax(1) for start in starts]
    entropy = torch.cat([shannon(part.double()) for part in parts]).numpy()
    mean = torch.stack([part.double().sum(0) for part in parts]).sum(0) / header.samples
    top = torch.cat([part.argmax(1) for part in parts]).numpy()
    edges = np.linspace(0, np.log(header.classes), BINS + 1)
    names, predicted = _mix(header, top, task)
    if header.findings:
        mean = torch.cat([part[:, 1] for part in parts]).double().view(-1, header.findings).mean(0)
    order = np.argsort(-predicted, kind="stable")
    return {
        "file": str(path),
        "bytes": len(data),
        "float32_bytes": 4 * header.samples * header.classes,
        "codec": header.codec,
        "rate": codecs.notes(codecs.find(header.codec), Container.unpack(data).body) or None,
        "client": header.client,
        "task": header.task.id,
        "signed": bool(header.signature),
        "privacy": asdict(header.privacy) if header.privacy else None,
        "samples": knowledge.samples,
        "classes": header.classes,
        "findings": header.findings or None,
        "held": None if header.findings else [names[c] for c in header.held] or None,
        "entropy": {
            "mean": float(entropy.mean()),
            "edges": edges.tolist(),
            "counts": np.histogram(entropy.clip(0, edges[-1]), edges)[0].tolist(),
        },
        "class_mix": {names[c]: float(predicted[c]) for c in order},
        "mean_probability": {names[c]: float(mean[c]) for c in order},
        "ratios": _ratios(knowledge),
        "fits": fits,
    }


def _mix(header: Header, top: np.ndarray, task: Task | None) -> tuple[list[str], np.ndarray]:
    """The classes' names and how often each is predicted; of findings, how often each is said to be there."""
    if header.findings:
        known, found = task.findings if task else (), top.reshape(-1, header.findings).mean(0)
    else:
        known = task.classes if task else ()
        found = np.bincount(top, minlength=header.classes) / header.samples
    return list(known) if len(known) == len(found) else [str(c) for c in range(len(found))], found


def _ratios(knowledge: Knowledge) -> dict[str, Any] | None:
    """How far each sample looks like the client's data: m_k(x), whose mean should be n_k / n_u; None without masses."""
    if knowledge.log_mass is None or knowledge.ratios is None:
        return None
    logs, private = knowledge.log_mass.double().numpy(), knowledge.ratios.private
    counts, edges = np.histogram(logs, BINS)
    return {
        "private": private or None,
        "folds": knowledge.ratios.folds,
        "mean_mass": float(np.exp(logs).mean()),
        "expected": private / knowledge.samples if private else None,
        "over_expected": knowledge.mean_mass,
        "log_mass": {"edges": edges.tolist(), "counts": counts.tolist()},
    }


def _fits(data: bytes, task: Task | None) -> dict[str, Any] | None:
    """Whether the task admits it, and if not, why."""
    if task is None:
        return None
    try:
        Knowledge.decode(data, task)
    except InputError as error:
        return {"task": task.id, "fits": False, "reason": str(error)}
    return {"task": task.id, "fits": True, "reason": ""}
