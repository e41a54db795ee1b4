"""What a client sees of its file before it sends it: what is in it, and what it reveals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from fedol.knowledge.header import Guarantee
from fedol.methods.union import STRANGE
from fedol.report.terminal import count, percent, plain, size
from fedol.text import MOST, printable

BAR = 40


def inspection_view(found: dict[str, Any]) -> Group:
    """Facts, the entropy histogram, and the predicted class mix with what it means."""
    smaller, masses = found["float32_bytes"] / found["bytes"], found["ratios"]
    told = {}
    if rate := found["rate"]:
        bits = 8 * found["bytes"] / found["samples"]
        told["lost"] = f"{rate['loss']:.4f} nats a sample for {bits:,.0f} bits, says its sender ({rate['packed']})"
    asked = count(found["findings"], "finding") if found["findings"] else f"{found['classes']} classes"
    told["predictions"] = f"{found['samples']:,} samples, {asked}"
    if held := found["held"]:
        told["its classes"] = f"{len(held)}, and it says which: {printable(', '.join(held), MOST)}"
    told["masses"] = f"yes, from {count(masses['folds'], 'fold')}" if masses else "no"
    facts = _facts(found, f" ({found['codec']}; {smaller:.1f} times smaller than float32)", told)
    parts: list[RenderableType] = [facts, "", _entropy(found["entropy"]), ""]
    if found["ratios"]:
        parts += [_masses(found["ratios"], found["samples"])]
        parts += [*map(plain, mass_remarks(found["ratios"]["over_expected"])), ""]
    return Group(*parts, _classes(found["class_mix"], "findings" if found["findings"] else "classes"))


def sealed_view(found: dict[str, Any]) -> Group:
    """All that anybody but both helpers together can see of a sealed file."""
    return Group(
        _facts(found), "", plain("Sealed: its predictions and masses show to nobody, only sums of clients do.")
    )


def _facts(found: dict[str, Any], packing: str = "", told: Mapping[str, str] = MappingProxyType({})) -> Table:
    """What a file says of itself, and of what it holds where that shows."""
    facts = Table(show_header=False, box=None)
    facts.add_row("client", plain(found["client"]))
    facts.add_row("size", plain(f"{size(found['bytes'])}{packing}"))
    for what, words in told.items():
        facts.add_row(what, plain(words))
    facts.add_row("task", plain(found["task"] or "none"))
    facts.add_row("signed", "yes" if found["signed"] else "no")
    promise = found["privacy"]
    facts.add_row("privacy", plain(str(Guarantee(**promise))) if promise else "no formal guarantee")
    fits = found["fits"]
    if fits is None:
        facts.add_row("fits", "not checked; give --task")
    else:
        facts.add_row("fits", "[green]yes" if fits["fits"] else plain(f"no: {fits['reason']}", "bold red"))
    return facts


def _entropy(entropy: dict[str, Any]) -> Table:
    title = "How sure it is: entropy of the predictions in nats"
    return _histogram(title, [f"{edge:.2f}" for edge in entropy["edges"]], entropy["counts"])


def _masses(ratios: dict[str, Any], samples: int) -> Table:
    """How far the public samples look like the client's, and what that tells others."""
    title = "What looks like your data: times as often there as among the public samples"
    logs = ratios["log_mass"]
    table = _histogram(title, [f"{math.exp(edge):.2g}" for edge in logs["edges"]], logs["counts"])
    mean = f"The mean is {ratios['mean_mass']:.2g}"
    if ratios["expected"]:
        mean += f"; your {ratios['private']:,} samples over {samples:,} public ones make {ratios['expected']:.2g}"
    told = "how many samples you hold, and " if ratios["private"] else ""
    table.caption = plain(
        f"{mean}. Whoever gets this file learns {told}how much each public sample looks like yours. That tells more of "
        "your samples, were any among the public ones, than predictions do: see fedol audit; --release leaves it out."
    )
    return table


def _histogram(title: str, edges: list[str], counts: list[int]) -> Table:
    table = Table(title=title, show_header=False, box=None)
    for low, high, number in zip(edges, edges[1:], counts, strict=False):
        table.add_row(f"{low} to {high}", "█" * round(BAR * number / max(counts)), f"{number:,}")
    return table


def mass_remarks(over_expected: float | None) -> list[str]:
    """What a client should know about its masses before it sends them."""
    if over_expected is None or over_expected >= STRANGE:
        return []
    return [
        f"Warning: the public samples hardly look like yours ({over_expected:.2g} of what is expected): they are of "
        "another domain, or lack your classes. Where that is so at most clients, the server doubts the masses."
    ]


def _classes(mix: dict[str, float], kind: str) -> Table:
    table = Table(title=f"What it reveals: the {kind} it predicts", show_header=False, box=None)
    shown = list(mix.items())[:10]
    for name, share in shown:
        table.add_row(plain(name), "█" * round(BAR * share / shown[0][1]) if share else "", percent(share))
    never = sum(share == 0 for share in mix.values())
    none = f", and which none ({never} of {len(mix)} never predicted)" if never else ""
    table.caption = (
        "A model predicts most what it was trained on most: whoever gets this file can read off roughly which "
        f"{kind} you hold much of{none}."
    )
    return table
