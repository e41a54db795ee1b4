"""``fedol attack``: what hostile clients would send, to test one's own federation with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedol.errors import InputError


def attack(
    files: Annotated[list[Path], typer.Argument(help="Knowledge files of the clients that turn hostile.")],
    name: Annotated[
        str,
        typer.Option(
            "--attack",
            help="constant, random, noise, permuted, colluding, copies, backdoor, forged, specialist3, specialist10, "
            "adaptive, parrot or modest.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where the attacked copies go, under the files' own names.")],
    knows: Annotated[
        list[Path] | None, typer.Option(help="Files of other clients that the attacker knows; give it once per file.")
    ] = None,
    seed: Annotated[int, typer.Option(help="All randomness comes from this one number.")] = 0,
) -> None:
    """Write attacked copies of knowledge files, to see what your federation makes of them. Copies are not signed.

    Example: fedol attack inbox/mallory.fedol inbox/trudy.fedol --attack colluding --out hostile
    """
    from fedol.report.progress import LiveProgress
    from fedol.robust.files import attack_files
    from fedol.text import say

    if out.exists() and any((out / file.name).exists() for file in files):
        raise InputError(f"{out} holds files of these names already; choose another folder.")
    with LiveProgress():
        written = attack_files(files, name, out, knows or [], seed)
    for path in written:
        say(path)
