"""Terminal tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from fedol.methods import title
from fedol.report.plain import plain


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


def count(number: int, what: str) -> str:
    """So many of something: 1 client, 12 clients."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def run_table(summary: dict[str, Any]) -> Table:
    """The result of a run: every client, their mean, their ensemble, and the server model."""
    config, server, local = summary["config"], summary["server"], summary["local"]
    table = _table(f"{config['dataset']}, {config['partition']}: accuracy on the test set")
    table.add_column("", min_width=len("Local (mean)"))  # wraps: the server is called by its method's name
    table.add_column("model", no_wrap=True, overflow="ellipsis")
    for heading in ("parameters", "samples", "classes", "uploads", "accuracy"):
        table.add_column(heading, justify="right", no_wrap=True)
    for client in summary["clients"]:
        table.add_row(
            plain(f"client {client['client']}"),
            plain(client["model"]),
            f"{client['parameters']:,}",
            f"{client['samples']:,}",
            plain(str(client["classes"])),
            size(client["upload_bytes"]),
            percent(client["accuracy"]),
        )
    table.add_section()
    table.add_row("Local (mean)", "", "", "", "", "", percent(local["mean"]))
    table.add_row("Ensemble", "", "", "", "", "", percent(summary["ensemble"]["accuracy"]))
    if server is None:
        table.caption = "Every client on its own: nothing is sent and there is no server."
        return table
    name = title(config["method"])
    parameters, reached = f"{server['parameters']:,}", percent(server["accuracy"])
    table.add_row(plain(f"{name} server"), plain(server["model"]), parameters, "", "", "", reached, style="bold")
    gain = 100 * (server["accuracy"] - max(client["accuracy"] for client in summary["clients"]))
    table.caption = (
        f"The server is {abs(gain):.1f} points {'above' if gain >= 0 else 'below'} the best client; "
        f"each client uploaded {size(summary['upload_bytes_per_client'])} once."
    )
    return table


def history_table(history: list[dict[str, Any]]) -> Table:
    """What each iteration did; a method leaves out what it does not have."""
    columns = {
        "rho": [f"{record['rho']:.2f}" if "rho" in record else "" for record in history],
        "voters": [f"{record['voters']:.1f}" if "voters" in record else "" for record in history],
        "labelled": [_percent(record.get("coverage")) for record in history],
        "labels right *": [_percent(record["diagnostics"].get("pseudo_label_accuracy")) for record in history],
        "loss": [f"{record['loss']:.3f}" for record in history],
        "test accuracy *": [_percent(record["diagnostics"]["test_accuracy"]) for record in history],
    }
    table = _table("The server, iteration by iteration")
    table.add_column("iteration", justify="right")
    shown = {heading: cells for heading, cells in columns.items() if any(cells)}
    for heading in shown:
        table.add_column(heading, justify="right", no_wrap=True)
    for record, *cells in zip(history, *shown.values(), strict=True):
        table.add_row(str(record["iteration"]), *cells)
    table.caption = "* Diagnostics: they need labels that no training and no choice ever sees."
    return table


def _table(title: str) -> Table:
    """Fits 80 columns: one rule under the headings, none between columns."""
    return Table(
        title=plain(title),
        title_style="bold",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )


def _percent(value: float | None) -> str:
    return "" if value is None else percent(value)


def partition_table(counts: np.ndarray, classes: tuple[str, ...]) -> Table:
    """Samples per client, how many classes it holds, and its most frequent ones."""
    table = _table(f"{counts.sum():,} private samples, {len(counts)} clients, {len(classes)} classes")
    for heading in ("client", "samples", "classes"):
        table.add_column(heading, justify="right")
    table.add_column("most frequent classes (samples)")
    for client, row in enumerate(counts):
        top = [c for c in np.argsort(-row, kind="stable")[:4] if row[c]]
        words = ", ".join(f"{classes[c]} ({row[c]:,})" for c in top)
        table.add_row(str(client), f"{row.sum():,}", str((row > 0).sum()), plain(words))
    holders = (counts > 0).sum(0)
    table.caption = (
        f"A class is held by {holders.min()} to {holders.max()} clients; {int((holders == 0).sum())} by none."
    )
    return table
