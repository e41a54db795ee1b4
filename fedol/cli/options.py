"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Dataset = Annotated[
    str | None, typer.Option(help="digits, cifar10, cifar100, fashion-mnist, an .npz file or a folder of images.")
]
DataDir = Annotated[str | None, typer.Option(help="Where the dataset's files are.")]
Clients = Annotated[int | None, typer.Option(help="Number of clients.")]
Partition = Annotated[str | None, typer.Option(help="dirichlet:ALPHA, classes:PER_CLIENT or iid.")]
Public = Annotated[int | None, typer.Option(help="Number of unlabeled public samples.")]
Seed = Annotated[int | None, typer.Option(help="All randomness comes from this one number.")]
Preset = Annotated[str | None, typer.Option(help="quick (the default) or paper.")]
Config = Annotated[Path | None, typer.Option(help="A TOML file with any of these settings.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; the others are left to preset and file."""
    return {name: value for name, value in options.items() if value is not None}
