"""``fedol distill``: train from files that are there, or go on with late ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    Test,
    TrustCode,
    WeightDecay,
    Width,
    given,
)
from fedol.errors import InputError


def distill(
    paths: Annotated[list[Path], typer.Argument(metavar="TASK FILES...", help="The task's folder, then the files.")],
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the model of this finished run; then the arguments are new files.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; the same one again continues the run.")] = None,
    force: Force = False,
    server_model: ServerModelName = None,
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
    options = {**locals()}
    apart = ("paths", "resume", "out", "force", "public", "test", "trust_code", "quiet", "as_json")
    settings = given({key: value for key, value in options.items() if key not in apart})
    from fedol.federation.coordinator import Coordinator, check_there
    from fedol.federation.finish import finish
    from fedol.federation.late import continued
    from fedol.federation.settings import ServerConfig
    from fedol.federation.taskfolder import TaskFolder

    if resume is not None:
        coordinator, files = continued(resume, paths, out, settings, public, trust_code, force)
    else:
        folder, files = TaskFolder.open(paths[0]), paths[1:]
        if not files:
            raise InputError("There are no files to learn from; give them after the task's folder.")
        if out is None:
            raise InputError("Say where the run goes, for instance --out runs/one.")
        if force:
            check_there(files)  # before anything is removed
        coordinator = Coordinator(folder, ServerConfig(folder.task.id, **settings), out, public, force=force)
    images = coordinator.test_set(test) if test else None
    coordinator.collect(files)
    finish(coordinator, images, quiet, as_json)
