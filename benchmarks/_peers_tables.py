"""The table of docs/benchmark.md with other engines, from the records of ``peers.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from _published import record, table

COLUMNS = {
    ("peers", "fedavg"): "FedAvg, digits",
    ("peers", "distill"): "distillation, digits",
    ("peers-fashion", "fedavg"): "FedAvg, Fashion-MNIST",
}
NAMES = {
    "plain": "plain loop, PyTorch {torch}",
    "flower": "Flower {flwr} on Ray {ray}",
    "pfl_research": "pfl-research {pfl}",
    "pfl_research x2": "the same, two processes",
    "ours x1": "FedOL, one at a time",
    "ours": "FedOL",
}


def engines() -> str:
    """Of each peer the seconds of each work, its memory, its user's lines, and how far it is from the plain loop."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {
        (name, row["task"], row["peer"]): row
        for name in dict.fromkeys(name for name, _ in COLUMNS)
        for row in record(name)["summary"]
    }
    lines = []
    for peer, title in NAMES.items():
        mine = [found[(*column, peer)] for column in COLUMNS]
        cells = [f"{row['start']:.1f} + {row['work']:.1f} ({row['ratios']['work']:.2f} ×)" for row in mine]
        far = "" if peer == "plain" else f"{max(row['difference'] for row in mine):.0e}"
        memory = f"{max(row['memory'] for row in mine) / 1e6:,.0f}"
        lines.append(
            [title.format(**mine[0]["versions"]), str(mine[0]["at once"]), *cells, memory, str(mine[0]["lines"]), far]
        )
    return table(["", "at once", *COLUMNS.values(), "peak MB", "lines", "differs by"], lines)


TABLES: dict[str, Callable[[], str]] = {"peers": engines}
