"""The page to pass on: nothing that a single client sent, held or scored, but the reader's own.

What is on it is chosen here by name; whatever is added to the coordinator's page is not on this one by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedol.errors import FedolError
from fedol.report.headline import shared_headline
from fedol.report.run_view import recipe, run_view
from fedol.report.terminal import count, percent, size
from fedol.robust import left_out

# Parts of the coordinator's page, and rows of its numbers: those about the model, and those of all clients together.
PARTS = ("served", "name", "method", "classes", "confused", "calibration", "reliability")
MODEL = {"server", "accuracy", "clients", "model", "time", "Rounds of communication", "Training, server", "Device"}
TOGETHER = {"mean client", "ensemble", "upload per client", "received", "labelled"}
TOGETHER |= {"Uploads, per client", "Uploads, all clients", "Training, all clients"}
FILES = ("parent", "added")  # settings of a run that was continued: the hashes of clients' files


def share_view(folder: Path, reader: str | None = None) -> dict[str, Any]:
    """The values of ``templates/run.html`` for whoever gets the page; ``reader``: the client whose own part it has."""
    full = run_view(folder)
    summary, together = full["summary"], crowd(full["summary"])
    own = _own(full["clients"], reader, folder)
    told = MODEL | TOGETHER if together else MODEL
    settings = {name: value for name, value in summary["config"].items() if name not in FILES}
    return {
        **dict.fromkeys(full),
        **{part: full[part] for part in PARTS},
        "shared": True,
        "together": together,
        "headline": shared_headline(summary, together),
        "figures": [row for row in full["figures"] if row[0] in told],
        "own": own and _said(own, summary, together),
        "iterations": full["iterations"] if together else None,
        "evidence": _evidence(full["evidence"], full["clients"], own),
        "promises": promises(summary["clients"]),
        "costs": [row for row in full["costs"] if row[0] in told],
        "recipe": {**recipe({**summary, "config": settings}), "command": None},  # which names clients' files
    }


def _own(clients: list[dict[str, Any]], reader: str | None, folder: Path) -> dict[str, Any] | None:
    """The reader's entry among the clients."""
    if reader is None:
        return None
    found = [client for client in clients if client["name"] == reader]
    if not found:
        names = ", ".join(client["name"] for client in clients)
        raise FedolError(f"No client '{reader}' took part in {folder}; there are: {names}.")
    return found[0]


def _said(own: dict[str, Any], summary: dict[str, Any], together: bool) -> dict[str, Any]:
    """What the page says of its reader. Why it was left out stays away: that may be another client's answers."""
    rows = [("sent", size(own.get("upload_bytes", own.get("bytes", 0))))]
    rows += [("private samples", f"{own['samples']:,}")] if "samples" in own else []
    rows += [("accuracy", percent(own["accuracy"]))] if "accuracy" in own else []
    rows += [("privacy", own["privacy"])] if own.get("privacy") else []
    if own["agreement"] is not None:
        rows.append(("agreement", percent(own["agreement"])))
    if together and own["trust"] is not None:
        rows.append(("trust", f"{own['trust']:.2f}"))
    if own["name"] in left_out(summary.get("screening", [])):
        rows.append(("heard", "no, left out as suspicious; the coordinator can say why"))
    return {"name": own["name"], "rows": rows}


def _evidence(
    full: dict[str, Any] | None, clients: list[dict[str, Any]], own: dict[str, Any] | None
) -> dict[str, Any] | None:
    """What the server says of each image, which whoever has the model can ask it, and what the reader said.

    Not what it was taught: a pseudo-label may be the word of one client that was sure.
    """
    if full is None:
        return None
    samples = []
    for sample in full["samples"]:
        told = {key: sample[key] for key in ("index", "truth", "server")}
        said = {} if own is None else {"own": sample["votes"][clients.index(own)][:2]}  # the class, and how sure
        samples.append({**told, "labels": [], "votes": [], **said})
    about = {key: full[key] for key in ("of", "classes", "sheet", "size")}
    return {**about, "samples": samples, "clients": [], "iterations": 0, "gated": False}


CROWD = 3  # clients, of which none can work out from an average and its own number what any other said


def crowd(summary: dict[str, Any]) -> bool:
    """Whether the server heard enough clients for what they said together to be told to each of them."""
    return len(summary["clients"]) - len(left_out(summary.get("screening", []))) >= CROWD


def promises(clients: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """The privacy that clients promise, and instead of their names how many promise it."""
    found = Counter(client["privacy"] for client in clients if client.get("privacy"))
    return [{"client": count(number, "client"), "privacy": privacy} for privacy, number in sorted(found.items())]
