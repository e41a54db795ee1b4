"""What the report of a run shows, read from its folder; a part whose file is not there is left out."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from fedol.files import read_json
from fedol.methods import title
from fedol.report import charts
from fedol.report.headline import figures, headline
from fedol.report.terminal import count, percent, size
from fedol.robust import NONE, hearing_everyone
from fedol.runs.folder import read_metrics, read_summary
from fedol.text import shown


def recipe(summary: dict[str, Any]) -> dict[str, Any]:
    """The settings as TOML, the commands, and what the run was made with."""
    config, provenance = summary["config"], summary.get("provenance", {})
    settings = {name: value for name, value in config.items() if value is not None}
    made = {**provenance.get("versions", summary.get("versions", {})), **provenance.get("machine", {})}
    if provenance.get("commit"):
        made["commit"] = provenance["commit"]
    if provenance.get("date"):
        made["date"] = provenance["date"]
    return {
        "toml": Markup("\n".join(shown(f"{name} = {_toml(value)}", "html") for name, value in settings.items())),
        "command": provenance.get("command"),
        "simulated": "task" not in summary,
        "made": {name: value for name, value in made.items() if value is not None},
    }


def _toml(value: Any) -> str:
    """A setting as TOML writes it, which for these types is how JSON does."""
    return json.dumps(value, ensure_ascii=False)


ENOUGH = 5  # clients for "the others" to mean anything
FAR = 3.0  # robust standard deviations below the median
CLOSE = 0.05  # a smaller deviation counts as this: clients that hardly differ are not odd


def attention(summary: dict[str, Any], evidence: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Whom the screening (``fedol.robust``) left out or could not clear and why, then who else looks odd."""
    screened = {entry["client"]: entry for entry in summary.get("screening", [])}
    found = [
        {
            "client": name,
            "left_out": entry["left_out"],
            "reason": entry["why"],
            "trust": entry["trust"],
            "figures": _figures(entry),
        }
        for name, entry in screened.items()
        if entry["suspicious"]
    ]
    found.sort(key=lambda entry: not entry["left_out"])
    for odd in suspicions(evidence) if evidence else []:
        if odd["client"] not in {entry["client"] for entry in found}:
            heard: dict[str, Any] = {**odd, "left_out": False, "trust": None, "figures": []}
            if odd["client"] in screened:
                entry = screened[odd["client"]]
                heard |= {"trust": entry["trust"], "figures": _figures(entry)}
            found.append(heard)
    places = {name: place for place, name in enumerate(evidence["clients"])} if evidence else {}
    return [{**entry, "place": places.get(entry["client"])} for entry in found]


def _figures(entry: dict[str, Any]) -> list[tuple[str, float, float | None]]:
    """What was measured, and what is usual among the others where that is known; what could not be is left out."""
    found = entry["evidence"]
    rows = [
        ("agreement with the others beyond chance", found["everywhere"], found["usual_everywhere"]),
        ("agreement on the samples it is surest of", found["surest"], found["usual_surest"]),
        ("the same, with all others together", found.get("seconded"), found.get("usual_seconded")),
        ("samples it claims against all others together", found.get("contradicted"), found.get("usual_contradicted")),
        ("of what it claims by its masses, denied by the others", found.get("denied"), found.get("usual_denied")),
        ("sure of the same samples as the others (rank correlation)", found["confidence"], None),
    ]
    return [row for row in rows if row[1] is not None]


def suspicions(evidence: dict[str, Any]) -> list[dict[str, str]]:
    """Clients that agree with the trained server far less than the others do, or answer one class to everything."""
    agreement = np.array(evidence["agreement"])
    found = []
    middle = float(np.median(agreement))
    spread = 1.4826 * float(np.median(np.abs(agreement - middle)))  # the deviation of a normal with this median gap
    for k, name in enumerate(evidence["clients"]):
        answers = {sample["votes"][k][0] for sample in evidence["samples"]}
        alike = len(answers) == 1 and len(evidence["samples"]) > 1
        if alike and "findings" not in evidence:  # of which a client may honestly never have seen any
            found.append({"client": name, "reason": "It answers the same class to every sample shown here."})
        elif len(agreement) >= ENOUGH and agreement[k] < middle - FAR * max(spread, CLOSE):
            reason = (
                f"The trained server agrees with it on {100 * agreement[k]:.0f} % of the public samples; "
                f"with the median client on {100 * middle:.0f} %."
            )
            found.append({"client": name, "reason": reason})
    return found


