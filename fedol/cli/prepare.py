"""What comes before a federation: ``fedol task``, ``fedol keys`` and ``fedol deploy``."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fedol.cli.options import Json, TaskDir, with_settings
from fedol.errors import InputError
from fedol.settings import UNLABELLED, Columns

if TYPE_CHECKING:
    from fedol.knowledge import Task

SECRET = "Summing in secret"

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
def _group() -> None:
    """One command so far; the callback keeps its name."""


@tasks.command("new")
@with_settings(Columns, but=("test",))
def new_task(
    settings: dict[str, Any],
    folder: Annotated[Path, typer.Argument(help="Where to write the task.")],
    public: Annotated[Path, typer.Option(help=f"The public samples: {UNLABELLED}.")],
    classes: Annotated[
        str | None, typer.Option(help="Class names in their order: a,b,c or a file with one per line.")
    ] = None,
    findings: Annotated[
        str | None, typer.Option(help="Instead of classes, what a sample may have several of: names likewise.")
    ] = None,
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
    tokens: Annotated[
        Path | None,
        typer.Option(help="A folder for a token of each client that is listed, for fedol serve --listen."),
    ] = None,
    publish_targets: Annotated[
        bool,
        typer.Option(
            "--publish-targets",
            help="Let the server hand back what it was taught: 'fedol adapt --retrain' needs it.",
        ),
    ] = False,
    helpers: Annotated[
        str | None,
        typer.Option(
            help="A.pub,B.pub: sum in secret, so that nobody sees a single client's answers.", rich_help_panel=SECRET
        ),
    ] = None,
    bits: Annotated[
        int | None, typer.Option(help="Bits of a value: 16, 24 (the default) or 32.", rich_help_panel=SECRET)
    ] = None,
    cap: Annotated[
        float | None,
        typer.Option(
            help="The most mass that a sample may have at one client (64); at least 16 times a client's private "
            "samples over the public ones.",
            rich_help_panel=SECRET,
        ),
    ] = None,
    least: Annotated[
        int | None, typer.Option(help="Clients that a sum must have, at least (3).", rich_help_panel=SECRET)
    ] = None,
    dp_epsilon: Annotated[
        float | None,
        typer.Option(help="Noise: ε of the sum, for a client's whole part; needs Opacus.", rich_help_panel=SECRET),
    ] = None,
    dp_delta: Annotated[float | None, typer.Option(help="Its δ (1e-5).", rich_help_panel=SECRET)] = None,
    dp_norm: Annotated[
        float | None,
        typer.Option(
            help="What a client's ratios are shortened to: √(public samples) by default.", rich_help_panel=SECRET
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a task: public samples, class names, limits, clients and their keys, helpers.

    Examples: fedol task new task --public images/ --classes cat,dog --client alice --client bob=PUBLIC_KEY
              fedol task new task --public images/ --classes cat,dog --helpers A.pub,B.pub --client a=KEY --client b=KEY
    """
    from fedol.data import Reading
    from fedol.data.findings import ANSWERS
    from fedol.data.stored import load_samples
    from fedol.federation.taskfolder import TaskFolder
    from fedol.federation.tokens import SUFFIX, new_token
    from fedol.knowledge.signing import check_public_key
    from fedol.knowledge.task import Task
    from fedol.report.live import LiveProgress
    from fedol.text import say

    with LiveProgress(quiet=as_json):
        reading = Reading.of(Columns(**settings))
        if reading.image_size is not None and not public.is_dir():
            raise InputError(f"--image-size is for folders of image files, which {public} is not; leave it out.")
        shared, _ = load_samples(public, reading=reading)
    clients: dict[str, str | None] = {}
    for entry in client or []:
        who, keyed, key = entry.partition("=")
        if who in clients:
            raise InputError(f"The client '{who}' is given twice; give each one once, with its key.")
        clients[who] = check_public_key(key) if keyed else None
    if (classes is None) == (findings is None):
        raise InputError("Give --classes a,b,c (a sample has one) or --findings a,b,c (it may have several).")
    told = folder.resolve().name if name is None else name
    names = class_names(findings or classes or "")
    columns = getattr(shared, "label", ())
    if findings and len(columns) > 1 and columns != tuple(names):
        raise InputError(f"Findings go by the names of their columns; give --findings {','.join(columns)}.")
    base = Task.of(shared, ANSWERS, told, names) if findings else Task.of(shared, names, told)
    accepted = tuple(codec.strip() for codec in codecs.split(",") if codec.strip())
    # Not from a seed: a federation that is repeated must not take what was signed for the last one.
    task = replace(base, codecs=accepted, max_bytes=max_bytes, clients=clients, nonce=secrets.token_hex(8))
    task = replace(task, publish_targets=publish_targets)
    asked = {"bits": bits, "cap": cap, "least": least}
    given = {name: value for name, value in asked.items() if value is not None}
    noise = {"epsilon": dp_epsilon, "delta": dp_delta, "norm": dp_norm}
    task = summed_in_secret(task, helpers, given, {name: value for name, value in noise.items() if value is not None})
    if tokens and not clients:
        raise InputError("Tokens are for clients that the task lists; give each one with --client NAME.")
    if only_fingerprint:  # who has the samples reads them as here
        written = TaskFolder.create(folder, task, None, Reading.said_by(shared))
    else:
        written = TaskFolder.create(folder, task, shared)
    for who in clients if tokens else ():
        new_token(written, who, Path(tokens or "", f"{who}{SUFFIX}"))
    if as_json:
        print(json.dumps({"folder": str(folder), "id": task.id, "name": task.name, "samples": task.samples}))
        return
    kind = "findings" if findings else "classes"
    say(f"Task {task.name} ({task.id}): {task.samples:,} public samples, {len(names)} {kind}.")
    if task.secret:
        say(f"Answers are summed in secret by {' and '.join(task.secret.helpers)}, of {task.secret.least} and more.")
    if tokens:
        say(f"In {tokens} is a token for each client. Give each client its own, on a way that nobody else reads.")
    say(f"Give everyone a copy of {folder}{'; the public samples travel otherwise' if only_fingerprint else ''}.")


