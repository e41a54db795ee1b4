"""``fedol report``: the page to look at."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run or of a benchmark.")],
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Make report.html of a run or a benchmark again, from what its folder holds, and print where it is.

    Example: fedol report runs/quick --open
    """
    from fedol.report.pages import write_report

    path = write_report(run)
    print(path)
    if show and not webbrowser.open(path.resolve().as_uri()):
        print("No browser could be opened here; open the file yourself.", file=sys.stderr)
