"""The live view of a collection: who is in, who is arriving, who was refused."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.table import Table

from fedol.federation.roster import Roster
from fedol.knowledge.task import Task
from fedol.report.plain import plain
from fedol.report.tables import size
from fedol.text import Deadline, clock


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