def summed_in_secret(task: Task, helpers: str | None, given: dict[str, Any], noise: dict[str, float]) -> Task:
    """The task with helpers whose public keys are in these files, where there are any."""
    if helpers is None:
        if given or noise:
            raise InputError(
                "--bits, --cap, --least and --dp-... are about sums in secret; give --helpers A.pub,B.pub, too."
            )
        return task
    from fedol.knowledge.terms import Terms
    from fedol.secret.encoding import Encoding
    from fedol.secret.keys import read_public
    from fedol.secret.noise import calibrated

    paths = [Path(name.strip()) for name in helpers.split(",") if name.strip()]
    if len({path.stem for path in paths}) < len(paths):
        raise InputError("Two helpers' files have the same name, which is how the helpers are called; rename one.")
    task = replace(task, secret=Terms({path.stem: read_public(path) for path in paths}, **given))
    _ = Encoding.of(task).scale  # that there is room for all clients is said now
    if "epsilon" in noise:
        return calibrated(task, noise["epsilon"], noise.get("delta", 1e-5), noise.get("norm", task.samples**0.5))
    if noise:  # nobody should believe that this is private
        raise InputError("--dp-delta and --dp-norm alone make nothing private; give --dp-epsilon too.")
    return task


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
    helper: Annotated[
        bool, typer.Option("--helper", help="Keys of a helper that sums in secret; the public ones go into FILE.pub.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make an Ed25519 key and print its public half, which goes to the coordinator.

    Examples: fedol keys new alice.key
              fedol keys new A.key --helper
    """
    from fedol.knowledge.signing import new_key
    from fedol.secret.keys import new_helper_key
    from fedol.text import say

    if helper:
        public, place = new_helper_key(file)
        if as_json:
            print(json.dumps({"private_key": str(file), "public_key": public, "public_file": str(place)}))
            return
        say(f"Private keys: {file} (keep them, and the ledger that will lie beside them). For the coordinator: {place}")
        return
    public = new_key(file)
    if as_json:
        print(json.dumps({"private_key": str(file), "public_key": public}))
        return
    say(f"Private key: {file} (keep it). Public key, for the coordinator:")
    print(public)


@keys.command("token")
def new_client_token(
    task: TaskDir,
    client: Annotated[str, typer.Argument(help="The client, by the name that its file is in.")],
    out: Annotated[Path, typer.Option(help="Where to write the token, for this client alone.")],
    as_json: Json = False,
) -> None:
    """Make a client's token for fedol serve --listen; a token that it had before is of no use any more.

    Example: fedol keys token task alice --out alice.token
    """
    from fedol.federation.taskfolder import TaskFolder
    from fedol.federation.tokens import new_token
    from fedol.text import say

    new_token(TaskFolder.open(task), client, out)
    if as_json:
        print(json.dumps({"client": client, "file": str(out)}))
        return
    say(f"{out}: the token of {client}. Give it to {client} alone; the task keeps its SHA-256.")


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
