"""``fedol distill``: train from files that are there, or go on with late ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedol.cli.interrupts import resumable
from fedol.cli.options import Config, Force, Json, PublicImages, Quiet, Test, TrustCode, with_settings
from fedol.errors import InputError
from fedol.settings import ServerSettings


@with_settings(ServerSettings, names={"server_model": ("--server-model", "--model")})
def distill(
    settings: dict[str, Any],
    paths: Annotated[list[Path], typer.Argument(metavar="TASK FILES...", help="The task's folder, then the files.")],
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the model of this finished run; then the arguments are new files.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; the same one again continues the run.")] = None,
    force: Force = False,
    config: Config = None,
    public: PublicImages = None,
    test: Test = None,
    trust_code: TrustCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a server model from knowledge files, at once.

    With --resume the server model of a finished run goes on learning, from all its clients and the new ones; settings
    that are not given are that run's, and the result is a run of its own (by default RUN-resumed). A run with other
    settings or a changed model or method of yours is not continued; --force makes it anew.

    Examples: fedol distill task *.fedol --model resnet56 --out runs/one
              fedol distill --resume runs/one late.fedol
    """
    resumable(force)
    from fedol.cli.finish import finish
    from fedol.config import configure_server, trusted
    from fedol.federation.coordinator import Coordinator, check_there
    from fedol.federation.resume import continued
    from fedol.federation.taskfolder import TaskFolder

    if resume is not None:
        coordinator, files = continued(
            resume, paths, out, trusted(config, settings, trust_code), public, trust_code, force
        )
    else:
        folder, files = TaskFolder.open(paths[0]), paths[1:]
        if not files:
            raise InputError("There are no files to learn from; give them after the task's folder.")
        if out is None:
            raise InputError("Say where the run goes, for instance --out runs/one.")
        if force:
            check_there(files)  # before anything is removed
        frozen = configure_server(folder.task.id, config, settings, trust_code)
        coordinator = Coordinator(folder, frozen, out, public, force=force)
    images = coordinator.test_set(test) if test else None
    coordinator.collect(files)
    finish(coordinator, images, quiet, as_json)
