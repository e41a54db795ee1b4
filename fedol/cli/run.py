"""``fedol run``: a whole federation, simulated."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedol.cli.options import (
    Augment,
    Average,
    BatchSize,
    Clients,
    Config,
    DataDir,
    Dataset,
    Device,
    Force,
    Iterations,
    Json,
    LearningRate,
    Partition,
    Patch,
    Preset,
    Public,
    Quiet,
    Schedule,
    Seed,
    TrustCode,
    WeightDecay,
    Width,
    given,
)

if TYPE_CHECKING:
    from fedol.federation.engine import Engine
    from fedol.federation.simulation import RunResult
    from fedol.training import Epoch


NOT_SETTINGS = ["engine", "client_cpus", "client_gpus", "preset", "config", "trust_code"]
NOT_SETTINGS += ["out", "force", "tensorboard", "quiet", "as_json"]


def run(
    dataset: Dataset = None,
    data_dir: DataDir = None,
    clients: Clients = None,
    partition: Partition = None,
    public: Public = None,
    client_models: Annotated[
        str | None, typer.Option(help="Models dealt to the clients in turn, for instance resnet11,resnet20.")
    ] = None,
    server_model: Annotated[
        str | None, typer.Option(help="The server's model, for instance resnet56 or my.py:Class.")
    ] = None,
    width: Width = None,
    codec: Annotated[
        str | None, typer.Option(help="How uploads are packed: float32, float16, q7c60, top10, each also with +zstd.")
    ] = None,
    parameter_model: Annotated[
        str | None, typer.Option(help="Everyone's model in methods that average weights (fedavg, fedprox).")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="fedol, fedol+, pooled, feddf, fedhkt, fedet, mine, fedkt, fedavg, fedprox, local or a variant."
        ),
    ] = None,
    defence: Annotated[
        str | None,
        typer.Option(
            help="Against clients that lie, as in serve and distill: some of trust, exact, cap, runoff, floor, with "
            "commas between. The default here is none, the paper's method: simulated clients are honest."
        ),
    ] = None,
    iterations: Iterations = None,
    tau: Annotated[
        float | None, typer.Option(help="Weight of the pseudo-labels (Eq. 7), in fedol and fedol+; others have none.")
    ] = None,
    rho: Annotated[
        float | None,
        typer.Option(help="Share of samples a model votes on in the first iteration of fedol; fedol+ finds its own."),
    ] = None,
    rho_step: Annotated[
        float | None, typer.Option(help="What rho grows by in each iteration of fedol; fedol+ has none.")
    ] = None,
    mu: Annotated[float | None, typer.Option(help="FedProx's pull towards the common weights.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of every training; for the server's, see --server-epochs.")
    ] = None,
    server_epochs: Annotated[
        int | None, typer.Option(help="Epochs of each server iteration; else the preset's, or as many as a client's.")
    ] = None,
    batch_size: BatchSize = None,
    lr: LearningRate = None,
    augment: Augment = None,
    optimiser: Annotated[
        str | None, typer.Option(help="Of clients and server: adam, or sgd (momentum 0.9; wants a larger --lr).")
    ] = None,
    schedule: Schedule = None,
    patch: Patch = None,
    average: Average = None,
    weight_decay: WeightDecay = None,
    development: Annotated[
        int | None, typer.Option(help="Private labeled images that take the test set's place, to tune on.")
    ] = None,
    seed: Seed = None,
    device: Device = None,
    engine: Annotated[
        str, typer.Option(help="What trains the clients: process (this one) or flower (Ray, many processes).")
    ] = "process",
    client_cpus: Annotated[float, typer.Option(help="CPU cores per client on Flower.")] = 1.0,
    client_gpus: Annotated[float, typer.Option(help="GPUs per client on Flower; 0.25: four share one.")] = 0.0,
    preset: Preset = None,
    config: Config = None,
    trust_code: TrustCode = False,
    out: Annotated[Path | None, typer.Option(help="The run folder; the same one again continues the run.")] = None,
    force: Force = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also log for TensorBoard, into the run folder's tensorboard/.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Simulate a federation: train the clients, collect one upload each, train the server, show the table.

    What is not given is the preset's; docs/settings.md has every value of each. A run with other settings or data, or
    with a model or method of yours that has changed, is not continued; --force makes it anew.

    Examples: fedol run --out runs/first
              fedol run --dataset cifar100 --data-dir DATA --preset paper --partition classes:20 --out runs/c20
    """
    options = {key: value for key, value in locals().items() if key not in NOT_SETTINGS}
    from fedol.config import configure
    from fedol.federation.simulation import default_folder
    from fedol.federation.simulation import run as simulate
    from fedol.report.board import BoardLog
    from fedol.report.plain import plain
    from fedol.report.progress import LiveProgress
    from fedol.report.server import suspicions
    from fedol.report.tables import history_table, run_table

    settings = configure(preset, config, given(options), trust_code)
    folder = out or default_folder(settings)
    trains = _engine(engine, client_cpus, client_gpus)
    with (
        LiveProgress(quiet=quiet or as_json) as progress,
        BoardLog(folder / "tensorboard") if tensorboard else nullcontext() as board,
    ):
        seen = board.epoch if board else lambda epoch: None

        def on_epoch(epoch: Epoch) -> None:
            progress.epoch(epoch)
            seen(epoch)

        result = simulate(settings, out=folder, on_epoch=on_epoch, on_stage=progress.stage, engine=trains, force=force)
        if board:
            board.result(result.summary)
    if as_json:
        print(json.dumps({"out": str(result.out), **result.summary}, indent=1))
    if as_json or quiet:
        return
    console = Console()
    if result.already_finished:
        console.print("This run was finished already; here is its result.")
    if result.summary["history"]:
        console.print(history_table(result.summary["history"]), "")
    console.print(run_table(result.summary), "")
    for line in (*suspicions(result.summary), *_closing(result)):
        console.print(plain(line), soft_wrap=True)


def _engine(name: str, cpus: float, gpus: float) -> Engine:
    from fedol.errors import unknown
    from fedol.federation.engine import in_process

    if name == "process":
        return in_process
    if name != "flower":
        raise unknown("engine", name, ("process", "flower"))
    from fedol.federation.flower.engine import on_ray

    return on_ray(cpus, gpus)


def _closing(result: RunResult) -> list[str]:
    """How long it took, and where everything is."""
    since = " since it was resumed" if result.summary["resumed"] else ""
    took = f"Took {result.summary['seconds']:.0f} s{since} on {result.summary['provenance']['device']}."
    loads = " (fedol.load gives back the trained model)" if result.summary["server"] else ""
    return [took, f"Run folder: {result.out}{loads}.", f"Report: {result.out / 'report.html'}"]
