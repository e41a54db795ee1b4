"""The command line: parse, call, print. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedol.errors import FedolError

app = typer.Typer(
    name="fedol",
    help="One larger server model from many small private ones, with a single upload per client.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _main(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from fedol import __version__

        print(__version__)
        raise typer.Exit


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


@app.command()
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
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Simulate a federation: train the clients, collect one upload each, train the server, show the table.

    Example: fedol run --dataset cifar100 --data-dir DATA --preset paper --partition classes:20 --out runs/c20
    """
    given = {key: value for key, value in locals().items() if key not in ("preset", "config", "out", "as_json")}
    from fedol.config import configure
    from fedol.federation.simulation import run as simulate
    from fedol.report.progress import TrainingProgress
    from fedol.report.tables import run_table

    settings = configure(preset, config, _given(given))
    with TrainingProgress(Console(stderr=True), quiet=as_json) as progress:
        result = simulate(settings, out=out, on_epoch=progress.epoch, on_stage=progress.stage)
    if as_json:
        print(json.dumps({"out": str(result.out), **result.summary}, indent=1))
        return
    console = Console()
    console.print(run_table(result.summary))
    console.print(f"Run folder: {result.out} (fedol.load gives back the trained model).", highlight=False)


@app.command()
def partition(
    dataset: Dataset = None,
    data_dir: DataDir = None,
    clients: Clients = None,
    partition: Partition = None,
    public: Public = None,
    seed: Seed = None,
    preset: Preset = None,
    config: Config = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the client × class heat map into this file (png, svg, pdf).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Show who would hold what: samples per client and a summary of their classes.

    Example: fedol partition --dataset digits --partition dirichlet:0.1 --plot heat.png
    """
    given = {key: value for key, value in locals().items() if key not in ("preset", "config", "plot", "as_json")}
    import numpy as np

    from fedol.config import configure
    from fedol.data import load, split
    from fedol.data import partition as deal
    from fedol.report.plots import partition_heat_map
    from fedol.report.tables import partition_table

    settings = configure(preset, config, _given(given))
    data = load(settings.dataset, settings.data_dir)
    labels = split(data, settings.public, settings.seed).private.y
    shares = deal(labels, settings.partition, settings.clients, settings.seed, len(data.classes))
    counts = np.stack([np.bincount(labels[share], minlength=len(data.classes)) for share in shares])
    if plot:
        partition_heat_map(counts, data.classes, f"{data.name}, {settings.partition}", plot)
    if as_json:
        print(json.dumps({"classes": list(data.classes), "samples_per_client_and_class": counts.tolist()}))
    else:
        Console().print(partition_table(counts, data.classes))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def main() -> None:
    """Entry point: an error that a user can mend is one sentence and exit code 2, never a traceback."""
    try:
        app()
    except FedolError as error:
        Console(stderr=True).print(f"[bold red]Error:[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped; what is finished is kept. The same command continues.")
        sys.exit(130)
