"""A run in one sentence, and in a few large numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedol.report.terminal import count, percent, size
from fedol.robust import left_out
from fedol.text import sized

Figure = tuple[str, str, str]  # what, how much, a remark


def headline(summary: dict[str, Any]) -> str:
    """Was it worth it? A federation of files knows its clients' sizes but not their accuracies."""
    return _served(summary) if "task" in summary else _simulated(summary)


def shared_headline(summary: dict[str, Any], together: bool) -> str:
    """The same without any single client's numbers; without averages where they are not of many ``together``."""
    if "task" in summary:
        return _served(summary, together)
    clients, server = summary["clients"], summary["server"]
    mean, ensemble = summary["local"]["mean"], summary["ensemble"]["accuracy"]
    if server is None:
        average = f": {percent(mean)} accurate on average" if together else ""
        return f"{count(len(clients), 'client')} on their own{average}."
    levels = [(mean, f"the mean client ({percent(mean)})"), (ensemble, f"their ensemble ({percent(ensemble)})")]
    above = " and ".join(_against(server["accuracy"], *level) for level in levels)
    return f"The server is {percent(server['accuracy'])} accurate{f': {above}' if together else ''}."


def figures(summary: dict[str, Any]) -> list[Figure]:
    """The numbers of the sentence, and what belongs to them."""
    return _served_figures(summary) if "task" in summary else _simulated_figures(summary)


def _simulated(summary: dict[str, Any]) -> str:
    clients, server = summary["clients"], summary["server"]
    best, mean = max(client["accuracy"] for client in clients), summary["local"]["mean"]
    if server is None:
        alone = f"{count(len(clients), 'client')} on {'their' if len(clients) > 1 else 'its'} own"
        return f"{alone}: {percent(mean)} accurate on average, the best {percent(best)}."
    ensemble = summary["ensemble"]["accuracy"]
    parts = [
        _against(server["accuracy"], level, who)
        for level, who in (
            (best, f"the best client ({percent(best)})"),
            (mean, f"the mean client ({percent(mean)})"),
            (ensemble, f"their ensemble ({percent(ensemble)})"),
        )
    ]
    who = f"Each of the {len(clients)} clients" if len(clients) > 1 else "The client"
    return (
        f"The server is {percent(server['accuracy'])} accurate: {parts[0]}, {parts[1]} and {parts[2]}. {who} "
        f"uploaded {size(summary['upload_bytes_per_client'])} once; it took "
        f"{duration(summary['seconds'])}."
    )


def _served(summary: dict[str, Any], together: bool = True) -> str:
    clients, server, out = summary["clients"], summary["server"], len(left_out(summary["screening"]))
    each = " each" if len(clients) - out > 1 else ""
    mean = size(float(np.mean([client["bytes"] for client in clients])))
    words = (
        f"{server['model']} ({sized(server)}) learnt from {count(len(clients) - out, 'client')}, "
        f"who sent {f'{mean}{each}, once' if together else f'one file{each}'}"
    )
    words += f", in {duration(summary['seconds'])}" if "seconds" in summary else ""
    if summary["test"]:
        words += (
            f"; it is {percent(summary['test']['accuracy'])} accurate on {summary['test']['samples']:,} test samples"
        )
    refused = len(summary["refused"])
    words += f"; {out} client{'s were' if out > 1 else ' was'} left out as suspicious" if out else ""
    return words + (f"; {refused} file{'s were' if refused > 1 else ' was'} refused." if refused else ".")


def _against(server: float, other: float, who: str) -> str:
    gain = 100 * (server - other)
    return f"{abs(gain):.1f} points {'above' if gain >= 0 else 'below'} {who}"


def duration(seconds: float) -> str:
    """A time for people: 48 s, 12 min, 3 h 20 min."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _simulated_figures(summary: dict[str, Any]) -> list[Figure]:
    accuracies = [client["accuracy"] for client in summary["clients"]]
    server = summary["server"]
    rows = [] if server is None else [("server", percent(server["accuracy"]), f"{server['model']}, {sized(server)}")]
    rows.append(("best client", percent(max(accuracies)), f"client {int(np.argmax(accuracies))} of {len(accuracies)}"))
    spread = summary["local"]["std"]
    rows.append(
        ("mean client", percent(summary["local"]["mean"]), "" if spread is None else f"± {100 * spread:.1f} points")
    )
    rows.append(("ensemble", percent(summary["ensemble"]["accuracy"]), "needs every client's model"))
    rows.append(("upload per client", size(summary["upload_bytes_per_client"]), "once, and nothing else"))
    rows.append(
        (
            "time",
            duration(summary["seconds"]),
            "since it was resumed" if summary["resumed"] else f"on {summary['provenance']['device']}",
        )
    )
    return rows


def _served_figures(summary: dict[str, Any]) -> list[Figure]:
    test, last = summary["test"], summary["history"][-1]
    rows = [("accuracy", percent(test["accuracy"]), f"on {test['samples']:,} test samples")] if test else []
    remark = f"{len(left_out(summary['screening']))} left out, {len(summary['refused'])} refused"
    rows.append(("clients", str(len(summary["clients"])), remark))
    rows.append(("model", summary["server"]["model"], sized(summary["server"])))
    rows.append(("received", size(sum(client["bytes"] for client in summary["clients"])), "in all"))
    if "coverage" in last:
        rows.append(("labelled", percent(last["coverage"]), "of the public samples, in the end"))
    if "seconds" in summary:
        rows.append(("time", duration(summary["seconds"]), f"on {summary['provenance']['device']}"))
    return rows
