"""A knowledge file on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table

from fedol.knowledge.guarantee import Guarantee
from fedol.report.plain import plain
from fedol.report.tables import percent, size

BAR = 40


def inspection_view(found: dict[str, Any]) -> Group:
    """Facts, the entropy histogram, and the predicted class mix with what it means."""
    facts = Table(show_header=False, box=None)
    facts.add_row("client", plain(found["client"]))
    smaller = found["float32_bytes"] / found["bytes"]
    facts.add_row("size", plain(f"{size(found['bytes'])} ({found['codec']}; {smaller:.1f} times smaller than float32)"))
    facts.add_row("predictions", f"{found['samples']:,} images, {found['classes']} classes")
    facts.add_row("task", plain(found["task"] or "none"))
    facts.add_row("signed", "yes" if found["signed"] else "no")
    promise = found["privacy"]
    facts.add_row("privacy", plain(str(Guarantee(**promise))) if promise else "no formal guarantee")
    fits = found["fits"]
    if fits is None:
        facts.add_row("fits", "not checked; give --task")
    else:
        facts.add_row("fits", "[green]yes" if fits["fits"] else plain(f"no: {fits['reason']}", "bold red"))
    return Group(facts, "", _entropy(found["entropy"]), "", _classes(found["class_mix"]))


def _entropy(entropy: dict[str, Any]) -> Table:
    table = Table(title="How sure it is: entropy of the predictions in nats", show_header=False, box=None)
    most = max(entropy["counts"])
    for low, high, count in zip(entropy["edges"], entropy["edges"][1:], entropy["counts"], strict=False):
        table.add_row(f"{low:.2f} to {high:.2f}", "█" * round(BAR * count / most), f"{count:,}")
    return table


def _classes(mix: dict[str, float]) -> Table:
    table = Table(title="What it reveals: the classes it predicts", show_header=False, box=None)
    shown = list(mix.items())[:10]
    for name, share in shown:
        table.add_row(plain(name), "█" * round(BAR * share / shown[0][1]) if share else "", percent(share))
    never = sum(share == 0 for share in mix.values())
    none = f", and which none ({never} of {len(mix)} never predicted)" if never else ""
    table.caption = (
        "A model predicts most what it was trained on most: whoever gets this file can read off roughly which classes "
        f"you hold much of{none}."
    )
    return table
