"""``fedol partition``: who would hold what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedol.cli.options import Config, Json, Preset, with_settings
from fedol.settings import Dealing


@with_settings(Dealing)
def partition(
    settings: dict[str, Any],
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
    import numpy as np

    from fedol.config import configure
    from fedol.federation.scenario import Scenario
    from fedol.report.plots import partition_heat_map
    from fedol.report.progress import LiveProgress
    from fedol.report.tables import partition_table

    wanted = configure(preset, config, settings, trust_code=True)  # which builds no model
    with LiveProgress(quiet=as_json):
        dealt = Scenario(wanted).describe()
    classes, counts = dealt["classes"], np.array(dealt["samples_per_client_and_class"])
    if plot:
        partition_heat_map(counts, classes, f"{dealt['dataset']}, {wanted.partition}", plot)
    if as_json:
        print(json.dumps({key: dealt[key] for key in ("classes", "samples_per_client_and_class")}))
    else:
        Console().print(partition_table(counts, classes))
