"""The end of ``serve`` and ``distill``: train with a progress bar, then show what came of it."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from fedol.data import Images
from fedol.federation.coordinator import Coordinator
from fedol.methods import trainings
from fedol.report.plain import plain
from fedol.report.progress import LiveProgress
from fedol.report.tables import percent, size
from fedol.robust.screening import left_out
from fedol.robust.trust import FEWEST


def finish(coordinator: Coordinator, test: Images | None, quiet: bool, as_json: bool) -> dict[str, Any]:
    """Train on what was collected, print the summary and return it."""
    with LiveProgress(quiet=quiet or as_json) as progress:
        plan = coordinator.settings
        progress.stage("server", trainings(plan.method, plan.iterations) * plan.recipe.epochs)
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
    return summary


def server_table(summary: dict[str, Any]) -> Table:
    """Who took part, who was refused and why, and the model."""
    out = left_out(summary["screening"])
    told = f", {len(out)} left out" if out else ""
    table = Table(title=plain(f"{summary['task']['name']}: {len(summary['clients'])} clients{told}", "table.title"))
    for heading in ("client", "file", "size", "codec", ""):
        table.add_column(heading)
    for client in summary["clients"]:
        state = "[red]suspicious, left out" if client["client"] in out else "in"
        name, file, codec = (plain(client[key]) for key in ("client", "file", "codec"))
        table.add_row(name, file, size(client["bytes"]), codec, state)
    for refused in summary["refused"]:
        table.add_row("", plain(refused["file"]), "", "", plain(f"refused: {refused['reason']}", "red"))
    server, last = summary["server"], summary["history"][-1]
    said = f"{server['model']}, {server['parameters']:,} parameters; last loss {last['loss']:.3f}."
    table.caption = plain(said, "table.caption")
    return table


def remarks(summary: dict[str, Any]) -> list[str]:
    """What is known about the model, and, where it continued another, what changed."""
    lines = suspicions(summary)
    lines += [f"{c['client']} promises privacy: {c['privacy']}" for c in summary["clients"] if c["privacy"]]
    if summary["test"]:
        lines.append(f"Accuracy on {summary['test']['samples']:,} test images: {percent(summary['test']['accuracy'])}.")
    if "changed" in summary:
        changed = summary["changed"]
        names = ", ".join(changed["new_clients"]) or "nobody"
        lines.append(
            f"Continued from {changed['from']}; new: {names}. "
            f"{percent(changed['public_labels_changed'])} of the public images changed their class."
        )
        before, after = changed["test"]
        if before:
            lines.append(f"Accuracy before: {percent(before['accuracy'])}, now: {percent(after['accuracy'])}.")
    return lines


def suspicions(summary: dict[str, Any]) -> list[str]:
    """Who was left out and why, and how to decide otherwise."""
    found = [entry for entry in summary["screening"] if entry["left_out"]]
    lines = [f"{entry['client']} is suspicious (trust {entry['trust']:.2f}): {entry['why']}" for entry in found]
    unsettled = [entry for entry in summary["screening"] if entry["suspicious"] and not entry["left_out"]]
    lines += [f"{entry['client']} was kept, but look at it: {entry['why']}" for entry in unsettled]
    if found:
        lines.append("Left out of vote and mixture; see the report, and to hear everyone: --defence exact,cap,runoff.")
    if 0 < len(summary["screening"]) < FEWEST:
        lines.append(f"Fewer than {FEWEST} clients are too few to tell who lies: nobody can be left out.")
    return lines
