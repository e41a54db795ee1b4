"""Rich's progress, drawn as plain lines: a fifth of the time of its table, which a training would miss."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.progress import Progress, Task
from rich.text import Text

from fedol.report.plain import plain
from fedol.times import clock

WIDTH = 40  # of a bar


class Bars(Progress):
    """A line per task: what, a bar, how far, a note, and the time left."""

    def make_tasks_table(self, tasks: Iterable[Task]) -> RenderableType:  # type: ignore[override]
        """Called by Rich for every picture."""
        return Text("\n", no_wrap=True, overflow="ellipsis").join(line(task) for task in tasks if task.visible)


def line(task: Task) -> Text:
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
