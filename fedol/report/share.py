"""What may be passed on: the page for others, and ``MODEL_CARD.md``, which goes with the model.

Neither has anything that a single client sent, said, held or scored, but the page the reader's own; the card names
nobody. What is on them is chosen here by name: what is added to ``report.html`` is not on them by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedol.errors import FedolError
from fedol.methods import find
from fedol.report.headline import shared_headline
from fedol.report.run_view import recipe, run_view
from fedol.report.terminal import count, in_secret, percent, size
from fedol.robust import left_out
from fedol.robust.trust import FEWEST
from fedol.text import shown, sized

# Parts of the coordinator's page, and rows of its numbers: those about the model, and those of all clients together.
PARTS = ("served", "name", "method", "classes", "findings", "confused", "calibration", "reliability", "strange")
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
    """What the server says of each sample, which whoever has the model can ask it, and what the reader said.

    Not what it was taught: a pseudo-label may be the word of one client that was sure.
    """
    if full is None:
        return None
    samples = []
    for sample in full["samples"]:
        told = {key: sample[key] for key in ("index", "asked", "truth", "server", "strange") if key in sample}
        said = {} if own is None else {"own": sample["votes"][clients.index(own)][:2]}  # the class, and how sure
        samples.append({**told, "labels": [], "votes": [], **said})
    parts = ("of", "strange", "classes", "findings", "sheet", "size", "captions")
    about: dict[str, Any] = {key: full[key] for key in parts if key in full}
    return {**about, "samples": samples, "clients": [], "iterations": 0, "gated": False}


CROWD = 3  # clients, of which none can work out from an average and its own number what any other said


def crowd(summary: dict[str, Any]) -> bool:
    """Whether the server heard enough clients for what they said together to be told to each of them."""
    return len(summary["clients"]) - len(left_out(summary.get("screening", []))) >= CROWD


def promises(clients: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """The privacy that clients promise, and instead of their names how many promise it."""
    found = Counter(client["privacy"] for client in clients if client.get("privacy"))
    return [{"client": count(number, "client"), "privacy": privacy} for privacy, number in sorted(found.items())]


CARD = """# {model} trained by FedOL

One model with {size}, trained from the predictions of {heard}{out} on {samples:,} public
samples without labels. No client's data or model left its place; each sent one file.

## Use

```python
import fedol
model = fedol.load("path/to/this/folder")
model.predict_proba(samples)  # like the public ones; images as uint8 [N, channels, height, width]
```

Or `fedol predict RUN DATA`, `fedol export RUN --onnx FILE`.

## Task

{name} (id {id}), {classes}: {named}.

## Clients

{clients}

## Method

{method}: {training}, seed {seed}, on {device}. Defence: {defence}. Collection ended by: {closed}.

## Metrics

{metrics}

{history}

## Limits

The model can be no better than what its clients know together, and it has their biases.
{labels} {suspicions}
What a client's predictions reveal about its data is discussed in the documentation, on the page "Private data".

## Versions

{versions}
"""


def model_card(summary: dict[str, Any]) -> str:
    """The card of a finished server run."""
    config, task = summary["config"], summary["task"]
    kind, classes = next((kind, task[kind]) for kind in ("findings", "classes") if kind in task)
    out = left_out(summary["screening"])
    return CARD.format(
        model=_safe(summary["server"]["model"]),
        size=sized(summary["server"]),
        heard=count(len(summary["clients"]) - len(out), "client"),
        out=f" ({len(out)} more left out)" if out else "",
        samples=task["samples"],
        name=_safe(task["name"] or "(no name)"),
        id=_safe(task["id"]),
        classes=f"{len(classes)} {kind}",
        named=", ".join(map(_safe, classes[:20])) + (", ..." if len(classes) > 20 else ""),
        clients=_clients(summary),
        method=_safe(config["method"]),
        training=_safe(_training(config, summary["history"])),
        labels=_labels(config, summary["history"][-1]),
        seed=config["seed"],
        device=_safe(summary["device"]),
        defence=_safe(config["defence"]),
        closed=_safe(summary["closed"]),
        suspicions=_suspicions(summary),
        metrics=_metrics(summary),
        history=_history(summary),
        versions=", ".join(f"{_safe(name)} {_safe(number)}" for name, number in summary["versions"].items()),
    )


def _safe(words: object) -> str:
    """Anybody's words in a line of the card."""
    return shown(words, "markdown")


