"""The server's targets as a file of the run, where the task allows it: what a site may train its own model on, too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from fedol.errors import FedolError, InputError
from fedol.files import intact, read_tensors, write_tensors
from fedol.knowledge.task import Task
from fedol.methods import Targets

FILE = "targets.safetensors"


@dataclass(frozen=True, eq=False)
class Published:
    """What the server was taught about the public samples, before it was softened, and by which class prior."""

    targets: npt.NDArray[np.float32]  # [N, C], distributions
    prior: npt.NDArray[np.float64]  # [C]
    classes: tuple[str, ...]
    public: str  # fingerprint of the public samples
    task: str

    @classmethod
    def of(cls, targets: Targets, task: Task) -> Self:
        """Those of an iteration."""
        sharp = targets.sharp.float().numpy()
        return cls(sharp, targets.prior.double().numpy(), task.classes, task.fingerprint, task.id)

    def write(self, run: Path) -> None:
        """Into a run's folder."""
        about = {"prior": self.prior.tolist(), "classes": self.classes, "public": self.public, "task": self.task}
        write_tensors(run / FILE, {"targets": torch.from_numpy(self.targets)}, {"targets": about})

    @classmethod
    def read(cls, run: Path) -> Self:
        """From a run's folder, or one that its files were copied to."""
        path = run / FILE
        if not path.exists():
            raise FedolError(
                f"The server has published no targets in {run}; its task must allow that: fedol task new "
                "--publish-targets."
            )
        with intact(path, "get the run's own again"):
            tensors, header = read_tensors(path)
            about, found = header["targets"], tensors["targets"].float().numpy()
            prior, classes = np.array(about["prior"], dtype=np.float64), tuple(map(str, about["classes"]))
            if found.ndim != 2 or found.shape[1] != len(classes) or prior.shape != (len(classes),):
                raise InputError("its targets, prior and classes do not fit together")
            if not (np.isfinite(found).all() and (found >= 0).all() and np.isfinite(prior).all()):
                raise InputError("its targets are no probabilities")
            return cls(found, prior, classes, str(about["public"]), str(about["task"]))
