"""``fedol reproduce``: a finished run once more, and whether the same bytes come of it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from fedol.cli import complete
from fedol.cli.options import Json, PublicSamples, Quiet, TrustCode
from fedol.errors import InputError

DIFFERENT = 1  # the exit code where the bytes are others


def reproduce(
    run: Annotated[Path, typer.Argument(help="A finished run.", autocompletion=complete.run_folders)],
    task: Annotated[Path | None, typer.Option(help="The task's folder, where it is not where it was.")] = None,
    out: Annotated[Path | None, typer.Option(help="Keep the new run here; by default it is compared and goes.")] = None,
    public: PublicSamples = None,
    trust_code: TrustCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make a finished run again and compare the bytes: uploads, checkpoints, votes, the verdict on clients, the model.

    Where they differ, it says which files do, by how much, and what is not as it was: code, versions, machine, device.
    Then the exit code is 1.

    Example: fedol reproduce runs/federation
    """
    from fedol.federation.reproduction import reproduced
    from fedol.report.live import LiveProgress
    from fedol.text import say

    if out is not None and out.exists():
        raise InputError(f"{out} is there already; a run is made again in a new folder.")
    with tempfile.TemporaryDirectory() as scratch, LiveProgress(quiet=quiet or as_json) as progress:
        found = reproduced(run, out or Path(scratch) / "run", task, public, trust_code, progress)
    if as_json:
        print(json.dumps({"run": str(run), **found.as_json()}, indent=1))
    elif not quiet:
        verdict = "reproduced" if found.whole else "not reproduced"
        say(f"{run} is {verdict}: {len(found.same)} of {len(found.same) + len(found.different)} files have its bytes.")
        for name, why in found.different.items():
            say(f"  {name} {why}")
        for name, (then, now) in found.around.items():
            say(f"  {name} was {then}, now {now}")
    if not found.whole:
        raise typer.Exit(DIFFERENT)
