"""What the report of a benchmark shows: the paper's table and figure, ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedol.bench.cost_sheet import cost_sheet
from fedol.bench.sheets import OTHERS, has, measure, other_clients, settings_in_words
from fedol.bench.store import ELSEWHERE, BenchFolder
from fedol.files import intact
from fedol.report.bench_tables import collect
from fedol.report.cell_view import cell_view
from fedol.report.rounds_chart import rounds_chart

MOST_RUNS = 300  # that the page itself tells of, to stay below 2 MB; the others are files in the folder


def bench_view(folder: Path) -> dict[str, Any]:
    """The values of ``templates/bench.html``."""
    numbers = collect(folder)
    tables = [
        {
            **table,
            "words": settings_in_words(table["settings"]),
            "measure": measure(table["settings"]),
            "beside": has(table, "paper"),
            "over_fedol": has(table, "over_fedol"),
            "other_clients": other_clients(table),
        }
        for table in numbers["one_round"]
    ]
    panels = [
        {**panel, "words": settings_in_words(panel["settings"]), "chart": rounds_chart(panel)}
        for panel in numbers["rounds"]
    ]
    results = list(BenchFolder(folder).results())
    runs = []
    for result in results[:MOST_RUNS]:
        with intact(folder / result["file"], ELSEWHERE):
            runs.append(cell_view(result))
    return {
        "name": folder.resolve().name,
        "others": OTHERS,
        "tables": tables,
        "panels": panels,
        "beside": any(table["beside"] for table in tables) or any(panel["beside"] for panel in panels),
        "costs": [cost_sheet(table, number) for number, table in enumerate(numbers["cost"], 1)],
        "cells": len(results),
        "runs": runs,
        "shown": {run["file"]: run["id"] for run in runs},
    }