def _clients(summary: dict[str, Any]) -> str:
    """How many sent what, together, and what they promise."""
    clients, refused = summary["clients"], len(summary["refused"])
    each = size(sum(client["bytes"] for client in clients) / len(clients))
    words = [f"{count(len(clients), 'client')} sent one file each{f', {each} on average' if crowd(summary) else ''}."]
    words += [f"{count(refused, 'other file')} {'was' if refused == 1 else 'were'} refused."] if refused else []
    gone = len(summary.get("withdrawn", []))
    words += [f"{gone} more {'has' if gone == 1 else 'have'} withdrawn, and nothing of them is in it."] if gone else []
    words += [] if crowd(summary) else [f"Fewer than {CROWD} were heard: an average would be somebody's own number."]
    words += [_safe(line) for line in in_secret(summary)]
    promised = [f"- {entry['client']}: {_safe(entry['privacy'])}" for entry in promises(clients)]
    if not promised:
        return " ".join([*words, "None promises differential privacy."])
    words += ["Differential privacy that they promise, by their own word (the others: no formal guarantee):"]
    return "\n".join([" ".join(words), "", *promised])


def _history(summary: dict[str, Any]) -> str:
    """What each iteration did, as far as it is about all clients together."""
    records = [{**record, **record.get("diagnostics", {})} for record in summary["history"]]
    columns = [key for key in records[-1] if key not in ("iteration", "prior", "diagnostics")]
    columns = columns if crowd(summary) else [key for key in columns if key in ("loss", "test_accuracy")]
    rows = [["iteration", *columns], *([record["iteration"], *_numbers(record, columns)] for record in records)]
    lines = [f"| {' | '.join(map(_safe, row))} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _numbers(record: dict[str, Any], columns: list[str]) -> list[str]:
    return [f"{record[key]:.4g}" for key in columns]


def _training(config: dict[str, Any], history: list[dict[str, Any]]) -> str:
    """What the server was trained with, of the settings those that its method heeds: what it did says which."""
    times = f"{len(history)} iterations of " if len(history) > 1 else ""
    words = [
        f"{times}{count(config['epochs'], 'epoch')}",
        f"batch {config['batch_size']}",
        f"{_optimiser(config)} {config['lr']:g}",
    ]
    words += ["flips and crops"] if config["augment"] else []
    words += [f"a {config['schedule']} learning rate"] if config["schedule"] != "constant" else []
    words += [config["patch"]] if config["patch"] != "none" else []
    words += [f"weights averaged at {config['average']:g}"] if config["average"] else []
    words += [f"weight decay {config['weight_decay']:g}"] if config["weight_decay"] else []
    words += [f"tau {_tau(config):g}"] if "coverage" in history[-1] else []
    words += [f"rho {config['rho']:g} + {config['rho_step']:g} per iteration"] if "rho" in history[-1] else []
    return ", ".join(words)


def _optimiser(config: dict[str, Any]) -> str:
    """Its name as people write it; runs of earlier versions had Adam."""
    name = str(config.get("optimiser", "adam"))
    return {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD", "muon": "Muon"}.get(name, name.rpartition(":")[2])


def _tau(config: dict[str, Any]) -> float:
    return float(find(config["method"]).fixed.get("tau", config["tau"]))


def _labels(config: dict[str, Any], last: dict[str, Any]) -> str:
    """Where pseudo-labels come from, if there are any that count."""
    if "coverage" not in last or _tau(config) == 0:
        return ""
    voted = "Pseudo-labels come from a vote of the clients."
    return voted if "rho" in last else "Pseudo-labels are the pooled clients' surest classes."


def _suspicions(summary: dict[str, Any]) -> str:
    """How many were left out of the vote."""
    out = len(left_out(summary["screening"]))
    if not summary["screening"]:
        return "Clients were not screened: one that lies is heard like any other."
    if len(summary["screening"]) < FEWEST:
        return f"Fewer than {FEWEST} clients: too few to tell who lies, so nobody was left out."
    if not out:
        return "Clients were screened for lies, and none was left out; careful liars get through."
    return f"{count(out, 'client')} {'was' if out == 1 else 'were'} left out as suspicious."


def _metrics(summary: dict[str, Any]) -> str:
    lines = ["Accuracy is unknown: no labelled test samples were given."]
    if summary["test"]:
        test = summary["test"]
        lines = [f"Accuracy on {test['samples']:,} labelled test samples: {percent(test['accuracy'])}."]
    if "changed" in summary:
        changed = summary["changed"]
        lines.append(
            f"Continued from {_safe(changed['from'])} with {count(len(changed['new_clients']), 'new client')}; "
            f"{percent(changed['public_labels_changed'])} of the public samples changed their class."
        )
    return " ".join(lines)
