"""From finished cells to the numbers of tables and of curves over rounds: mean, spread, and the paper's beside them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from fedol.bench import paper
from fedol.bench.cells import ALSO, FEDOL, FEEDBACK_EPOCHS, HOW, OFF, SWITCHES
from fedol.config import configure
from fedol.data import PARTITIONS
from fedol.methods import METHODS, title
from fedol.methods.method import LAST
from fedol.methods.sides import Distillation
from fedol.runs.evaluation import summary_statistics

Result = dict[str, Any]

# Cells that agree in these stand in one table; the ceiling has no clients and stands in every table of its data, or in
# one of its own where there is none.
SHARED = ("dataset", "width", "public", "batch_size", "lr", "clients", "epochs", *HOW, *ALSO)
DEFAULTS = Distillation()
VOTES = {name: getattr(DEFAULTS, name) for name in ("tau", "rho", "rho_step")}  # the paper's
NOTICEABLE = 0.01  # in the accuracy of one client that was trained twice; less is mostly rounding
ANY = "any partition"  # the column of a table that has no clients


def tables(results: Iterable[Result]) -> list[dict[str, Any]]:
    """The one-round tables, the largest first: rows of methods, columns of partitions."""
    cells = [cell for cell in results if cell["settings"].get("rounds", 1) == 1]
    keys = {table_of(cell) for cell in cells if "clients" in cell["settings"]}
    keys |= {table_of(cell) for cell in cells if not any(_belongs(cell, key) for key in keys)}
    found = []
    members = {key: [cell for cell in cells if _belongs(cell, key)] for key in keys}
    for key in sorted(keys, key=lambda key: (-len(members[key]), str(key))):
        mine = members[key]
        named = {cell["settings"]["partition"] for cell in mine if "partition" in cell["settings"]}
        partitions = sorted(named, key=rank) or [ANY]
        rows = list(alike(mine).values())
        fedol = to_compare_with(rows)
        body = [_row(row, partitions, fedol) for row in rows]
        tell_apart(body)
        named_fedol = next((row["label"] for row, cells in zip(body, rows, strict=True) if cells is fedol), None)
        table = {"settings": _shared(key), "partitions": partitions, "fedol": named_fedol}
        found.append({**table, "rows": body})
    return found


def to_compare_with(rows: list[list[Result]]) -> list[Result]:
    """The row of FedOL; of several the one with the paper's settings, else of those with its votes the longest."""
    fedol = [row for row in rows if row[0]["method"] == FEDOL]
    theirs = [row for row in fedol if as_the_paper(row[0]["settings"])]
    usual = [row for row in fedol if all(row[0]["settings"].get(name, value) == value for name, value in VOTES.items())]
    most = max((row[0]["settings"]["iterations"] for row in usual or fedol), default=0)
    longest = [row for row in usual or fedol if row[0]["settings"]["iterations"] == most]
    return next((found[0] for found in (fedol, theirs, longest) if len(found) == 1), [])


def alike(cells: list[Result], but: tuple[str, ...] = ()) -> dict[str, list[Result]]:
    """Cells that differ in seed and partition alone (and in ``but``), in the order of the rows."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for cell in sorted(cells, key=_place):
        settings = {name: value for name, value in own(cell).items() if name not in but}
        groups[json.dumps(settings, sort_keys=True)].append(cell)
    return groups


def label(settings: dict[str, Any]) -> str:
    """A row's name: the method, and what else distinguishes it."""
    method, details = settings["method"], []
    fixed = METHODS[method].fixed if method in METHODS else {}
    if "iterations" in settings:
        details.append(f"{settings['iterations']} × {_epochs(settings)}")
        for name, sign in (("tau", "τ"), ("rho", "ρ"), ("rho_step", "ρ step")):
            if name not in fixed and settings.get(name, getattr(DEFAULTS, name)) != getattr(DEFAULTS, name):
                details.append(f"{sign} = {settings[name]:g}")
    elif "server_epochs" in settings:
        details.append(_epochs(settings))
    if settings.get("feedback_epochs", FEEDBACK_EPOCHS) != FEEDBACK_EPOCHS:
        details.append(f"{settings['feedback_epochs']} on feedback")
    details += [f"feedback of the {settings['feedback']}"] if "feedback" in settings else []
    if "mu" in settings:
        details.append(f"μ = {settings['mu']:g}")
    details += [str(settings["patch"])] if "patch" in settings else []
    details += [f"averaged at {settings['average']:g}"] if "average" in settings else []
    details += [f"weight decay {settings['weight_decay']:g}"] if "weight_decay" in settings else []
    details += [f"defence {settings['defence']}"] if "defence" in settings else []
    return title(method) + (f" ({', '.join(details)})" if details else "")


