"""Benchmarks on a terminal: tables, and one progress bar across all cells."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from fedol.experiments.progress import Progress, clock
from fedol.experiments.report import Sheet


def sheet_table(sheet: Sheet) -> Table:
    """A sheet for the terminal."""
    table = Table(title=sheet.title, caption=sheet.note or None)
    for number, column in enumerate(sheet.columns):
        table.add_column(column, justify="right" if number else "left", min_width=None if number else 12)
    for row in sheet.rows:
        table.add_row(*row)
    return table


def plan_table(plans: list[dict[str, Any]]) -> Table:
    """What a benchmark would compute."""
    seconds = sum(plan["seconds"] for plan in plans)
    flops = sum(plan["flops"] for plan in plans)
    table = Table(title=f"{len(plans)} groups to compute, {flops:.2g} FLOPs, about {clock(seconds)} on this device")
    for heading in ("partition", "seed", "clients", "methods", "about"):
        table.add_column(heading, justify="right" if heading in ("seed", "clients", "about") else "left")
    for plan in plans:
        about = clock(plan["seconds"])
        table.add_row(plan["partition"], str(plan["seed"]), str(plan["clients"]), ", ".join(plan["methods"]), about)
    return table


class BenchProgress(Progress):
    """One bar for everything, a line per finished cell; plain lines where there is no terminal."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"))
        self._bar = Bar(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
        self._task = self._bar.add_task("", total=1.0)
        shown = (lambda *_: None) if quiet else self._draw if console.is_terminal else None
        super().__init__(shown, every=1.0 if console.is_terminal else 15.0)

    def __enter__(self) -> BenchProgress:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def _draw(self, share: float, left: float | None, what: str) -> None:
        about = "" if left is None else f"{clock(left)} left, "
        self._bar.update(self._task, completed=share, description=about + what)
        if what.endswith("%"):
            self._bar.console.print(what, highlight=False)
