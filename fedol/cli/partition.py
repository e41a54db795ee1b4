"""``fedol partition``: who would hold what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedol.cli.options import Clients, Config, DataDir, Dataset, Json, Partition, Preset, Public, Seed, given


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
    as_json: Json = False,
) -> None:
    """Show who would hold what: samples per client and a summary of their classes.

    Example: fedol partition --dataset digits --partition dirichlet:0.1 --plot heat.png
    """
    options = {key: value for key, value in locals().items() if key not in ("preset", "config", "plot", "as_json")}
    import numpy as np

    from fedol.config import configure
    from fedol.data import load, split
    from fedol.data import partition as deal
    from fedol.report.plots import partition_heat_map
    from fedol.report.progress import LiveProgress
    from fedol.report.tables import partition_table

    settings = configure(preset, config, given(options))
    with LiveProgress(quiet=as_json):
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
