"""``fedol keys new``: a key to sign with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedol.cli.options import Json

app = typer.Typer(
    help="Keys, for federations whose files are signed.",
    epilog="Example: fedol keys new alice.key",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """One command so far; the callback keeps its name."""


@app.command()
def new(
    file: Annotated[Path, typer.Argument(help="Where to write the private key. It never leaves this machine.")],
    as_json: Json = False,
) -> None:
    """Make an Ed25519 key and print its public half, which goes to the coordinator.

    Example: fedol keys new alice.key
    """
    from fedol.signing import new_key
    from fedol.text import say

    public = new_key(file)
    if as_json:
        print(json.dumps({"private_key": str(file), "public_key": public}))
        return
    say(f"Private key: {file} (keep it). Public key, for the coordinator:")
    print(public)
