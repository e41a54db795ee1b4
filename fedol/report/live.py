"""Displays that move: bars for each job that trains, lines where there is no terminal, a collection's roster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import Progress, TaskID
from rich.progress import Task as Job
from rich.table import Table
from rich.text import Text

from fedol.knowledge.task import Task
from fedol.progress import Observer, watching
from fedol.report.terminal import plain, size
from fedol.text import Deadline, clock

if TYPE_CHECKING:
    from fedol.federation.roster import Roster
    from fedol.training import Epoch


class LiveProgress(Observer):
    """Shows what is under way and the time left: bars on a terminal, lines elsewhere, nothing when asked to.

    Also in a notebook, where Rich's bars need ipywidgets: its display is ``fedol.report.observers.Notebook``.
    """

    def __init__(self, console: Console | None = None, quiet: bool = False) -> None:
        console = console or Console(stderr=True)
        bars = console.is_terminal and not quiet
        self._progress = Bars(console=console, transient=True, refresh_per_second=4, disable=not bars)
        self._log = None if bars or quiet else console
        self._within = ExitStack()
        self._stage: TaskID | None = None
        self._lines = Lines(self._log, "epochs", None) if self._log else None  # in a log; then those of the stage
        self._jobs: dict[str, tuple[TaskID, float, int]] = {}  # a bar, and when it appeared, after how many epochs
        self._moved: dict[str, float] = {}
        self._epochs = 0

    def __enter__(self) -> LiveProgress:
        self._within.enter_context(self._progress)
        self._within.enter_context(watching(self._follow))
        return self

    def __exit__(self, *error: object) -> None:
        self._within.close()

    def stage(self, name: str, epochs: int) -> None:
        """Training begins; the bars of the stage before go away."""
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._jobs.clear()
        self._epochs = 0
        self._stage = self._progress.add_task(f"{name:<14}", total=epochs, note="epochs", style="bold")
        self._lines = Lines(self._log, f"{name}, epochs", epochs) if self._log else None

    def epoch(self, epoch: Epoch) -> None:
        """An epoch of a job has finished. Small models have hundreds in a second: a bar moves ten times at most."""
        name, now = epoch.job.name, time.monotonic()
        self._epochs += epoch.steps
        last = epoch.epoch == epoch.job.recipe.epochs
        if now - self._moved.get(name, 0.0) < 0.1 and not last:
            return
        self._moved[name] = now
        if not last:
            self._move(epoch, now)
        elif name in self._jobs:
            self._progress.remove_task(self._jobs.pop(name)[0])
        if self._stage is not None:
            self._progress.update(self._stage, completed=self._epochs)
        if self._lines:
            self._lines.tell(self._epochs)

    def _move(self, epoch: Epoch, now: float) -> None:
        """Samples a second count from where a bar appears: a job may begin long after its stage, or be resumed."""
        name = epoch.job.name
        if name not in self._jobs:
            task = self._progress.add_task(f"{name:<14}", total=epoch.job.recipe.epochs, note="", style="")
            self._jobs[name] = task, now, epoch.epoch
        task, appeared, before = self._jobs[name]
        seen = (epoch.epoch - before) * epoch.samples
        rate = f"  {seen / (now - appeared):,.0f} samples/s" if seen else ""
        self._progress.update(task, completed=epoch.epoch, note=f"epochs  loss {epoch.loss:.3f}{rate}")

    def _follow(self, parts: Iterable[Any], what: str, count: int | None) -> Iterator[Any]:
        """A bar for a loop (``fedol.progress``), as long as it lasts."""
        task = self._progress.add_task(f"{what:<14}", total=count, note="", style="")
        lines = Lines(self._log, what, count) if self._log else None
        try:
            for done, part in enumerate(parts, 1):
                yield part
                self._progress.advance(task)
                if lines:
                    lines.tell(done)
        finally:
            if task in self._progress.task_ids:  # a stage that has begun meanwhile has cleared it away
                self._progress.remove_task(task)


EVERY = 15.0  # seconds between two lines


class Lines:
    """Says how far one thing is, at most every ``EVERY`` seconds, so nothing of what is soon over."""

    def __init__(self, console: Console, what: str, total: int | None) -> None:
        self._console, self._what, self._total = console, what, total
        self._began = self._told = time.monotonic()

    def tell(self, done: int) -> None:
        """So much of it is done."""
        now, total = time.monotonic(), self._total
        if now - self._told < EVERY:
            return
        self._told = now
        of = f" of {total:,}, about {clock((now - self._began) * max(0, total - done) / done)} left" if total else ""
        self._console.print(plain(f"{self._what}: {done:,}{of}"), soft_wrap=True)


WIDTH = 40  # of a bar


class Bars(Progress):
    """A line per task: what, a bar, how far, a note and the time left; a fifth of the time of Rich's own table."""

    def make_tasks_table(self, tasks: Iterable[Job]) -> RenderableType:  # type: ignore[override]
        """Called by Rich for every picture."""
        return Text("\n", no_wrap=True, overflow="ellipsis").join(line(task) for task in tasks if task.visible)


