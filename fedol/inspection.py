"""What a knowledge file holds and gives away: a client's last look before it sends it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fedol.container import check_size
from fedol.errors import InputError
from fedol.knowledge import Knowledge
from fedol.task import Task
from fedol.voting import shannon

BINS = 10


def inspect(path: Path, task: Task | None = None) -> dict[str, Any]:
    """Size, codec, an entropy histogram, the predicted class mix and, with a task, whether it fits."""
    knowledge, header, data = Knowledge.read(path)
    probs = knowledge.probabilities().double()
    entropy = shannon(probs).numpy()
    edges = np.linspace(0, np.log(header.classes), BINS + 1)
    predicted = np.bincount(probs.argmax(1).numpy(), minlength=header.classes) / header.samples
    names = task.classes if task and len(task.classes) == header.classes else [str(c) for c in range(header.classes)]
    order = np.argsort(-predicted, kind="stable")
    return {
        "file": str(path),
        "bytes": len(data),
        "float32_bytes": 4 * header.samples * header.classes,
        "codec": header.codec,
        "client": header.client,
        "task": header.task.id,
        "signed": bool(header.signature),
        "privacy": asdict(header.privacy) if header.privacy else None,
        "samples": header.samples,
        "classes": header.classes,
        "entropy": {
            "mean": float(entropy.mean()),
            "edges": edges.tolist(),
            "counts": np.histogram(entropy.clip(0, edges[-1]), edges)[0].tolist(),
        },
        "class_mix": {names[c]: float(predicted[c]) for c in order},
        "mean_probability": {names[c]: float(probs.mean(0)[c]) for c in order},
        "fits": _fits(data, task),
    }


def _fits(data: bytes, task: Task | None) -> dict[str, Any] | None:
    """Whether the task admits it, and if not, why."""
    if task is None:
        return None
    try:
        check_size(data, task.limit)
        Knowledge.decode(data, task)
    except InputError as error:
        return {"task": task.id, "fits": False, "reason": str(error)}
    return {"task": task.id, "fits": True, "reason": ""}
