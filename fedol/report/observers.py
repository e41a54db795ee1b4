"""Observers beside the terminal's bars: JSON lines for programs and a notebook's table; and which one to show."""

from __future__ import annotations

import html
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO, Any

from fedol.errors import FedolError
from fedol.progress import NOBODY, Observer
from fedol.report.live import LiveProgress
from fedol.text import clock
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


EVERY = 0.2  # seconds between two pictures: each is a message to the browser


class Notebook(Observer):
    """``fedol.run(..., observer=Notebook())``: the stage, the time left, and each training's epoch and loss."""

    def __init__(self) -> None:
        try:
            from IPython.display import HTML, display
        except ImportError:
            raise FedolError("A notebook's display needs IPython: pip install ipython.") from None
        self._picture: Callable[[str], Any] = HTML
        self._handle = display(HTML(""), display_id=True)  # type: ignore[no-untyped-call]
        self._lock = Lock()  # epochs are told from the threads that train
        self._stage, self._total, self._done, self._began, self._shown = "", 0, 0, 0.0, 0.0
        self._jobs: dict[str, Epoch] = {}

    def stage(self, name: str, epochs: int) -> None:
        """A new stage has a table of its own."""
        with self._lock:
            self._stage, self._total, self._done, self._began = name, epochs, 0, time.monotonic()
            self._jobs.clear()
            self._show()

    def epoch(self, epoch: Epoch) -> None:
        """A row per training that is under way."""
        with self._lock:
            self._done += epoch.steps
            self._jobs[epoch.job.name] = epoch
            if epoch.epoch == epoch.job.recipe.epochs:
                del self._jobs[epoch.job.name]
            if time.monotonic() - self._shown >= EVERY or self._done == self._total:
                self._show()

    def finished(self, folder: Path) -> None:
        """The table ends as a line that says where the run is."""
        if self._handle is not None:
            self._handle.update(self._picture(f"Finished: <code>{html.escape(str(folder))}</code>"))

    def _show(self) -> None:
        self._shown = time.monotonic()
        if self._handle is not None:  # None outside of a notebook
            self._handle.update(self._picture(self._table()))

    def _table(self) -> str:
        left = (time.monotonic() - self._began) * (self._total - self._done) / self._done if self._done else None
        rows = [(self._stage, self._done, self._total, "" if left is None else f"{clock(left)} left")]
        for name, seen in self._jobs.items():
            rows.append((name, seen.epoch, seen.job.recipe.epochs, f"loss {seen.loss:.3f}"))
        cells = (
            f"<tr><td>{html.escape(name)}</td><td><progress value='{done}' max='{total}'></progress></td>"
            f"<td>{done}/{total}</td><td>{note}</td></tr>"
            for name, done, total, note in rows
        )
        return f"<table>{''.join(cells)}</table>"


def in_notebook() -> bool:
    """Whether what is shown goes below a notebook's cell."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def display(wanted: bool) -> Iterator[Observer]:
    """What shows how far a run is: a table in a notebook, bars on a terminal, elsewhere a line now and then."""
    if not wanted:
        yield NOBODY
    elif in_notebook():
        yield Notebook()
    else:
        with LiveProgress() as bars:
            yield bars
