"""From finished cells to the numbers of a table: mean and spread over seeds, and the paper's beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from fedol.evaluation import summary_statistics
from fedol.experiments import paper
from fedol.experiments.cells import CEILING, ENSEMBLE, ONE_ROUND
from fedol.methods import ITERATED, title
from fedol.methods.teacher import Distillation

Result = dict[str, Any]

# Cells that agree in these stand in one table; the ceiling has no clients and stands in every table of its data.
SHARED = ("dataset", "width", "public", "batch_size", "lr", "clients", "epochs")
DEFAULTS = Distillation()
ORDER = [*ONE_ROUND[:-2], *ITERATED[1:], ENSEMBLE, CEILING]


def tables(results: Iterable[Result]) -> list[dict[str, Any]]:
    """The one-round tables: rows of methods, columns of partitions."""
    cells = [result for result in results if result["settings"].get("rounds", 1) == 1]
    keys = {_key(cell) for cell in cells if "clients" in cell["settings"]}
    found = []
    for key in sorted(keys, key=str):
        mine = [cell for cell in cells if _belongs(cell, key)]
        partitions = sorted(
            {cell["settings"]["partition"] for cell in mine if "partition" in cell["settings"]}, key=_rank
        )
        rows: dict[str, list[Result]] = defaultdict(list)
        for cell in sorted(mine, key=_place):
            rows[label(cell["settings"])].append(cell)
        body = [_row(name, row, partitions) for name, row in rows.items()]
        found.append({"settings": dict(zip(SHARED, key, strict=True)), "partitions": partitions, "rows": body})
    return found


def figures(results: Iterable[Result]) -> list[dict[str, Any]]:
    """The curves over rounds, one panel per table and partition, with FedOL's one round as a level."""
    results = list(results)
    several = [cell for cell in results if cell["settings"].get("rounds", 1) > 1]
    panels = []
    for key, partition in sorted({(_key(cell), cell["settings"]["partition"]) for cell in several}, key=str):
        here = [cell for cell in several if _key(cell) == key and cell["settings"]["partition"] == partition]
        lines = []
        for method in dict.fromkeys(cell["method"] for cell in sorted(here, key=_place)):
            runs = [[r["accuracy"] for r in cell["history"]] for cell in here if cell["method"] == method]
            points = [summary_statistics(column) for column in zip(*runs, strict=False)]
            theirs = paper.rounds(key[0], partition, method)
            lines.append({"method": method, "rounds": points, "paper": theirs})
        one = [
            cell["accuracy"]
            for cell in results
            if cell["method"] == "fedol" and _key(cell) == key and cell["settings"]["partition"] == partition
        ]
        level = summary_statistics(one) if one else None
        for line in lines:
            line["passes_fedol"] = _first_above([p["mean"] for p in line["rounds"]], level["mean"] if level else None)
        theirs = paper.rounds(key[0], partition, "fedol")
        panel = {"settings": dict(zip(SHARED, key, strict=True)), "partition": partition, "lines": lines}
        panels.append({**panel, "fedol": level, "paper_fedol": theirs and theirs[0]})
    return panels


def label(settings: dict[str, Any]) -> str:
    """A row's name: the method, and what else distinguishes it."""
    method, details = settings["method"], []
    names = {ENSEMBLE: "Ensemble of the clients", CEILING: "Server on true public labels"}
    if "iterations" in settings:
        details.append(f"{settings['iterations']} × {settings['server_epochs']} epochs")
        for name, sign in (("tau", "τ"), ("rho", "ρ"), ("rho_step", "ρ step")):
            if method != "fedol-tau0" and settings[name] != getattr(DEFAULTS, name):
                details.append(f"{sign} = {settings[name]:g}")
    elif "server_epochs" in settings:
        details.append(f"{settings['server_epochs']} epochs")
    if "mu" in settings:
        details.append(f"μ = {settings['mu']:g}")
    return names.get(method, title(method)) + (f" ({', '.join(details)})" if details else "")


def _row(name: str, cells: list[Result], partitions: list[str]) -> dict[str, Any]:
    method, row = cells[0]["method"], {}
    plain = cells[0]["settings"].get("server_epochs") in (None, cells[0]["settings"].get("epochs"))
    for partition in partitions:
        here = [cell for cell in cells if cell["settings"].get("partition", partition) == partition]
        if not here:
            continue
        entry = summary_statistics([cell["accuracy"] for cell in here])
        taught = [cell["history"][-1]["diagnostics"]["target_accuracy"] for cell in here if cell.get("history")]
        entry["target_accuracy"] = summary_statistics(taught)["mean"] if taught else None
        theirs = paper.one_round(cells[0]["settings"]["dataset"], partition, method) if plain else None
        entry["paper"] = theirs and {"mean": theirs[0], "std": theirs[1]}
        entry["difference"] = theirs and entry["mean"] - theirs[0]
        row[partition] = entry
    return {"label": name, "method": method, "settings": _own(cells[0]), "cells": row}


def _own(cell: Result) -> dict[str, Any]:
    return {name: value for name, value in cell["settings"].items() if name not in (*SHARED, "partition", "seed")}


def _key(cell: Result) -> tuple[Any, ...]:
    return tuple(cell["settings"].get(name) for name in SHARED)


def _belongs(cell: Result, key: tuple[Any, ...]) -> bool:
    settings = cell["settings"]
    return all(settings[name] == value for name, value in zip(SHARED, key, strict=True) if name in settings)


def _place(cell: Result) -> tuple[int, str, int, int]:
    method = cell["method"]
    known = ORDER.index(method) if method in ORDER else len(ORDER)
    return known, method, cell["settings"].get("server_epochs", 0), cell["seed"]


def _rank(partition: str) -> tuple[int, float, str]:
    """The paper's order: Dirichlet before classes, the milder first."""
    kind, _, value = partition.partition(":")
    return ["iid", "dirichlet", "classes"].index(kind), -float(value or 0), partition


def _first_above(curve: list[float], level: float | None) -> int | None:
    """The first round at or above a level; None where there is none."""
    if level is None:
        return None
    return next((number for number, value in enumerate(curve, 1) if value >= level), None)
