"""Progress across all cells of a benchmark: how much of the work is done, and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from threading import Lock

from fedol.bench.cells import Cell
from fedol.bench.summary import label
from fedol.text import clock, shown
from fedol.training import Epoch

CLEAR = 0.01  # share of the work after which the time left can be told


class OutOfTime(Exception):
    """The time limit is over; raised between epochs, so that what is finished stays and the rest ends at once."""


class Progress:
    """Counts work (FLOPs) as epochs finish. ``show`` gets (share done, seconds left or None, what) now and then."""

    def __init__(self, show: Callable[[float, float | None, str], None] | None = None, every: float = 15.0) -> None:
        self._show, self._every = show or _line, every
        self.total = self.done = 0.0
        self.flops: dict[int, float] = {}  # parameters of a model -> FLOPs of training it on one image
        self.deadline: float | None = None  # of time.monotonic
        self._began = self._shown = time.monotonic()
        self._lock = Lock()  # epochs are reported from the threads that train

    def epoch(self, epoch: Epoch) -> None:
        """A training has finished an epoch."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTime
        parameters = sum(p.numel() for p in epoch.job.model.parameters() if p.requires_grad)
        with self._lock:
            self.done += self.flops.get(parameters, 0.0) * epoch.images
            if time.monotonic() - self._shown >= self._every:
                self._tell(f"{epoch.job.name}, epoch {epoch.epoch}/{epoch.job.recipe.epochs}")

    def cell(self, cell: Cell, accuracy: float) -> None:
        """A cell has finished."""
        several = f", {cell.rounds} rounds" if cell.rounds > 1 else ""
        with self._lock:
            self._tell(f"{cell.place}: {label(cell.settings)}{several} {100 * accuracy:.1f} %")

    def _tell(self, what: str) -> None:
        self._shown = time.monotonic()
        share = min(1.0, self.done / self.total) if self.total else 1.0
        left = (self._shown - self._began) * (1 - share) / share if share > CLEAR else None
        self._show(share, left, what)


def _line(share: float, left: float | None, what: str) -> None:
    remaining = "" if left is None else f", about {clock(left)} left"
    print(f"[{100 * share:3.0f} %{remaining}] {shown(what)}", file=sys.stderr, flush=True)
