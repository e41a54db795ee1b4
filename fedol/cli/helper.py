"""A helper's side of a sum in secret: ``fedol helper list`` and ``sum``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedol.cli.options import Json, TaskDir
from fedol.errors import InputError

app = typer.Typer(
    help="A helper of a sum in secret: sum the shares of a list of clients.",
    epilog="Example: fedol helper sum task --key A.key --inbox inbox --clients list.txt --out A.part",
    no_args_is_help=True,
)

Inbox = Annotated[Path, typer.Option(help="The folder with the clients' files.")]


@app.command("list")
def list_clients(task: TaskDir, inbox: Inbox, as_json: Json = False) -> None:
    """Print the clients whose files are here, signed and whole, a line each: what both helpers have can be summed.

    Example: fedol helper list task --inbox inbox > list.txt
    """
    from fedol.federation.taskfolder import TaskFolder
    from fedol.report.live import LiveProgress
    from fedol.secret.helper import held
    from fedol.text import say, shown

    with LiveProgress(quiet=as_json):
        found, wrong = held(TaskFolder.open(task).task, inbox)
    if as_json:
        print(json.dumps({"clients": sorted(found), "refused": wrong}))
        return
    for name in sorted(found):
        say(name)
    for file, why in wrong.items():
        typer.echo(shown(f"{file} is refused: {why}."), err=True)


@app.command("sum")
def sum_clients(
    task: TaskDir,
    inbox: Inbox,
    clients: Annotated[str, typer.Option(help="Whose parts: a,b,c or a file with one name per line.")],
    out: Annotated[Path, typer.Option(help="The helper's sum, for whoever opens both.")],
    key: Annotated[Path, typer.Option(help="The helper's private keys; the ledger of its sums lies beside them.")],
    as_json: Json = False,
) -> None:
    """Sum the shares of these clients, and sign the sum with their list.

    Refused are lists that are too short or, beside the sums given out before, would tell too few clients apart.
    Killed at any moment, the same command ends in the same bytes.

    Example: fedol helper sum task --key A.key --inbox inbox --clients list.txt --out A.part
    """
    from fedol.cli.prepare import class_names
    from fedol.federation.taskfolder import TaskFolder
    from fedol.report.live import LiveProgress
    from fedol.report.terminal import size
    from fedol.secret.helper import sum_up
    from fedol.secret.keys import HelperKey
    from fedol.text import say

    if not key.exists():
        raise InputError(f"There is no key {key}; give the private key of a helper that the task names.")
    opened = TaskFolder.open(task).task
    with LiveProgress(quiet=as_json):
        listed = sum_up(opened, inbox, class_names(clients), HelperKey.read(key), ledger_of(key), out)
    written = out.stat().st_size
    if as_json:
        print(json.dumps({"out": str(out), "clients": [client.name for client in listed], "bytes": written}))
        return
    say(f"{out}: {size(written)}, the sum of {len(listed)} clients. It opens only with the other helper's.")


def ledger_of(key: Path) -> Path:
    """Where a helper's ledger is: beside the key itself, not beside a link to it."""
    place = key.resolve()
    return place.with_name(f"{place.name}.ledger")
