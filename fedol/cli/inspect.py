"""``fedol inspect``: what a knowledge file holds and gives away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedol.cli.options import Json


def inspect(
    file: Annotated[Path, typer.Argument(help="A knowledge file.")],
    task: Annotated[Path | None, typer.Option(help="The task's folder: does the file fit it?")] = None,
    as_json: Json = False,
) -> None:
    """Show a knowledge file before it is sent: size, codec, how sure it is, and what it reveals.

    Example: fedol inspect alice.fedol --task task
    """
    from fedol.federation.taskfolder import TaskFolder
    from fedol.knowledge.inspection import inspect as look
    from fedol.report.inspection import inspection_view

    found = look(file, TaskFolder.open(task).task if task else None)
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        Console().print(inspection_view(found))
    if found["fits"] and not found["fits"]["fits"]:
        raise typer.Exit(2)
