"""Benchmarks on a terminal: tables, and one progress bar across all cells."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from fedol.bench.plan import Progress
from fedol.bench.sheets import BESIDE, Sheet
from fedol.report.terminal import count, plain
from fedol.text import clock, shown

LABEL = 26  # the most that the first column takes; its words wrap


def sheet_tables(sheet: Sheet, width: int) -> list[Table]:
    """A sheet for a terminal so wide: below each other what does not fit beside each other, for no number is cut."""
    wide = [max(map(len, column)) + 3 for column in zip(sheet.columns, *sheet.rows, strict=True)]
    groups: list[list[int]] = []
    for number, column in enumerate(sheet.columns[1:], 1):
        if column in BESIDE:
            groups[-1].append(number)
        else:
            groups.append([number])
    room = width - min(wide[0], LABEL) - 1
    parts = [groups[0]]
    for group in groups[1:]:
        if sum(wide[number] for number in [*parts[-1], *group]) <= room:
            parts[-1] = [*parts[-1], *group]
        else:
            parts.append(group)
    return [_table(sheet, part, part is parts[0], part is parts[-1]) for part in parts]


def _table(sheet: Sheet, columns: list[int], first: bool, last: bool) -> Table:
    """Some columns of a sheet; the first of its tables has the title, the last one the note."""
    title, note = plain(sheet.title, "table.title"), plain(sheet.note, "table.caption")
    table = Table(title=title if first else None, caption=note if last else None)
    table.add_column(plain(sheet.columns[0]), min_width=12)
    for number in columns:
        table.add_column(plain(sheet.columns[number]), justify="right", no_wrap=True)
    for place, row in enumerate(sheet.rows):
        words = (plain(row[number], "bold" if (place, number) in sheet.best else "") for number in columns)
        table.add_row(plain(row[0]), *words)
    return table


def plan_table(plans: list[dict[str, Any]]) -> Table:
    """What a benchmark would compute."""
    seconds = sum(plan["seconds"] for plan in plans)
    flops = sum(plan["flops"] for plan in plans)
    # A few batches of the server tell little about small clients, or many models side by side.
    roughly = "about" if all(plan["timed"] for plan in plans) else "by a first measurement"
    groups = count(len(plans), "group")
    table = Table(title=f"{groups} to compute, {flops:.2g} FLOPs, {roughly} {clock(seconds)} on this device")
    for heading in ("partition", "seed", "clients", "methods", "about"):
        table.add_column(heading, justify="right" if heading in ("seed", "clients", "about") else "left")
    for plan in plans:
        partition, methods = plain(plan["partition"]), plain(", ".join(plan["rows"]))
        table.add_row(partition, str(plan["seed"]), str(plan["clients"]), methods, clock(plan["seconds"]))
    return table


class BenchProgress(Progress):
    """One bar for everything, a line per finished cell; plain lines where there is no terminal."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
        self._bar = Bar(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
        self._task = self._bar.add_task("", total=1.0)
        show = (lambda *_: None) if quiet else self._draw if console.is_terminal else None
        super().__init__(show, every=1.0 if console.is_terminal else 15.0)

    def __enter__(self) -> BenchProgress:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def _draw(self, share: float, left: float | None, what: str, finished: bool) -> None:
        about = "" if left is None else f"{clock(left)} left, "
        self._bar.update(self._task, completed=share, description=shown(about + what))
        if finished:
            self._bar.console.print(plain(what))
