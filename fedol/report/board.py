"""Losses and accuracies for TensorBoard, which is an extra and is imported only here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from fedol.errors import FedolError
from fedol.progress import Observer
from fedol.runs.folder import read_summary
from fedol.training import Epoch


class BoardLog(Observer):
    """Writes event files. The folder appears with the first event: until then it is the run's to make."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise FedolError("--tensorboard needs TensorBoard: pip install 'fedol[tensorboard]'.") from None
        self._make: Callable[[], Any] = partial(SummaryWriter, folder)
        self._writer: Any = None
        self._lock = Lock()  # epochs are reported from the threads that train

    def __enter__(self) -> BoardLog:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def epoch(self, epoch: Epoch) -> None:
        """An epoch's loss, a curve per client and server iteration."""
        self._scalar(f"loss/{epoch.job.name}", epoch.loss, epoch.epoch)

    def finished(self, folder: Path) -> None:
        """What is known in the end: every iteration's numbers, and each client's accuracy."""
        summary = read_summary(folder / "summary.json")
        for record in summary["history"]:
            known = {**record, **record["diagnostics"]}
            for name in ("rho", "coverage", "voters", "pseudo_label_accuracy", "test_accuracy", "loss"):
                if isinstance(known.get(name), int | float):
                    self._scalar(f"server/{name}", known[name], record["iteration"])
        for client in summary["clients"]:
            self._scalar("clients/test_accuracy", client["accuracy"], client["client"])

    def _scalar(self, name: str, value: float, step: int) -> None:
        with self._lock:
            if self._writer is None:
                self._writer = self._make()
        self._writer.add_scalar(name, value, step)
