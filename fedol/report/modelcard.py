"""``MODEL_CARD.md``: what a trained server model is, for people who were not there."""

from __future__ import annotations

from typing import Any

from fedol.report.tables import count, percent, size
from fedol.robust.screening import left_out
from fedol.robust.trust import FEWEST

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

`{name}` (id `{id}`), {classes} classes: {shown}.

## Clients

{clients}
{refused}
## Method

`{method}`: {training}, seed {seed}, on {device}. Defence: {defence}. Collection ended by: {closed}.

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
    clients = [["client", "file", "size", "codec", "heard", "privacy that it promises"]]
    clients += [
        [
            c["client"],
            f"`{c['file']}`",
            size(c["bytes"]),
            c["codec"],
            "left out" if c["client"] in out else "yes",
            c["privacy"] or "none",
        ]
        for c in summary["clients"]
    ]
    refused = [["refused file", "reason"], *([f"`{r['file']}`", r["reason"]] for r in summary["refused"])]
    records = [{**h, **h.get("diagnostics", {})} for h in summary["history"]]
    columns = [key for key in records[-1] if key not in ("iteration", "diagnostics")]
    history = [["iteration", *columns]]
    history += [[str(h["iteration"]), *(f"{h[key]:.4g}" for key in columns)] for h in records]
    return CARD.format(
        model=summary["server"]["model"],
        parameters=summary["server"]["parameters"],
        heard=count(len(summary["clients"]) - len(out), "client"),
        out=f" ({len(out)} more left out)" if out else "",
        samples=task["samples"],
        name=task["name"] or "(no name)",
        id=task["id"],
        classes=len(classes),
        shown=", ".join(classes[:20]) + (", ..." if len(classes) > 20 else ""),
        clients=_table(clients),
        refused=f"\n{_table(refused)}\n" if summary["refused"] else "",
        method=config["method"],
        training=_training(config, summary["history"]),
        labels=_labels(config, summary["history"][-1]),
        seed=config["seed"],
        device=summary["device"],
        defence=config["defence"],
        closed=summary["closed"],
        suspicions=_suspicions(summary),
        metrics=_metrics(summary),
        history=_table(history),
        versions=", ".join(f"{name} {number}" for name, number in summary["versions"].items()),
    )


def _training(config: dict[str, Any], history: list[dict[str, Any]]) -> str:
    """What the server was trained with, of the settings those that its method heeds: what it did says which."""
    times = f"{len(history)} iterations of " if len(history) > 1 else ""
    words = [f"{times}{count(config['epochs'], 'epoch')}", f"batch {config['batch_size']}", f"Adam {config['lr']:g}"]
    words += ["flips and crops"] if config["augment"] else []
    words += [f"a {config['schedule']} learning rate"] if config["schedule"] != "constant" else []
    words += [config["patch"]] if config["patch"] != "none" else []
    words += [f"weights averaged at {config['average']:g}"] if config["average"] else []
    words += [f"weight decay {config['weight_decay']:g}"] if config["weight_decay"] else []
    words += [f"tau {_tau(config):g}"] if "coverage" in history[-1] else []
    words += [f"rho {config['rho']:g} + {config['rho_step']:g} per iteration"] if "rho" in history[-1] else []
    return ", ".join(words)


def _tau(config: dict[str, Any]) -> float:
    return 0.0 if config["method"] == "fedol-tau0" else float(config["tau"])


def _labels(config: dict[str, Any], last: dict[str, Any]) -> str:
    """Where pseudo-labels come from, if there are any that count."""
    if "coverage" not in last or _tau(config) == 0:
        return ""
    voted = "Pseudo-labels come from a vote of the clients."
    return voted if "rho" in last else "Pseudo-labels are the pooled clients' surest classes."


def _suspicions(summary: dict[str, Any]) -> str:
    """Who was left out of the vote, and why."""
    found = [entry for entry in summary["screening"] if entry["left_out"]]
    if not summary["screening"]:
        return "Clients were not screened: one that lies is heard like any other."
    if len(summary["screening"]) < FEWEST:
        return f"Fewer than {FEWEST} clients: too few to tell who lies, so nobody was left out."
    if not found:
        return "Clients were screened for lies, and none was left out; careful liars get through (docs/robustness.md)."
    return "Left out as suspicious: " + " ".join(f"{entry['client']} ({entry['why']})" for entry in found)


def _metrics(summary: dict[str, Any]) -> str:
    lines = ["Accuracy is unknown: no labelled test images were given."]
    if summary["test"]:
        test = summary["test"]
        lines = [f"Accuracy on {test['samples']:,} labelled test images: {percent(test['accuracy'])}."]
    if "changed" in summary:
        changed = summary["changed"]
        lines.append(
            f"Continued from `{changed['from']}` with {count(len(changed['new_clients']), 'new client')}; "
            f"{percent(changed['public_labels_changed'])} of the public images changed their class."
        )
    return " ".join(lines)


def _table(rows: list[list[str]]) -> str:
    """A Markdown table; a cell cannot break out of it."""
    cells = [[cell.replace("|", "/").replace("\n", " ") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])
