"""The Flower ``ServerApp``: collect once, validate, distill, save, with the server that ``fedol serve`` runs.

The run config says what the options of ``fedol serve`` say: task, out, force, quorum, deadline, public, test, and a
server's settings. Empty, or a quorum of 0: none. And ``clients``: the names of those that are expected, so that one
that never connects is missed by name.

``server-model`` may be code (``my.py:Net``): whoever may submit a run decides what the server runs anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from rich.console import Console

from fedol.cli.serve import finish
from fedol.config import configure_server
from fedol.errors import InputError, brief, unknown
from fedol.federation.coordinator import Coordinator
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.transports.flower_inbox import GridInbox
from fedol.report.live import RosterView
from fedol.settings import ServerSettings
from fedol.text import forgiving, seconds

APART = ("task", "out", "force", "clients", "quorum", "deadline", "public", "test")
SETTINGS = [field.name for field in fields(ServerSettings) if "help" in field.metadata]

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One federation, from the first look at the nodes to the report."""
    forgiving()
    federate(grid, dict(context.run_config))


def federate(grid: Grid, config: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the configuration as plain values; returns the summary."""
    given = {key.replace("-", "_"): value for key, value in config.items() if value != ""}
    for name in given:
        if name not in (*APART, *SETTINGS):
            raise unknown("run setting", name.replace("_", "-"), [*APART, *SETTINGS])
    for name in ("task", "out"):
        if name not in given:
            raise InputError(f"The run config lacks '{name}'; write its folder anew with `fedol deploy new`.")
    folder = TaskFolder.open(Path(given["task"]))
    settings = {name: given[name] for name in SETTINGS if name in given}
    public, test = (Path(given[name]) if name in given else None for name in ("public", "test"))
    quorum, wait = given.get("quorum") or None, seconds(str(given["deadline"])) if "deadline" in given else None
    if quorum is not None and type(quorum) is not int:
        raise InputError(f"The run setting 'quorum' must be a whole number, but is {brief(quorum)}.")
    force = given.get("force", False)
    if type(force) is not bool:
        raise InputError(f"The run setting 'force' must be true or false, but is {brief(force)}.")
    frozen = configure_server(folder.task.id, overrides=settings, kind=partial(folder.kind, public))
    coordinator = Coordinator(folder, frozen, Path(given["out"]), public, force=force)
    labelled = coordinator.test_set(test) if test else None
    inbox = GridInbox(grid, folder.task, wait, str(given.get("clients", "")).split())
    with RosterView(Console(), folder.task, quorum, note=lambda: str(inbox.state)) as view:
        coordinator.watch(inbox, quorum, wait, view.show)
    return finish(coordinator, labelled, quiet=False, as_json=False)
