"""What runs, servers and files look like on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from fedol.methods import title
from fedol.methods.union import STRANGE
from fedol.robust import hearing_everyone, left_out
from fedol.robust.trust import FEWEST
from fedol.text import shown, sized


def plain(words: str, style: str = "") -> Text:
    """Words that Rich reads neither as markup nor as emoji, and that cannot command the terminal."""
    return Text(shown(words), style)


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


def run_table(summary: dict[str, Any], beside: Sequence[dict[str, Any]] = ()) -> Table:
    """The result of a run: every client, their mean, their ensemble, the servers of other runs, and its own."""
    config, server, local = summary["config"], summary["server"], summary["local"]
    table = plain_table(f"{config['dataset']}, {config['partition']}: accuracy on the test set")
    table.add_column("", min_width=len("Local (mean)"))  # wraps: the server is called by its method's name
    table.add_column("model", overflow="fold")  # as long as people call theirs
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
    for other in (*beside, summary):
        of, own = other["server"], other is summary
        table.add_row(
            plain(f"{title(other['config']['method'])} server"),
            plain(of["model"]),
            f"{of['parameters']:,}",
            "",
            "",
            size(other["upload_bytes_per_client"]) if beside else "",
            percent(of["accuracy"]),
            style="bold" if own else "",
        )
    gain = 100 * (server["accuracy"] - max(client["accuracy"] for client in summary["clients"]))
    table.caption = (
        f"The server is {abs(gain):.1f} points {'above' if gain >= 0 else 'below'} the best client; "
        f"each client uploaded {size(summary['upload_bytes_per_client'])} once."
    )
    table.caption = " ".join([table.caption, *of_findings(server)])
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
    table = plain_table("The server, iteration by iteration")
    table.add_column("iteration", justify="right")
    shown = {heading: cells for heading, cells in columns.items() if any(cells)}
    for heading in shown:
        table.add_column(heading, justify="right", no_wrap=True)
    for record, *cells in zip(history, *shown.values(), strict=True):
        table.add_row(str(record["iteration"]), *cells)
    table.caption = "* Diagnostics: they need labels that no training and no choice ever sees."
    return table


def plain_table(title: str) -> Table:
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


def partition_table(counts: np.ndarray, classes: tuple[str, ...], kind: str = "classes") -> Table:
    """Samples per client, how many classes it holds, and its most frequent ones; of findings, those that are there."""
    what = "private samples" if kind == "classes" else "findings in private samples"
    table = plain_table(f"{counts.sum():,} {what}, {len(counts)} clients, {len(classes)} {kind}")
    for heading in ("client", "samples" if kind == "classes" else "found", kind):
        table.add_column(heading, justify="right")
    table.add_column(f"most frequent {kind} (samples)")
    for client, row in enumerate(counts):
        top = [c for c in np.argsort(-row, kind="stable")[:4] if row[c]]
        words = ", ".join(f"{classes[c]} ({row[c]:,})" for c in top)
        table.add_row(str(client), f"{row.sum():,}", str((row > 0).sum()), plain(words))
    holders = (counts > 0).sum(0)
    what, none = "class" if kind == "classes" else "finding", int((holders == 0).sum())
    table.caption = f"A {what} is held by {holders.min()} to {holders.max()} clients; {none} by none."
    return table


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
    said = f"{server['model']}, {sized(server)}; last loss {last['loss']:.3f}."
    table.caption = plain(said, "table.caption")
    return table


def remarks(summary: dict[str, Any]) -> list[str]:
    """What is known about the model, and, where it continued another, what changed."""
    lines = suspicions(summary)
    lines += [f"{c['client']} promises privacy: {c['privacy']}" for c in summary["clients"] if c["privacy"]]
    if summary["test"]:
        lines.append(
            f"Accuracy on {summary['test']['samples']:,} test samples: {percent(summary['test']['accuracy'])}."
        )
        lines += of_findings(summary["test"])
    lines += in_secret(summary)
    if "findings" in summary["task"] and "trust" in summary["config"]["defence"]:
        lines.append("No client was screened: where samples have findings, nothing tells a liar from a specialist.")
    lines += _fallback(summary["history"][-1])
    if "changed" in summary:
        changed = summary["changed"]
        names = ", ".join(changed["new_clients"]) or "nobody"
        lines.append(
            f"Continued from {changed['from']}; new: {names}. "
            f"{percent(changed['public_labels_changed'])} of the public samples changed their class."
        )
        before, after = changed["test"]
        if before:
            lines.append(f"Accuracy before: {percent(before['accuracy'])}, now: {percent(after['accuracy'])}.")
    return lines


def of_findings(score: dict[str, Any]) -> list[str]:
    """How well findings are told apart; nothing where samples have classes."""
    if score.get("auroc") is None:
        return []
    return [f"That is the share of right answers to all findings; their mean AUROC is {score['auroc']:.3f}."]


def in_secret(summary: dict[str, Any]) -> list[str]:
    """That clients were summed before anybody looked, and what that promises."""
    if "secret" not in summary:
        return []
    helpers = " and ".join(summary["secret"]["helpers"])
    told = f"Clients were summed in secret by {helpers}: nobody saw a single one's answers, and none was screened."
    promise = summary["secret"]["privacy"]
    return [told, f"Differential privacy of the sum: {promise}" if promise else "The sum itself is exact: no noise."]


def _fallback(last: dict[str, Any]) -> list[str]:
    """Where the method union did not simply add ratios up, and why."""
    if "familiarity" not in last or last["familiarity"] >= STRANGE:
        return []
    if not last["ratios"]:
        return ["No client sent masses, so the server learnt from their pool; see --folds of fedol client fit."]
    return ["The public samples hardly look like the clients' data: their masses were doubted, and classes balanced."]


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
