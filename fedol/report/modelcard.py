"""``MODEL_CARD.md``: what a trained server model is, for people who were not there.

It goes with the model, so it names no client: what one of them sent, said or scored is in ``report.html``.
"""

from __future__ import annotations

from typing import Any

from fedol.methods import find
from fedol.report.share import CROWD, crowd, promises
from fedol.report.terminal import count, percent, size
from fedol.robust import left_out
from fedol.robust.trust import FEWEST
from fedol.text import shown

CARD = """# {model} trained by FedOL

One model with {parameters:,} parameters, trained from the predictions of {heard}{out} on {samples:,} public
images without labels. No client's data or model left its place; each sent one file.

## Use

```python
import fedol
model = fedol.load("path/to/this/folder")
model.predict_proba(images)  # uint8 [N, channels, height, width]
```

Or `fedol predict RUN IMAGES`, `fedol export RUN --onnx FILE`.

## Task

{name} (id {id}), {classes} classes: {named}.

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
What a client's predictions reveal about its data is discussed in the documentation (docs/privacy.md).

## Versions

{versions}
"""


def model_card(summary: dict[str, Any]) -> str:
    """The card of a finished server run."""
    config, task, classes = summary["config"], summary["task"], summary["task"]["classes"]
    out = left_out(summary["screening"])
    return CARD.format(
        model=_safe(summary["server"]["model"]),
        parameters=summary["server"]["parameters"],
        heard=count(len(summary["clients"]) - len(out), "client"),
        out=f" ({len(out)} more left out)" if out else "",
        samples=task["samples"],
        name=_safe(task["name"] or "(no name)"),
        id=_safe(task["id"]),
        classes=len(classes),
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
    words += [] if crowd(summary) else [f"Fewer than {CROWD} were heard: an average would be somebody's own number."]
    promised = [f"- {entry['client']}: {_safe(entry['privacy'])}" for entry in promises(clients)]
    if not promised:
        return " ".join([*words, "None promises differential privacy."])
    words += ["Differential privacy that they promise, by their own word (the others: no formal guarantee):"]
    return "\n".join([" ".join(words), "", *promised])


def _history(summary: dict[str, Any]) -> str:
    """What each iteration did, as far as it is about all clients together."""
    records = [{**record, **record.get("diagnostics", {})} for record in summary["history"]]
    columns = [key for key in records[-1] if key not in ("iteration", "diagnostics")]
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
    return {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD"}.get(name, name.rpartition(":")[2])


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
        return "Clients were screened for lies, and none was left out; careful liars get through (docs/robustness.md)."
    return f"{count(out, 'client')} {'was' if out == 1 else 'were'} left out as suspicious."


def _metrics(summary: dict[str, Any]) -> str:
    lines = ["Accuracy is unknown: no labelled test images were given."]
    if summary["test"]:
        test = summary["test"]
        lines = [f"Accuracy on {test['samples']:,} labelled test images: {percent(test['accuracy'])}."]
    if "changed" in summary:
        changed = summary["changed"]
        lines.append(
            f"Continued from {_safe(changed['from'])} with {count(len(changed['new_clients']), 'new client')}; "
            f"{percent(changed['public_labels_changed'])} of the public images changed their class."
        )
    return " ".join(lines)
