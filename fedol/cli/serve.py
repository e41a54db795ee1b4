"""``fedol serve``: wait for clients' files, then train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedol.cli.options import (
    Augment,
    Average,
    BatchSize,
    DefenceNames,
    Device,
    Epochs,
    Force,
    Iterations,
    Json,
    LearningRate,
    Method,
    Patch,
    PublicImages,
    Quiet,
    Schedule,
    Seed,
    ServerModelName,
    TaskDir,
    Test,
    WeightDecay,
    Width,
    given,
)


def serve(
    task: TaskDir,
    inbox: Annotated[
        Path, typer.Option(readable=False, help="The folder that clients' files arrive in. It is only read.")
    ],
    out: Annotated[Path, typer.Option(help="The run folder; the same one again continues the run.")],
    force: Force = False,
    server_model: ServerModelName = None,
    quorum: Annotated[int | None, typer.Option(min=1, help="Start as soon as this many clients are in.")] = None,
    deadline: Annotated[str | None, typer.Option(help="Start at the latest after this time: 90s, 30m, 2h, 1d.")] = None,
    width: Width = None,
    method: Method = None,
    defence: DefenceNames = None,
    iterations: Iterations = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    lr: LearningRate = None,
    augment: Augment = None,
    schedule: Schedule = None,
    patch: Patch = None,
    average: Average = None,
    weight_decay: WeightDecay = None,
    seed: Seed = None,
    device: Device = None,
    public: PublicImages = None,
    test: Test = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Watch a folder, validate each arrival, start at quorum or deadline, train, write the model and the report.

    Killed at any moment, the same command goes on where it was (without --force, which begins anew).

    Example: fedol serve task --inbox inbox --model resnet56 --quorum 8 --deadline 2h --out runs/federation
    """
    options = {**locals()}
    apart = ("task", "inbox", "out", "force", "quorum", "deadline", "public", "test", "quiet", "as_json")
    settings = given({key: value for key, value in options.items() if key not in apart})
    from fedol.cli.finish import finish
    from fedol.federation.coordinator import Coordinator
    from fedol.federation.settings import ServerConfig
    from fedol.federation.taskfolder import TaskFolder
    from fedol.federation.transports.folder import Inbox
    from fedol.report.roster import RosterView
    from fedol.times import seconds

    wait = seconds(deadline) if deadline else None
    folder = TaskFolder.open(task)
    coordinator = Coordinator(folder, ServerConfig(folder.task.id, **settings), out, public, force=force)
    images = coordinator.test_set(test) if test else None
    with RosterView(Console(stderr=True), folder.task, quorum, quiet or as_json, deadline=wait) as view:
        coordinator.watch(Inbox(inbox), quorum, wait, view.show)
    finish(coordinator, images, quiet, as_json)
