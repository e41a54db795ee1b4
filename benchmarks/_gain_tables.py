"""The table of ``docs/results/gain.md``, from the records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from _published import bold, number, record, table
from _union_tables import DATA, SKEWS

METHODS = {
    "own": "own model",
    "server": "server",
    "prior": "server, site's prior",
    "adapted": "adapted",
    "retrained": "kind retrained",
    "best": "adapted, retrained",
}
NAMES = {**DATA, "cifar100": "CIFAR-100, encoded"}
PARTS = {**SKEWS, "dirichlet:1": "Dir(1)", "sites": "sites"}
RECORDS = ("gain", "gain-cifar100")


def rows() -> list[dict[str, Any]]:
    """The summaries of all federations."""
    return [row for name in RECORDS for row in record(name)["summary"]]


def federations() -> dict[tuple[str, str, str], dict[str, dict[str, Any]]]:
    """Of each federation the methods' rows."""
    found: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for row in rows():
        found.setdefault((row["data"], row["partition"], row["model"]), {})[row["method"]] = row
    return found


def accuracies() -> str:
    """The mean site, its spread over seeds, and the sites below their own model beyond noise."""
    lines = []
    for (data, partition, model), mine in federations().items():
        best = max(row["accuracy"]["mean"] for row in mine.values())
        cells = []
        for method in METHODS:
            value, low = mine[method]["accuracy"], mine[method]["below"]
            words = number(value["mean"]) + (f" ± {value['std']:.1f}" if value["n"] > 1 else "")
            words = bold(words) if value["mean"] == best else words
            cells.append(words if method == "own" else f"{words} ({low})")
        told = str(mine["own"]["accuracy"]["n"]), str(mine["own"]["sites"])
        lines.append([NAMES[data], PARTS[partition], model, *told, *cells])
    return table(["data", "split", "model", "n", "sites", *METHODS.values()], lines, left=3)


def goals() -> str:
    """Of each way, the federations in which the mean site is above its own model, and the sites below beyond noise."""
    lines = []
    for method, words in METHODS.items():
        if method == "own":
            continue
        mine = [found[method] for found in federations().values()]
        above = [row["above own"]["mean"] for row in mine]
        sites, below = (sum(row[name] for row in mine) for name in ("sites", "below"))
        ends = f"{number(min(above), sign=True)} to {number(max(above), sign=True)}"
        lines.append([words, f"{sum(value > 0 for value in above)} of {len(above)}", ends, f"{below} of {sites}"])
    columns = ["", "federations above own", "points above own", "sites below own beyond noise"]
    return table(columns, lines, left=1)


TABLES: dict[str, Callable[[], str]] = {"gain": accuracies, "gain-goals": goals}
