"""The end of ``serve`` and ``distill``: train with a progress bar, then show what came of it."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from fedol.data import Images
from fedol.federation.coordinator import Coordinator
from fedol.methods import trainings
from fedol.report.pages import SHARED
from fedol.report.plain import plain
from fedol.report.progress import LiveProgress
from fedol.report.server import remarks, server_table


def finish(coordinator: Coordinator, test: Images | None, quiet: bool, as_json: bool) -> dict[str, Any]:
    """Train on what was collected, print the summary and return it."""
    with LiveProgress(quiet=quiet or as_json) as progress:
        plan = coordinator.settings
        missing = trainings(plan.method, plan.iterations) - coordinator.folder.finished()
        progress.stage("server", missing * plan.recipe.epochs)
        summary = coordinator.run(progress.epoch, test)
    if as_json:
        print(json.dumps({"out": str(coordinator.out), **summary}, indent=1))
    if as_json or quiet:
        return summary
    console = Console()
    console.print(server_table(summary))
    for line in remarks(summary):
        console.print(plain(line))
    console.print(plain(f"Run folder: {coordinator.out} (MODEL_CARD.md says what the model is)."))
    console.print(plain(f"Report: {coordinator.out / 'report.html'}"), soft_wrap=True)
    console.print(plain(f"To pass on, without single clients' answers: {coordinator.out / SHARED}"), soft_wrap=True)
    return summary
