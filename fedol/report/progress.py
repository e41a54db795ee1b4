"""Progress bars: one for the stage, one for each job that is training right now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn, track

from fedol.training import Epoch

T = TypeVar("T")


def watched(parts: Sequence[T], what: str) -> Iterable[T]:
    """Goes through parts with a bar and the time left on a terminal; silently elsewhere."""
    console = Console(stderr=True)
    return track(parts, what, console=console, transient=True, disable=not console.is_terminal)


class TrainingProgress:
    """Shows stages and jobs on a terminal; silent elsewhere and when asked to be."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("epochs  {task.fields[note]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            refresh_per_second=4,  # drawing ten bars takes milliseconds, which the training would miss
            disable=quiet or not console.is_terminal,
        )
        self._stage: TaskID | None = None
        self._jobs: dict[str, TaskID] = {}
        self._moved: dict[str, float] = {}
        self._epochs = 0
        self._began = time.monotonic()  # of the stage: jobs that train side by side share its time

    def __enter__(self) -> TrainingProgress:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def stage(self, name: str, epochs: int) -> None:
        """A new stage begins; the bars of the one before go away."""
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._jobs.clear()
        self._epochs, self._began = 0, time.monotonic()
        self._stage = self._progress.add_task(f"[bold]{name:<14}", total=epochs, note="")

    def epoch(self, epoch: Epoch) -> None:
        """An epoch of a job has finished. Small models have hundreds in a second: a bar moves ten times at most."""
        name, now = epoch.job.name, time.monotonic()
        self._epochs += 1
        last = epoch.epoch == epoch.job.recipe.epochs
        if now - self._moved.get(name, 0.0) < 0.1 and not last:
            return
        self._moved[name] = now
        if name not in self._jobs:
            self._jobs[name] = self._progress.add_task(f"{name:<14}", total=epoch.job.recipe.epochs, note="")
        note = f"loss {epoch.loss:.3f}  {epoch.epoch * epoch.images / (now - self._began):,.0f} images/s"
        self._progress.update(self._jobs[name], completed=epoch.epoch, note=note, visible=not last)
        if self._stage is not None:
            self._progress.update(self._stage, completed=self._epochs)
