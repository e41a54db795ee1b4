"""What ``fedol runs`` shows: a row per run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from fedol.methods import title
from fedol.report.terminal import count, percent, plain, plain_table, size
from fedol.runs.listing import FINISHED, Run


def runs_table(runs: Sequence[Run]) -> Table:
    """Every run: what it is, and how far."""
    finished = sum(run.state == FINISHED for run in runs)
    table = plain_table(f"{count(len(runs), 'run')}, {finished} finished")
    table.add_column("run", overflow="fold", ratio=1)
    for heading in ("method", "seed"):
        table.add_column(heading, no_wrap=True)
    table.add_column("server", justify="right", no_wrap=True)
    table.add_column("date", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    for run in runs:
        done = _accuracy(run.accuracy) if run.state == FINISHED else run.state
        table.add_row(
            plain(str(run.path)),
            plain(title(run.settings["method"])),
            plain(str(run.settings.get("seed", ""))),
            done,
            run.date,
            size(run.bytes),
        )
    return table


def comparison_table(runs: Sequence[Run], names: Sequence[str]) -> Table:
    """Finished runs, the best on top, and the settings in which they differ."""
    table = plain_table(f"{count(len(runs), 'finished run')}, the best on top")
    table.add_column("run", overflow="fold", ratio=1)
    for name in names:
        table.add_column(plain(name.replace("_", " ")))
    for heading in ("mean client", "server"):
        table.add_column(heading, justify="right")
    for run in sorted(runs, key=lambda run: -(run.accuracy or -1)):
        values = (plain(_words(run.settings.get(name))) for name in names)
        table.add_row(plain(str(run.path)), *values, _accuracy(run.mean_client), _accuracy(run.accuracy))
    if any(name in ("dataset", "public", "development") for name in names):
        table.caption = "Accuracies on different data do not compare."
    return table


def _accuracy(value: float | None) -> str:
    return "" if value is None else percent(value)


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