WORST = 8  # classes whose confusions are shown


def run_view(folder: Path) -> dict[str, Any]:
    """The values of ``templates/run.html``."""
    summary = read_summary(folder / "summary.json", "give the folder of a finished run")
    evaluation, evidence = (_optional(folder / name) for name in ("evaluation.json", "evidence.json"))
    data = _optional(folder / "data.json")
    task = summary.get("task")  # of a served run; a simulated one has its data instead
    named = task or data
    classes = [shown(name) for name in named["classes"]] if named else None  # the evidence's script shows them, too
    return {
        "shared": False,
        "together": True,
        "own": None,
        "served": bool(task),
        "screened": bool(summary.get("screening")),
        "name": (task["name"] or task["id"])
        if task
        else f"{_base(summary['config']['dataset'])}, {summary['config']['partition']}",
        "method": title(summary["config"]["method"]),
        "headline": headline(summary),
        "figures": figures(summary),
        "summary": summary,
        "classes": classes,
        "heat": _heat(data) if data else None,
        "data": data,
        "clients": _clients(summary, evidence),
        "benefit": _optional(folder / "benefit.json"),
        "sizes": None if task else _sizes(summary),
        "iterations": _iterations(summary["history"]),
        "history": summary["history"],
        "losses": _losses(read_metrics(folder)),
        "evidence": _evidence(folder, evidence, classes),
        "per_class": _per_class(evaluation, classes),
        "findings": _findings(evaluation, named),
        "confused": _confused(evaluation, classes),
        "calibration": in_words(evaluation["server"]["calibration"]) if evaluation else None,
        "reliability": charts.reliability(evaluation["server"]["calibration"]) if evaluation else None,
        "strange": evaluation["server"].get("strange") if evaluation else None,
        "attention": attention(summary, evidence),
        "everyone": hearing_everyone(summary["config"].get("defence", NONE)),
        "refused": summary.get("refused", []),
        "promises": [client for client in summary["clients"] if client.get("privacy")],
        "costs": _costs(summary, folder),
        "recipe": recipe(summary),
    }


def _clients(summary: dict[str, Any], evidence: dict[str, Any] | None) -> list[dict[str, Any]]:
    agreement = evidence["agreement"] if evidence else [None] * len(summary["clients"])
    trust = {entry["client"]: entry["trust"] for entry in summary.get("screening", [])}
    names = [f"client {c['client']}" if "accuracy" in c else c["client"] for c in summary["clients"]]
    return [
        {**client, "name": name, "agreement": share, "trust": trust.get(name)}
        for client, name, share in zip(summary["clients"], names, agreement, strict=True)
    ]


def _heat(data: dict[str, Any]) -> Any:
    counts = np.array(data["samples_per_client_and_class"])
    return charts.heat_map(counts, data.get("findings", data["classes"]), [f"client {k}" for k in range(len(counts))])


def _sizes(summary: dict[str, Any]) -> Any:
    points = [{**client, "name": f"client {client['client']}", "server": False} for client in summary["clients"]]
    if summary["server"]:
        points.append({**summary["server"], "name": "server", "server": True})
    return charts.sizes(points)


def _iterations(history: list[dict[str, Any]]) -> dict[str, Any] | None:
    if len(history) < 2:
        return None
    known = [record.get("diagnostics", {}) for record in history]
    series = {
        "ρ": [record.get("rho") for record in history],
        "labelled": [record.get("coverage") for record in history],
        "labels right": [entry.get("pseudo_label_accuracy") for entry in known],
        "server on the test set": [entry.get("test_accuracy") for entry in known],
    }
    shown = {name: values for name, values in series.items() if any(value is not None for value in values)}
    steps = [record["iteration"] for record in history]
    return {"chart": charts.iterations(shown, steps), "series": shown, "steps": steps}