def _epochs(settings: dict[str, Any]) -> str:
    count = settings["server_epochs"]
    return f"{count} epoch{'s' if count != 1 else ''}"


def _row(cells: list[Result], partitions: list[str], fedol: list[Result]) -> dict[str, Any]:
    method, row = cells[0]["method"], {}
    comparable = as_the_paper(cells[0]["settings"])
    for partition in partitions:
        here = [cell for cell in cells if cell["settings"].get("partition", partition) == partition]
        if not here:
            continue
        entry = summary_statistics([cell["accuracy"] for cell in here])
        taught = [cell["history"][-1]["diagnostics"]["target_accuracy"] for cell in here if cell.get("history")]
        entry["target_accuracy"] = summary_statistics(taught)["mean"] if taught else None
        spreads = [cell["over_clients"]["std"] for cell in here if "over_clients" in cell]
        entry["over_clients"] = None if not spreads or None in spreads else summary_statistics(spreads)["mean"]
        theirs = paper.one_round(cells[0]["settings"]["dataset"], partition, method) if comparable else None
        entry["paper"] = theirs and {"mean": theirs[0], "std": theirs[1]}
        entry["difference"] = theirs and entry["mean"] - theirs[0]
        theirs_here = [cell for cell in fedol if cell["settings"]["partition"] == partition]
        entry["over_fedol"] = None if cells is fedol else paired(here, theirs_here)
        entry["files"] = [cell["file"] for cell in here if "file" in cell]
        row[partition] = entry
    return {"label": label(cells[0]["settings"]), "method": method, "settings": own(cells[0]), "cells": row}


def as_the_paper(settings: dict[str, Any]) -> bool:
    """Whether a server was trained as the paper's were, and not tested on a development split.

    What all rows of a table share, its epochs and width for instance, its title says; this is about the rest.
    """
    if settings.get("server_epochs") not in (None, settings.get("epochs")) or settings.get("development"):
        return False
    theirs = configure("paper").as_json()
    models = [theirs["parameter_model"]] if settings.get("sends") == "weights" else theirs["client_models"]
    theirs |= {name: OFF[name] for name in SWITCHES} | {"client_models": models}
    named = ("iterations", "tau", "rho", "rho_step", "server_model", "client_models")
    if any(settings.get(name, theirs[name]) != theirs[name] for name in (*named, *SWITCHES)):
        return False
    return (
        settings.get("sends") not in ("predictions", "ratios") or settings.get("codec", OFF["codec"]) == theirs["codec"]
    )


def paired(here: Iterable[Result], there: Iterable[Result]) -> dict[str, Any] | None:
    """How far cells are above others of the same partition, seed by seed: on one split of the data, and its luck."""
    theirs = {cell["seed"]: cell for cell in there}
    pairs = [(cell, theirs[cell["seed"]]) for cell in here if cell["seed"] in theirs]
    if not pairs:
        return None
    others = [mine["seed"] for mine, their in pairs if _other_clients(mine, their)]
    points = [mine["accuracy"] - their["accuracy"] for mine, their in pairs]
    return {**summary_statistics(points), "other_clients": others}


def _other_clients(mine: Result, theirs: Result) -> bool:
    """Whether servers that the same clients should teach had noticeably others.

    The same seed on another machine, or in another version, rounds otherwise, and small differences grow.
    """
    same = ("sends", "client_models", "codec")
    if any(mine["settings"].get(name) != theirs["settings"].get(name) for name in same):
        return False
    pairs = zip(_clients(mine), _clients(theirs), strict=False)  # an ensemble has no record of them
    return any(round(abs(a - b), 6) >= NOTICEABLE for a, b in pairs)


def _clients(cell: Result) -> list[float]:
    """How good each client was."""
    return [client["accuracy"] for client in cell.get("clients", ())]


def tell_apart(rows: list[dict[str, Any]]) -> None:
    """Rows of one name also say the settings in which they differ: the server's model, for instance."""
    for name, count in Counter(row["label"] for row in rows).items():
        same = [row for row in rows if row["label"] == name] if count > 1 else []
        for setting in sorted({setting for row in same for setting in row["settings"]}):
            values = [row["settings"].get(setting, OFF.get(setting)) for row in same]
            if any(value != values[0] for value in values):
                for row, value in zip(same, values, strict=True):
                    row["label"] += f", {setting} {' and '.join(value) if isinstance(value, list) else value}"


def own(cell: Result) -> dict[str, Any]:
    """The settings in which a cell may differ from others of its table."""
    return {name: value for name, value in cell["settings"].items() if name not in (*SHARED, "partition", "seed")}


def table_of(cell: Result) -> tuple[Any, ...]:
    """Cells with the same stand in one table."""
    return tuple(cell["settings"].get(name) for name in SHARED)


