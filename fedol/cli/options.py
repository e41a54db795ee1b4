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
Partition = Annotated[
    str | None, typer.Option(help="dirichlet:ALPHA, classes:PER_CLIENT, iid, or sites: those of the data.")
]
Public = Annotated[int | None, typer.Option(help="Number of unlabeled public samples.")]
Seed = Annotated[int | None, typer.Option(help="All randomness comes from this one number.")]
Preset = Annotated[str | None, typer.Option(help="quick (the default), paper or best.")]
Config = Annotated[Path | None, typer.Option(help="A TOML file with any of these settings.")]
TrustCode = Annotated[
    bool,
    typer.Option("--trust-code", help="Run code that a file names as its model; only if you trust whoever made it."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]

TaskDir = Annotated[Path, typer.Argument(help="The task's folder.")]
PublicImages = Annotated[
    Path | None, typer.Option("--public", help="The public images, where they are not in the task's folder.")
]
ServerModelName = Annotated[
    str | None, typer.Option("--model", help="The server's model: resnet56 (the default), my.py:Class, ...")
]
Width = Annotated[int | None, typer.Option(help="Width of the built-in models.")]
Method = Annotated[
    str | None, typer.Option(help="fedol (the default), fedol+, pooled, mixture, feddf, fedhkt, fedet, mine, ...")
]
DefenceNames = Annotated[
    str | None,
    typer.Option(
        "--defence",
        help="Against clients that lie, with commas between: trust, exact, cap, runoff (the default: these four), "
        "floor; or none, the paper's method.",
    ),
]
Iterations = Annotated[
    int | None,
    typer.Option(help="Iterations of voting and training, in fedol, its variants and fedol+; others train once."),
]
Epochs = Annotated[int | None, typer.Option(help="Epochs of every training.")]
BatchSize = Annotated[int | None, typer.Option(help="Batch size of every training.")]
LearningRate = Annotated[float | None, typer.Option("--lr", help="The learning rate.")]
Augment = Annotated[bool | None, typer.Option("--augment/--no-augment", help="Random flip and crop in training.")]
Schedule = Annotated[str | None, typer.Option(help="Of the learning rate: constant, cosine or one-cycle.")]
Patch = Annotated[str | None, typer.Option(help="In the server's images: none, cutout or cutmix.")]
Average = Annotated[float | None, typer.Option(help="Decay of a running average of the server's weights; 0 is none.")]
WeightDecay = Annotated[float | None, typer.Option(help="Decay of the server's weights (with Adam: AdamW).")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.")]
Test = Annotated[
    Path | None, typer.Option(help="Labelled images (.npz with test_x and test_y) to score the model with at the end.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Make the run in this folder anew, whatever it was made with and of.")
]


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; the others are left to preset and file."""
    return {name: value for name, value in options.items() if value is not None}
