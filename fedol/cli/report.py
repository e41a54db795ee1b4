"""``fedol report``: the page to look at."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run or of a benchmark.")],
    share: Annotated[
        bool, typer.Option("--share", help="Make the page to pass on: nothing that a single client sent or scored.")
    ] = False,
    client: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --share: for this client, with its own answers.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Make report.html of a run or a benchmark again, from what its folder holds, and print where it is.

    It shows every client's answers. With --share it is report-share.html, which does not, and which may be passed on.

    Examples: fedol report runs/quick --open
              fedol report runs/federation --share --client alice
    """
    from fedol.errors import InputError
    from fedol.report.pages import write_report, write_share
    from fedol.text import say

    if client is not None and not share:
        raise InputError("--client is for the page to pass on; give --share, too.")
    path = write_share(run, client) if share else write_report(run)
    say(path)
    if show and not webbrowser.open(path.resolve().as_uri()):
        print("No browser could be opened here; open the file yourself.", file=sys.stderr)
