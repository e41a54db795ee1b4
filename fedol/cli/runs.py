"""``fedol runs``: which runs there are, how they compare, and taking away those that nobody needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedol.cli import complete
from fedol.cli.options import Json

if TYPE_CHECKING:
    from fedol.runs.listing import Run

runs = typer.Typer(
    help="The runs there are: list them, compare them, remove them.",
    epilog="Example: fedol runs, then: fedol runs compare runs/first runs/second",
)
Places = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Run folders, or folders that hold some; runs by default.", autocompletion=complete.run_folders
    ),
]


@runs.callback(invoke_without_command=True)
def _list(context: typer.Context, as_json: Json = False) -> None:
    if context.invoked_subcommand is None:
        list_runs(as_json=as_json)


@runs.command("list")
def list_runs(places: Places = None, as_json: Json = False) -> None:
    """Show every run: its state, its accuracy, its settings in short, its size.

    Examples: fedol runs list
              fedol runs list runs/first elsewhere --json
    """
    from fedol.report.runs import runs_table

    found = _found(places)
    if as_json:
        print(json.dumps([run.as_json() for run in found], indent=1))
    elif found:
        Console().print(runs_table(found))
    else:
        print("There are no runs here; fedol run makes one.")


@runs.command()
def compare(places: Places = None, as_json: Json = False) -> None:
    """Show finished runs beside each other: the settings in which they differ, and what came of each.

    Example: fedol runs compare runs/first runs/second
    """
    from fedol.report.runs import comparison_table
    from fedol.runs.listing import FINISHED, differing

    found = [run for run in _found(places) if run.state == FINISHED]
    names = differing(found) if found else []
    if as_json:
        told = [{**run.as_json(), "settings": {name: run.settings.get(name) for name in names}} for run in found]
        print(json.dumps(told, indent=1))
    elif found:
        Console().print(comparison_table(found, names))
    else:
        print("There are no finished runs here; fedol run makes one.")


@runs.command()
def prune(
    places: Places = None,
    finished: Annotated[bool, typer.Option("--finished", help="Also runs that are finished.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Really remove them; otherwise they are only named.")] = False,
    as_json: Json = False,
) -> None:
    """Remove what unfinished runs have written, and with --finished also what finished ones have; --yes does it.

    Nothing goes that is no simulated run, that a process works in, or that somebody else has put into a run's folder.

    Examples: fedol runs prune
              fedol runs prune runs/first --finished --yes
    """
    from fedol.report.terminal import size
    from fedol.runs.listing import TRAINING, UNFINISHED, removable, remove
    from fedol.text import say

    wanted = [run for run in _found(places) if finished or run.state in (UNFINISHED, TRAINING)]
    going = [run for run in wanted if removable(run) is None]
    freed, left = sum(run.bytes for run in going), {run.path: remove(run) for run in going} if yes else {}
    if as_json:
        told = {"removed": yes, "runs": [str(run.path) for run in going], "bytes": freed}
        told["left"] = [str(file) for files in left.values() for file in files]
        told["kept"] = {str(run.path): removable(run) for run in wanted if run not in going}
        print(json.dumps(told, indent=1))
        return
    for run in wanted:
        why = removable(run)
        say(f"{run.path} ({run.state}): {f'kept, for {why}' if why else 'removed' if yes else 'would be removed'}")
        for file in left.get(run.path, []):
            say(f"  {file} is not the run's and stays")
    if not wanted:
        print("There is nothing to remove." if finished else "There is no unfinished run here.")
    elif going and not yes:
        print(f"Nothing is removed yet; --yes removes {len(going)} of them and frees {size(freed)}.")


def _found(places: list[Path] | None) -> list[Run]:
    from fedol.errors import InputError
    from fedol.runs.listing import found
    from fedol.runs.names import RUNS

    for place in places or []:
        if not found([place]):
            raise InputError(f"{place} is no run and holds none; name the folder of a run, or one that runs are in.")
    return found(places or [RUNS])
