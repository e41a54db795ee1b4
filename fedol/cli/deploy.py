"""``fedol deploy new`` and ``fedol deploy watch``: a federation over a network, on Flower."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedol.cli.options import Json

app = typer.Typer(
    help="A federation over a network, on Flower. See docs/deploy.md.",
    epilog="Example: fedol deploy new federation --clients 3 --host fedol.example.org",
    no_args_is_help=True,
)


@app.command()
def new(
    folder: Annotated[Path, typer.Argument(help="Where to write it all.")],
    clients: Annotated[int, typer.Option(help="Number of clients.")] = 3,
    host: Annotated[str, typer.Option(help="Name or address that clients reach the server under.")] = "localhost",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The server's port.")] = 9092,
    as_json: Json = False,
) -> None:
    """Write certificates, client keys, start scripts, systemd units, a Compose file and a README.

    Example: fedol deploy new federation --clients 3 --host fedol.example.org
    """
    from fedol.federation.deploy.folder import new_deployment
    from fedol.text import say

    names = new_deployment(folder, clients, host, port)
    if as_json:
        print(json.dumps({"folder": str(folder), "clients": names, "server": f"{host}:{port}"}))
        return
    say(f"{folder}: server {host}:{port} and {len(names)} clients. {folder}/README.md says what goes where.")


@app.command()
def watch(
    run: Annotated[Path, typer.Argument(help="The server's run folder.")],
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
) -> None:
    """Show the nodes of a federation while the server collects: connected, training, done, refused, bytes.

    Example: fedol deploy watch runs/federation
    """
    from fedol.errors import FedolError
    from fedol.federation.nodes import Nodes
    from fedol.federation.roster import Roster
    from fedol.federation.taskfolder import TaskFolder
    from fedol.report.roster import RosterView

    if not (run / "roster.json").exists():
        raise FedolError(f"{run} is no server run, or has not begun; give the folder that the run config calls 'out'.")
    task = TaskFolder.of_run(run).task
    with RosterView(Console(), task, None, note=lambda: str(Nodes.read(run / "nodes.json"))) as view:
        while True:
            roster, nodes = Roster.read(run / "roster.json", 0.0), Nodes.read(run / "nodes.json")
            view.show(roster, dict.fromkeys(nodes.training, "training"))
            if once or roster.closed:
                break
            time.sleep(0.5)
