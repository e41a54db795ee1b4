"""The end of ``serve`` and ``distill``: train with a progress bar, then show what came of it."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from fedol.data import Labelled
from fedol.federation.coordinator import Coordinator
from fedol.progress import Several
from fedol.report.pages import Pages
from fedol.report.plain import plain
from fedol.report.progress import LiveProgress
from fedol.report.server import remarks, server_table
from fedol.runs.folder import REPORT, SHARED


def finish(coordinator: Coordinator, test: Labelled | None, quiet: bool, as_json: bool) -> dict[str, Any]:
    """Train on what was collected, print the summary and return it."""
    with LiveProgress(quiet=quiet or as_json) as progress:
        summary = coordinator.run(Several(progress, Pages()), test)
    if as_json:
        print(json.dumps({"out": str(coordinator.out), **summary}, indent=1))
    if as_json or quiet:
        return summary
    console = Console()
    console.print(server_table(summary))
    for line in remarks(summary):
        console.print(plain(line))
    console.print(plain(f"Run folder: {coordinator.out} (MODEL_CARD.md says what the model is)."))
    console.print(plain(f"Report: {coordinator.out / REPORT}"), soft_wrap=True)
    console.print(plain(f"To pass on, without single clients' answers: {coordinator.out / SHARED}"), soft_wrap=True)
    return summary
