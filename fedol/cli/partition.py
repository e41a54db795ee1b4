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
    from fedol.federation.scenario import Scenario
    from fedol.report.plots import partition_heat_map
    from fedol.report.progress import LiveProgress
    from fedol.report.tables import partition_table

    settings = configure(preset, config, given(options), trust_code=True)  # which builds no model
    with LiveProgress(quiet=as_json):
        dealt = Scenario(settings).describe()
    classes, counts = dealt["classes"], np.array(dealt["samples_per_client_and_class"])
    if plot:
        partition_heat_map(counts, classes, f"{dealt['dataset']}, {settings.partition}", plot)
    if as_json:
        print(json.dumps({key: dealt[key] for key in ("classes", "samples_per_client_and_class")}))
    else:
        Console().print(partition_table(counts, classes))
