"""Progress as lines of JSON, for programs: one object an event, written as it happens."""

from __future__ import annotations

import json
import time
from pathlib import Path
from threading import Lock
from typing import IO, Any

from fedol.progress import Observer
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
