"""``fedol run``: a whole federation, simulated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedol.cli.options import Clients, Config, DataDir, Dataset, Json, Partition, Preset, Public, Seed, given


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
        str | None, typer.Option(help="The server's model, for instance resnet56 or package.module:callable.")
    ] = None,
    width: Annotated[int | None, typer.Option(help="Width of the built-in models.")] = None,
    codec: Annotated[
        str | None, typer.Option(help="How uploads are packed: float32, float16, q7c60, top10, each also with +zstd.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="The method that turns knowledge into targets.")] = None,
    iterations: Annotated[int | None, typer.Option(help="Iterations of voting and training.")] = None,
    tau: Annotated[float | None, typer.Option(help="Weight of the pseudo-labels (Eq. 7).")] = None,
    rho: Annotated[float | None, typer.Option(help="Share of samples a model votes on in the first iteration.")] = None,
    rho_step: Annotated[float | None, typer.Option(help="What rho grows by in each iteration.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of every training, client and server.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Batch size of every training.")] = None,
    lr: Annotated[float | None, typer.Option(help="Adam's learning rate.")] = None,
    seed: Seed = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.")] = None,
    preset: Preset = None,
    config: Config = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; the same one again continues the run.")] = None,
    as_json: Json = False,
) -> None:
    """Simulate a federation: train the clients, collect one upload each, train the server, show the table.

    Example: fedol run --dataset cifar100 --data-dir DATA --preset paper --partition classes:20 --out runs/c20
    """
    options = {key: value for key, value in locals().items() if key not in ("preset", "config", "out", "as_json")}
    from fedol.config import configure
    from fedol.federation.simulation import run as simulate
    from fedol.report.progress import TrainingProgress
    from fedol.report.tables import run_table

    settings = configure(preset, config, given(options))
    with TrainingProgress(Console(stderr=True), quiet=as_json) as progress:
        result = simulate(settings, out=out, on_epoch=progress.epoch, on_stage=progress.stage)
    if as_json:
        print(json.dumps({"out": str(result.out), **result.summary}, indent=1))
        return
    console = Console()
    console.print(run_table(result.summary))
    console.print(f"Run folder: {result.out} (fedol.load gives back the trained model).", highlight=False)
