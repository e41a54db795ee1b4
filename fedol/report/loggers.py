"""Observers that write: JSON lines for programs, and TensorBoard, an extra that is imported only here."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import IO, Any

from fedol.errors import FedolError
from fedol.progress import Observer
from fedol.runs.folder import read_summary
from fedol.training import Epoch


class Events(Observer):
    """Writes to a stream that is open; times are seconds since it was made."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._began, self._lock = stream, time.monotonic(), Lock()

    def stage(self, name: str, epochs: int) -> None:
        """``{"event": "stage", "stage": ..., "epochs": ...}``."""
        self._write("stage", stage=name, epochs=epochs)

    def epoch(self, epoch: Epoch) -> None:
        """``{"event": "epoch", "job": ..., "epoch": ..., "of": ..., "loss": ...}``."""
        self._write("epoch", job=epoch.job.name, epoch=epoch.epoch, of=epoch.job.recipe.epochs, loss=epoch.loss)

    def finished(self, folder: Path) -> None:
        """``{"event": "finished", "folder": ...}``."""
        self._write("finished", folder=str(folder))

    def _write(self, event: str, **values: Any) -> None:
        with self._lock:
            line = {"event": event, "seconds": round(time.monotonic() - self._began, 3), **values}
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()


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