def line(task: Job) -> Text:
    """One task; one whose end is not known has no bar."""
    text = Text.assemble(plain(task.description, task.fields["style"]), " ")
    if task.total is None:
        return text.append(f"{int(task.completed)} {task.fields['note']}")
    full = int(WIDTH * task.percentage / 100)
    text.append("━" * full, "bar.finished" if task.finished else "bar.complete").append(
        "━" * (WIDTH - full), "bar.back"
    )
    text.append(f" {int(task.completed):>{len(str(int(task.total)))}}/{int(task.total)} ", "progress.download")
    left = task.time_remaining
    ends = "-:--" if left is None else clock(left)
    return text.append(f"{task.fields['note']}  ").append(ends, "progress.remaining")


def roster_table(
    roster: Roster, arriving: dict[str, str], task: Task, quorum: int | None, left: float | None = None
) -> Table:
    """Every client and every refused file; ``left``: seconds until the server starts with whom it has."""
    wanted = f" of {quorum or len(task.clients)}" if quorum or task.clients else ""
    waits = "" if left is None else f", {clock(left)} left"
    title = f"{task.name}: {len(roster.clients)}{wanted} clients are in{waits}"
    table = Table(title=plain(title, "table.title"), min_width=60)
    for heading in ("client", "file", "size", "codec", ""):
        table.add_column(heading)
    for name, arrival in roster.clients.items():
        table.add_row(plain(name), plain(arrival.file), size(arrival.bytes), plain(arrival.codec), "[green]in")
    for name in sorted(set(task.clients) - set(roster.clients)):
        table.add_row(plain(name), "", "", "", "awaited")
    for file, reason in arriving.items():
        table.add_row("", plain(file), "", "", plain(f"awaited ({reason})"))
    for file, reason in roster.refused.items():
        table.add_row("", plain(file), "", "", plain(f"refused: {reason}", "red"))
    if roster.unnamed:
        table.add_row("", "", "", "", f"[red]refused: {roster.unnamed:,} more")
    return table


class RosterView:
    """A table that changes on a terminal; elsewhere a line per event."""

    def __init__(
        self,
        console: Console,
        task: Task,
        quorum: int | None,
        quiet: bool = False,
        note: Callable[[], str] = lambda: "",  # a line about the whole, told whenever it changes
        deadline: float | None = None,  # seconds after the opening
    ) -> None:
        self._console, self._task, self._quorum, self._quiet, self._note = console, task, quorum, quiet, note
        self._deadline = deadline
        self._ends: Deadline | None = None  # counts from the roster's opening
        self._live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None
        self._told: set[tuple[str, str]] = set()
        self._noted = ""

    def __enter__(self) -> RosterView:
        if self._live and not self._quiet:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live and not self._quiet:
            self._live.stop()

    def show(self, roster: Roster, arriving: dict[str, str]) -> None:
        """The state after a look at the inbox."""
        if self._quiet:
            return
        if self._live:
            if self._deadline is not None and self._ends is None:
                self._ends = Deadline(self._deadline, roster.opened)
            left = self._ends.left if self._ends else None
            table = roster_table(roster, arriving, self._task, self._quorum, left)
            table.caption = self._note() or None
            self._live.update(table, refresh=True)
            return
        events = [("in", f"{name} ({arrival.file}, {size(arrival.bytes)})") for name, arrival in roster.clients.items()]
        events += [("refused", f"{file}: {reason}") for file, reason in roster.refused.items()]
        for event in events:
            if event not in self._told:
                self._told.add(event)
                self._say(f"{event[0]}: {event[1]}")
        if self._note() and self._note() != self._noted:
            self._noted = self._note()
            self._say(self._noted)

    def _say(self, line: str) -> None:
        self._console.print(plain(line), soft_wrap=True)
