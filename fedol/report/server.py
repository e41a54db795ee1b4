"""What came of ``serve`` and ``distill``, for the terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from fedol.report.plain import plain
from fedol.report.tables import count, percent, size
from fedol.robust.defence import hearing_everyone
from fedol.robust.screening import left_out
from fedol.robust.trust import FEWEST


def server_table(summary: dict[str, Any]) -> Table:
    """Who took part, who was refused and why, and the model."""
    out = left_out(summary["screening"])
    told = f", {len(out)} left out" if out else ""
    heading = f"{summary['task']['name']}: {count(len(summary['clients']), 'client')}{told}"
    table = Table(title=plain(heading, "table.title"))
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
        everyone = hearing_everyone(summary["config"]["defence"])
        lines.append(f"Left out of vote and mixture; see the report, and to hear everyone: --defence {everyone}.")
    if 0 < len(summary["screening"]) < FEWEST:
        lines.append(f"Fewer than {FEWEST} clients are too few to tell who lies: nobody can be left out.")
    return lines
