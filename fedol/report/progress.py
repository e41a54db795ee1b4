"""Progress bars: one for the stage, one for each job that is training right now."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from fedol.training import Epoch


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
            disable=quiet or not console.is_terminal,
        )
        self._stage: TaskID | None = None
        self._jobs: dict[str, TaskID] = {}

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
        self._stage = self._progress.add_task(f"[bold]{name:<14}", total=epochs, note="")

    def epoch(self, epoch: Epoch) -> None:
        """An epoch of a job has finished."""
        name = epoch.job.name
        if name not in self._jobs:
            self._jobs[name] = self._progress.add_task(f"{name:<14}", total=epoch.job.recipe.epochs, note="")
        self._progress.update(self._jobs[name], completed=epoch.epoch, note=f"loss {epoch.loss:.3f}")
        if self._stage is not None:
            self._progress.advance(self._stage)
        if epoch.epoch == epoch.job.recipe.epochs:
            self._progress.update(self._jobs[name], visible=False)