def _losses(metrics: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The losses of every epoch; None of a run that has not kept them."""
    clients, server = (
        [line["losses"] for line in metrics if line["stage"] == stage and line.get("losses")]
        for stage in ("client", "iteration")
    )
    if not clients and not server:
        return None
    return {"chart": charts.losses(clients, server), "clients": len(clients), "server": len(server)}


TRUE = 0.02  # a mean gap below this is none


def in_words(calibration: dict[str, Any], model: str = "the server") -> str:
    """Whether a model is as right as it is sure: on average, and level by level."""
    bins = [entry for entry in calibration["bins"] if entry["count"]]
    samples = sum(entry["count"] for entry in bins)
    sure, right = (sum(entry["count"] * entry[name] for entry in bins) / samples for name in ("confidence", "accuracy"))
    gap = f"{100 * abs(sure - right):.1f} points"
    verdict = "as it should be" if abs(sure - right) < TRUE else f"{gap} {'too sure' if sure > right else 'too modest'}"
    return (
        f"Over all test samples {model} is {percent(sure)} sure and {percent(right)} right: {verdict}. Expected "
        f"calibration error: level by level, the two are {100 * calibration['ece']:.1f} points apart in the mean."
    )


SHOWN = ("clients", "left_out", "captions", "findings")  # names and words of strangers


def _evidence(folder: Path, evidence: dict[str, Any] | None, classes: list[str] | None) -> dict[str, Any] | None:
    """What the samples are shown by, pictures or words, and how everyone voted on them."""
    pictures = folder / "public.png"
    if evidence is None or classes is None or not (pictures.exists() or "captions" in evidence):
        return None
    sheet = pictures.read_bytes() if pictures.exists() else b""
    width, height = (int.from_bytes(sheet[at : at + 4], "big") for at in (16, 20))  # where a PNG says its size
    return {
        "left_out": [],
        "gated": bool(evidence["iterations"]),  # where an earlier run does not say
        **evidence,
        **{key: list(map(shown, evidence[key])) for key in SHOWN if key in evidence},
        "classes": classes,
        "sheet": base64.b64encode(sheet).decode(),
        "size": [width, height],
    }


def _per_class(evaluation: dict[str, Any] | None, classes: list[str] | None) -> list[dict[str, Any]]:
    if evaluation is None or classes is None or "best_client" not in evaluation:
        return []
    server, best = evaluation["server"], evaluation["best_client"]
    return [
        {
            "name": name,
            "samples": server["samples"][c],
            "server": server["per_class"][c],
            "best": best["per_class"][c],
            "chart": charts.dumbbell(best["per_class"][c], server["per_class"][c]),
        }
        for c, name in enumerate(classes)
        if server["samples"][c]
    ]


def _findings(evaluation: dict[str, Any] | None, named: dict[str, Any] | None) -> list[dict[str, Any]]:
    """How well the server tells who has each finding; nothing where samples have classes."""
    if evaluation is None or named is None or "findings" not in named:
        return []
    rows = zip(named["findings"], evaluation["server"]["findings"], strict=True)
    return [{"name": shown(name), **row} for name, row in rows]


def _confused(evaluation: dict[str, Any] | None, classes: list[str] | None) -> list[dict[str, Any]]:
    """The classes that the server knows least, and what it takes them for."""
    if evaluation is None or classes is None:
        return []
    server, rows = evaluation["server"], []
    known = [c for c in range(len(classes)) if server["samples"][c]]
    for c in sorted(known, key=lambda c: server["per_class"][c])[:WORST]:
        counts = np.array(server["confusion"][c])
        counts[c] = 0
        taken = [
            (classes[o], counts[o] / server["samples"][c]) for o in np.argsort(-counts, kind="stable")[:3] if counts[o]
        ]
        rows.append({"name": classes[c], "accuracy": server["per_class"][c], "taken": taken})
    return rows


def _costs(summary: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    lines = read_metrics(folder)
    clients = [line["seconds"] for line in lines if line["stage"] == "client"]
    server = [line["seconds"] for line in lines if line["stage"] == "iteration"]
    sent = [client.get("upload_bytes", client.get("bytes", 0)) for client in summary["clients"]]
    rows = [("Uploads, per client", size(float(np.mean(sent)))), ("Uploads, all clients", size(float(sum(sent))))]
    rows.append(("Rounds of communication", "1"))
    if clients:
        rows.append(("Training, longest client", f"{max(clients):.1f} s"))
        rows.append(("Training, all clients", f"{sum(clients):.1f} s, side by side where they ran together"))
    if server:
        rows.append(("Training, server", f"{sum(server):.1f} s in {count(len(server), 'iteration')}"))
    rows.append(("Device", str(summary.get("provenance", summary)["device"])))
    return rows


def _optional(path: Path) -> Any:
    return read_json(path, "remove it to leave its part out") if path.exists() else None


def _base(dataset: str) -> str:
    return Path(dataset).name.partition("@")[0]
