"""Terminal tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table

from fedol.methods import title


def percent(value: float) -> str:
    """An accuracy for people: one decimal, in percent."""
    return f"{100 * value:.1f} %"


def size(count: float) -> str:
    """Bytes for people: 16.2 kB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def run_table(summary: dict[str, Any]) -> Table:
    """The result of a run: every client, their mean, their ensemble, and the server model."""
    table = Table(title=f"{summary['config']['dataset']}, {summary['config']['partition']}: test accuracy")
    table.add_column("")
    table.add_column("model")
    for heading in ("parameters", "samples", "classes", "uploads", "accuracy"):
        table.add_column(heading, justify="right")
    for client in summary["clients"]:
        table.add_row(
            f"client {client['client']}",
            client["model"],
            f"{client['parameters']:,}",
            f"{client['samples']:,}",
            str(client["classes"]),
            size(client["upload_bytes"]),
            percent(client["accuracy"]),
        )
    table.add_section()
    local, spread = summary["local"]["mean"], summary["local"]["std"]
    spread = "" if spread is None else f" ± {100 * spread:.1f}"
    upload = size(summary["upload_bytes_per_client"])
    table.add_row("Local", "mean of the clients", "", "", "", "", f"{100 * local:.1f}{spread} %")
    table.add_row("Ensemble", "all clients together", "", "", "", "", percent(summary["ensemble"]["accuracy"]))
    server = summary["server"]
    if server is None:
        table.caption = "Every client on its own: nothing is sent and there is no server."
        return table
    name = title(summary["config"]["method"])
    numbers = (f"{server['parameters']:,}", "", "", "", percent(server["accuracy"]))
    table.add_row(f"{name} server", server["model"], *numbers, style="bold")
    best = max(client["accuracy"] for client in summary["clients"])
    table.caption = (
        f"The server is {100 * (server['accuracy'] - best):+.1f} points against the best client; "
        f"each client uploaded {upload} once."
    )
    return table


def partition_table(counts: np.ndarray, classes: tuple[str, ...]) -> Table:
    """Samples per client, how many classes it holds, and its most frequent ones."""
    table = Table(title=f"{counts.sum():,} private samples, {len(counts)} clients, {len(classes)} classes")
    for heading in ("client", "samples", "classes"):
        table.add_column(heading, justify="right")
    table.add_column("most frequent classes (samples)")
    for client, row in enumerate(counts):
        top = [c for c in np.argsort(-row, kind="stable")[:4] if row[c]]
        words = ", ".join(f"{classes[c]} ({row[c]:,})" for c in top)
        table.add_row(str(client), f"{row.sum():,}", str((row > 0).sum()), words)
    holders = (counts > 0).sum(0)
    table.caption = (
        f"A class is held by {holders.min()} to {holders.max()} clients; {int((holders == 0).sum())} by none."
    )
    return table
