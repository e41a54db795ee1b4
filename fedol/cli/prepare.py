"""What comes before a federation: ``fedol task``, ``fedol keys`` and ``fedol deploy``."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedol.cli.options import Json
from fedol.errors import InputError
from fedol.settings import UNLABELLED

tasks = typer.Typer(
    help="The task: what all parties agree on before anyone trains.",
    epilog="Example: fedol task new task --public images/ --classes cat,dog",
    no_args_is_help=True,
)

keys = typer.Typer(
    help="Keys, for federations whose files are signed.",
    epilog="Example: fedol keys new alice.key",
    no_args_is_help=True,
)


@tasks.callback()
@keys.callback()
def _group() -> None:
    """One command each so far; the callback keeps its name."""


@tasks.command("new")
def new_task(
    folder: Annotated[Path, typer.Argument(help="Where to write the task.")],
    public: Annotated[Path, typer.Option(help=f"The public samples: {UNLABELLED}.")],
    classes: Annotated[str, typer.Option(help="Class names in their order: a,b,c or a file with one per line.")],
    name: Annotated[str | None, typer.Option(help="Sets this federation apart; the folder's name by default.")] = None,
    only_fingerprint: Annotated[
        bool, typer.Option("--only-fingerprint", help="Leave the samples out: everyone has them already.")
    ] = False,
    codecs: Annotated[str, typer.Option(help="Accepted codecs, comma-separated; any by default.")] = "",
    max_bytes: Annotated[int, typer.Option(help="Largest knowledge file; by default what float32 needs.")] = 0,
    client: Annotated[
        list[str] | None,
        typer.Option(help="An admitted client, NAME or NAME=PUBLIC_KEY; may be repeated. Anyone, where none is given."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a task: public samples, class names, limits, clients and their keys.

    Example: fedol task new task --public images/ --classes cat,dog --client alice --client bob=PUBLIC_KEY
    """
    from fedol.data.own import load_samples
    from fedol.federation.taskfolder import TaskFolder
    from fedol.knowledge.signing import check_public_key
    from fedol.knowledge.task import Task
    from fedol.report.live import LiveProgress
    from fedol.text import say

    with LiveProgress(quiet=as_json):
        shared, _ = load_samples(public)
    clients: dict[str, str | None] = {}
    for entry in client or []:
        who, keyed, key = entry.partition("=")
        if who in clients:
            raise InputError(f"The client '{who}' is given twice; give each one once, with its key.")
        clients[who] = check_public_key(key) if keyed else None
    base = Task.of(shared, class_names(classes), folder.resolve().name if name is None else name)
    accepted = tuple(codec.strip() for codec in codecs.split(",") if codec.strip())
    # Not from a seed: a federation that is repeated must not take what was signed for the last one.
    task = replace(base, codecs=accepted, max_bytes=max_bytes, clients=clients, nonce=secrets.token_hex(8))
    TaskFolder.create(folder, task, None if only_fingerprint else shared)
    if as_json:
        print(json.dumps({"folder": str(folder), "id": task.id, "name": task.name, "samples": task.samples}))
        return
    say(f"Task {task.name} ({task.id}): {task.samples:,} public samples, {len(task.classes)} classes.")
    say(f"Give everyone a copy of {folder}{'; the public samples travel otherwise' if only_fingerprint else ''}.")


def class_names(given: str) -> list[str]:
    """Class names from the command line, or from a file with one per line."""
    path = Path(given)
    try:
        is_file = path.is_file()
    except OSError:  # a list longer than any file name
        is_file = False
    if not is_file:
        return [name.strip() for name in given.split(",")]
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The class names in {path} cannot be read: {error}.") from None


@keys.command("new")
def new_keys(
    file: Annotated[Path, typer.Argument(help="Where to write the private key. It never leaves this machine.")],
    as_json: Json = False,
) -> None:
    """Make an Ed25519 key and print its public half, which goes to the coordinator.

    Example: fedol keys new alice.key
    """
    from fedol.knowledge.signing import new_key
    from fedol.text import say

    public = new_key(file)
    if as_json:
        print(json.dumps({"private_key": str(file), "public_key": public}))
        return
    say(f"Private key: {file} (keep it). Public key, for the coordinator:")
    print(public)


deploy = typer.Typer(
    help="A federation over a network, on Flower.",
    epilog="Example: fedol deploy new federation --clients 3 --host fedol.example.org",
    no_args_is_help=True,
)


@deploy.command("new")
def new_folder(
    folder: Annotated[Path, typer.Argument(help="Where to write it all.")],
    clients: Annotated[int, typer.Option(help="Number of clients.")] = 3,
    host: Annotated[str, typer.Option(help="Name or address that clients reach the server under.")] = "localhost",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The server's port.")] = 9092,
    as_json: Json = False,
) -> None:
    """Write certificates, client keys, start scripts, systemd units, a Compose file and a README.

    Example: fedol deploy new federation --clients 3 --host fedol.example.org
    """
    from fedol.federation.deploy import new_deployment
    from fedol.text import say

    names = new_deployment(folder, clients, host, port)
    if as_json:
        print(json.dumps({"folder": str(folder), "clients": names, "server": f"{host}:{port}"}))
        return
    say(f"{folder}: server {host}:{port} and {len(names)} clients. {folder}/README.md says what goes where.")


@deploy.command()
def watch(
    run: Annotated[Path, typer.Argument(help="The server's run folder.")],
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
) -> None:
    """Show the nodes of a federation while the server collects: connected, training, done, refused, bytes.

    Example: fedol deploy watch runs/federation
    """
    from fedol.errors import FedolError
    from fedol.federation.roster import Roster
    from fedol.federation.taskfolder import TaskFolder
    from fedol.federation.transports import Nodes
    from fedol.report.live import RosterView

    if not (run / "roster.json").exists():
        raise FedolError(f"{run} is not a server run, or has not begun; give the run config's 'out'.")
    task = TaskFolder.of_run(run).task
    with RosterView(Console(), task, None, note=lambda: str(Nodes.read(run / "nodes.json"))) as view:
        while True:
            roster, nodes = Roster.read(run / "roster.json", 0.0), Nodes.read(run / "nodes.json")
            view.show(roster, dict.fromkeys(nodes.training, "training"))
            if once or roster.closed:
                break
            time.sleep(0.5)
