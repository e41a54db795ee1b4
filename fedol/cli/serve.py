"""``fedol serve``: wait for clients' files, then train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedol.cli.interrupts import resumable
from fedol.cli.options import Config, Force, Json, PublicImages, Quiet, TaskDir, Test, TrustCode, with_settings
from fedol.settings import ServerSettings


@with_settings(ServerSettings, names={"server_model": ("--server-model", "--model")})
def serve(
    settings: dict[str, Any],
    task: TaskDir,
    inbox: Annotated[
        Path, typer.Option(readable=False, help="The folder that clients' files arrive in. It is only read.")
    ],
    out: Annotated[Path, typer.Option(help="The run folder; the same one again continues the run.")],
    quorum: Annotated[int | None, typer.Option(min=1, help="Start as soon as this many clients are in.")] = None,
    deadline: Annotated[str | None, typer.Option(help="Start at the latest after this time: 90s, 30m, 2h, 1d.")] = None,
    force: Force = False,
    config: Config = None,
    trust_code: TrustCode = False,
    public: PublicImages = None,
    test: Test = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Watch a folder, validate each arrival, start at quorum or deadline, train, write the model and the report.

    Killed at any moment, the same command goes on where it was.

    Example: fedol serve task --inbox inbox --model resnet56 --quorum 8 --deadline 2h --out runs/federation
    """
    resumable(force)
    from fedol.cli.finish import finish
    from fedol.config import configure_server
    from fedol.federation.coordinator import Coordinator
    from fedol.federation.taskfolder import TaskFolder
    from fedol.federation.transports.folder import Inbox
    from fedol.report.roster import RosterView
    from fedol.text import seconds

    wait = seconds(deadline) if deadline else None
    folder = TaskFolder.open(task)
    frozen = configure_server(folder.task.id, config, settings, trust_code)
    coordinator = Coordinator(folder, frozen, out, public, force=force)
    images = coordinator.test_set(test) if test else None
    with RosterView(Console(stderr=True), folder.task, quorum, quiet or as_json, deadline=wait) as view:
        coordinator.watch(Inbox(inbox), quorum, wait, view.show)
    finish(coordinator, images, quiet, as_json)
