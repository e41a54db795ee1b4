"""``fedol client send``: bring a file to where the coordinator collects, a folder or a server that listens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedol.cli.interrupts import resumable
from fedol.cli.options import Json, PolicyFile, Quiet
from fedol.errors import FedolError, InputError

SERVER = "A server"


def send(
    file: Annotated[Path, typer.Argument(help="The file that client predict made.")],
    to: Annotated[str, typer.Argument(metavar="DEST", help="https://HOST:PORT, or a folder.")],
    token_file: Annotated[
        Path | None, typer.Option(help="Your token, as the coordinator gave it to you.", rich_help_panel=SERVER)
    ] = None,
    cert: Annotated[
        Path | None, typer.Option(help="Your certificate, instead of a token or beside it.", rich_help_panel=SERVER)
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's private key.", rich_help_panel=SERVER)] = None,
    ca: Annotated[
        Path | None,
        typer.Option(help="Whose certificates the server may have; by default the system's.", rich_help_panel=SERVER),
    ] = None,
    server_key: Annotated[
        str | None, typer.Option(help="The public key that must have signed the receipt.", rich_help_panel=SERVER)
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(help="Where the receipt goes; FILE.receipt.json by default.", rich_help_panel=SERVER)
    ] = None,
    patience: Annotated[
        str, typer.Option(help="How long to go on trying: 90s, 30m, 2h.", rich_help_panel=SERVER)
    ] = "10m",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow http:// to this machine.", rich_help_panel=SERVER)
    ] = False,
    policy: PolicyFile = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Send your file: to a server that listens, with retries, or into a folder.

    A connection that breaks is taken up where it stopped, also by the same command later. The receipt is signed by the
    server; a file that the coordinator's side refuses ends the command with the reason. What your site's policy does
    not let leave is not sent.

    Examples: fedol client send alice.fedol https://fedol.example.org:8443 --token-file alice.token
              fedol client send alice.fedol /mnt/inbox
    """
    from fedol.federation.sending import into_folder, look
    from fedol.text import say, seconds

    given: dict[str, Any] = {"--token-file": token_file, "--cert": cert, "--key": key, "--ca": ca}
    if "://" not in to:
        if said := [name for name, value in given.items() if value]:
            raise InputError(f"{said[0]} is for a server; a folder needs none, and a server begins with https://.")
        place = into_folder(file, Path(to), policy)
        if as_json:
            print(json.dumps({"file": str(file), "to": str(place)}))
        elif not quiet:
            say(f"{file} is in {place.parent}, as {place.name}.")
        return
    resumable()
    from fedol.federation.tokens import read_token
    from fedol.federation.transports.https_client import Sender, Server
    from fedol.files import write_json
    from fedol.report.live import LiveProgress
    from fedol.report.terminal import plain, size

    if token_file is None and cert is None:
        raise InputError("The server must know whose file it is: give --token-file, or --cert and --key.")
    if (cert is None) != (key is None):
        raise InputError("--cert and --key belong together; give both.")
    server = Server(to, read_token(token_file) if token_file else None, cert, key, ca, insecure)
    console = Console(stderr=True)
    kept = receipt or file.with_name(f"{file.name}.receipt.json")

    def tell(line: str) -> None:
        if not (quiet or as_json):
            console.print(plain(line), soft_wrap=True)

    with LiveProgress(quiet=quiet or as_json):
        outgoing = look(file, policy)
        sender = Sender(server, outgoing.data, outgoing.client, tell, seconds(patience))
        found, page = sender.send(outgoing.task, server_key)
    write_json(kept, found.as_json())
    if as_json:
        print(json.dumps({"receipt": found.as_json(), "kept": str(kept), "page": page}))
    elif not quiet:
        say(f"{file}: {size(found.size)} sent; {STATES[found.state]}. Receipt, signed by the server: {kept}")
        say(f"What becomes of it: {page}")
    if found.state not in ("accepted", "waiting"):
        raise FedolError(f"The server has your file, but does not use it: {found.reason}.")


STATES = {
    "accepted": "it is in",
    "waiting": "it is waiting to be looked at",
    "refused": "it is refused",
    "elsewhere": "another file of yours counts",
    "late": "it came too late",
}
