"""What a client sends, once: its predictions on the public set, in a file that says what it belongs to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from fedol.arrays import Array, probabilities, to_tensor
from fedol.errors import InputError
from fedol.files import write_atomically
from fedol.task import Task

SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Knowledge:
    """One client's log-probabilities on the public set, float32 [samples, classes]."""

    log_probs: Tensor
    task: str  # the id of the task it answers; empty where there is none
    client: str

    @classmethod
    def from_probabilities(cls, probs: Array, task: Task | None = None, client: str = "client") -> Knowledge:
        """Knowledge around any ``predict_proba``: one distribution per public sample."""
        checked = probabilities(probs, 2, f"{client}'s probabilities").float().cpu()
        # The logarithm of an exact zero is kept finite: e^-87 is zero for every purpose here.
        return cls._of(checked.clamp_min(torch.finfo(torch.float32).tiny).log(), task, client)

    @classmethod
    def from_logits(cls, logits: Array, task: Task | None = None, client: str = "client") -> Knowledge:
        """Knowledge from a network's raw outputs or from log-probabilities (softmax tells them not apart)."""
        tensor = to_tensor(logits, f"{client}'s logits").float().cpu()
        if tensor.dim() != 2 or not tensor.numel():
            raise InputError(
                f"{client}'s logits must have the shape [samples, classes], but have {list(tensor.shape)}."
            )
        if not torch.isfinite(tensor).all():
            raise InputError(f"{client}'s logits hold NaN or an infinity.")
        return cls._of(torch.log_softmax(tensor, 1), task, client)

    @classmethod
    def _of(cls, log_probs: Tensor, task: Task | None, client: str) -> Knowledge:
        if task is not None and log_probs.shape != (task.samples, len(task.classes)):
            raise InputError(
                f"{client} predicts {list(log_probs.shape)}, but the task has {task.samples} public samples "
                f"and {len(task.classes)} classes."
            )
        return cls(log_probs, "" if task is None else task.id, client)

    def probabilities(self) -> Tensor:
        """The distributions, float32 [samples, classes]."""
        return self.log_probs.softmax(1)

    def save(self, path: str | Path) -> int:
        """Write the file and return its size: the bytes that this client uploads."""
        header = {"schema": SCHEMA, "task": self.task, "client": self.client, "codec": "float32"}
        data = safetensors.torch.save({"log_probs": self.log_probs.contiguous()}, {"fedol": json.dumps(header)})
        write_atomically(Path(path), data)
        return len(data)

    @classmethod
    def load(cls, path: str | Path, task: Task | None = None) -> Knowledge:
        """Read a file and check that it is one, and that it answers ``task``."""
        path = Path(path)
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                header: dict[str, Any] = json.loads((file.metadata() or {})["fedol"])
                log_probs = file.get_tensor("log_probs")
        except (OSError, KeyError, ValueError, safetensors.SafetensorError) as error:
            raise InputError(f"{path} is not a readable knowledge file: {error}.") from None
        if header.get("schema") != SCHEMA:
            raise InputError(f"{path} has the schema {header.get('schema')}, but this version reads {SCHEMA}.")
        if task is not None and header["task"] != task.id:
            raise InputError(
                f"{path} answers the task {header['task'] or '(none)'}, not {task.id}: make it again for this one."
            )
        knowledge = cls.from_logits(log_probs, task, header["client"])
        return cls(knowledge.log_probs, header["task"], header["client"])