def _shared(key: tuple[Any, ...]) -> dict[str, Any]:
    """What the cells of a table have in common."""
    named = zip(SHARED, key, strict=True)
    return {name: value for name, value in named if value is not None or name not in ALSO}


def _belongs(cell: Result, key: tuple[Any, ...]) -> bool:
    settings = cell["settings"]
    absent = () if "clients" in settings else ("clients", "epochs")  # the ceiling has no clients
    return all(settings.get(name) == value for name, value in zip(SHARED, key, strict=True) if name not in absent)


def _place(cell: Result) -> tuple[int, str, int, str, int]:
    method, settings = cell["method"], cell["settings"]
    row = METHODS[method].row if method in METHODS else LAST
    return row, method, settings.get("server_epochs", 0), label(settings), cell["seed"]


def rank(partition: str) -> tuple[int, float, str]:
    """The paper's order: Dirichlet before classes, the milder first; then sites; last people's own, told by the @."""
    kind, _, value = partition.partition(":")
    if "@" in partition:
        return len(PARTITIONS), 0.0, partition
    return list(PARTITIONS).index(kind), -float(value or 0) if kind in ("dirichlet", "classes") else 0.0, partition


def figures(results: Iterable[Result]) -> list[dict[str, Any]]:
    """The curves over rounds, one panel per table and partition, with FedOL's one round as a level."""
    results = list(results)
    several = [cell for cell in results if cell["settings"].get("rounds", 1) > 1]
    places = {(table_of(cell), cell["settings"]["partition"]) for cell in several}
    panels = []
    for key, partition in sorted(places, key=lambda place: (str(place[0]), rank(place[1]))):
        here = [cell for cell in results if table_of(cell) == key and cell["settings"].get("partition") == partition]
        drawn = [cell for cell in here if cell in several]
        settings = _shared(key)
        dataset = "" if settings["development"] else key[0]  # the paper's are on the test set
        lines = _lines(drawn, dataset, partition)
        fedol = [cell for cell in here if cell["method"] == FEDOL]
        level = _level(fedol, drawn)
        for line in lines:
            means = [point["mean"] for point in line["rounds"]]
            line["passes_fedol"] = first_above(means, level["mean"] if level else None)
        comparable = not fedol or any(as_the_paper(cell["settings"]) for cell in fedol)
        theirs = paper.rounds(dataset, partition, FEDOL) if comparable else None
        panel = {"settings": settings, "partition": partition, "lines": lines}
        beside = theirs is not None or any(line["paper"] for line in lines)
        panels.append({**panel, "fedol": level, "paper_fedol": theirs and theirs[0], "beside": beside})
    return panels


def _lines(cells: list[Result], dataset: str, partition: str) -> list[dict[str, Any]]:
    """A curve per method: the mean over seeds after each round, of the longest runs where there are several."""
    lines: list[dict[str, Any]] = []
    for group in alike(cells, ("rounds",)).values():
        longest = max(cell["settings"]["rounds"] for cell in group)
        chosen = [cell for cell in group if cell["settings"]["rounds"] == longest]
        runs = [[record["accuracy"] for record in cell["history"]] for cell in chosen]
        settings = group[0]["settings"]
        line: dict[str, Any] = {"method": settings["method"], "label": label(settings)}
        line["rounds"] = [summary_statistics(column) for column in zip(*runs, strict=True)]
        line["files"] = [cell["file"] for cell in chosen if "file" in cell]
        line["settings"] = {name: value for name, value in own(group[0]).items() if name != "rounds"}
        # One curve of the paper's a method, and none beside feedback of the teacher, which it has not.
        another = "feedback" in settings or any(other["paper"] for other in lines if other["method"] == line["method"])
        comparable = as_the_paper(settings) and not another
        lines.append({**line, "paper": paper.rounds(dataset, partition, line["method"]) if comparable else None})
    tell_apart(lines)
    return lines


def _level(cells: list[Result], beside: list[Result]) -> dict[str, Any] | None:
    """FedOL's one round, with the seeds and servers' epochs of the curves where it has them.

    Of several the one that tables compare with, else the longest.
    """
    seeds, epochs = ({cell["settings"].get(name) for cell in beside} for name in ("seed", "server_epochs"))
    same = [cell for cell in cells if cell["settings"]["seed"] in seeds] or cells
    fitting = [cell for cell in same if cell["settings"]["server_epochs"] in epochs] or same
    rows = list(alike(fitting).values())
    chosen = to_compare_with(rows) or max(rows, key=lambda row: row[0]["settings"]["iterations"], default=[])
    return summary_statistics([cell["accuracy"] for cell in chosen]) if chosen else None


def first_above(curve: list[float], level: float | None) -> int | None:
    """The first round at or above a level; None where there is none."""
    if level is None:
        return None
    return next((number for number, value in enumerate(curve, 1) if value >= level), None)
