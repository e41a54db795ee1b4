"""The numbers of a benchmark for programs and plots: what the CSV files and the figure hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fedol.bench import paper
from fedol.bench.summary import (
    SHARED,
    Result,
    alike,
    as_the_paper,
    label,
    own,
    rank,
    table_of,
    tell_apart,
    to_compare_with,
)
from fedol.methods import title
from fedol.runs.evaluation import summary_statistics

Record = dict[str, Any]


def one_round(table: dict[str, Any]) -> list[Record]:
    """A record for every method and partition, the paper's number beside ours."""
    return [
        {"method": row["label"], "partition": partition, **_numbers(entry, "accuracy"), **_beside(entry)}
        for row in table["rows"]
        for partition, entry in row["cells"].items()
    ]


def over_fedol(table: dict[str, Any]) -> list[Record]:
    """How far every method is above FedOL."""
    return [
        {"method": row["label"], "partition": partition, **_points(entry["over_fedol"])}
        for row in table["rows"]
        for partition, entry in row["cells"].items()
        if entry["over_fedol"]
    ]


def rounds(panel: dict[str, Any]) -> list[Record]:
    """A record for every method and round, ours and the paper's."""
    where, found = {"partition": panel["partition"]}, []
    levels = {"ours": panel["fedol"], "the paper's": _single(panel["paper_fedol"])}
    for whose, level in levels.items():
        if level:
            found.append({"method": title("fedol"), **where, "whose": whose, "round": 1, **_numbers(level, "accuracy")})
    for line in panel["lines"]:
        curves = {"ours": (line["label"], line["rounds"])}
        curves["the paper's"] = title(line["method"]), [_single(value) for value in line["paper"] or []]
        for whose, (name, points) in curves.items():
            head = {"method": name, **where, "whose": whose}
            found += [{**head, "round": n, **_numbers(point, "accuracy")} for n, point in enumerate(points, 1)]
    return found


def _single(value: float | None) -> Record | None:
    """A number of the paper's of which it gives no spread."""
    return None if value is None else {"mean": value, "std": None, "n": None}


def _numbers(entry: Record | None, what: str) -> Record:
    """Mean, spread and number of seeds."""
    entry = entry or {"mean": None, "std": None, "n": None}
    return {what: _percent(entry["mean"]), "std": _percent(entry["std"]), "n": entry["n"]}


def _points(entry: Record) -> Record:
    """Points above FedOL, and the seeds with other clients than its."""
    return {**_numbers(entry, "points"), "other_clients": " ".join(map(str, entry["other_clients"]))}


def _beside(entry: Record) -> Record:
    theirs = entry["paper"] or {"mean": None, "std": None}
    numbers = {"paper": theirs["mean"], "paper_std": theirs["std"], "difference": entry["difference"]}
    return {name: _percent(value) for name, value in numbers.items()}


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 4)


def figures(results: Iterable[Result]) -> list[dict[str, Any]]:
    """The curves over rounds, one panel per table and partition, with FedOL's one round as a level."""
    results = list(results)
    several = [cell for cell in results if cell["settings"].get("rounds", 1) > 1]
    places = {(table_of(cell), cell["settings"]["partition"]) for cell in several}
    panels = []
    for key, partition in sorted(places, key=lambda place: (str(place[0]), rank(place[1]))):
        here = [cell for cell in results if table_of(cell) == key and cell["settings"].get("partition") == partition]
        drawn = [cell for cell in here if cell in several]
        settings = dict(zip(SHARED, key, strict=True))
        dataset = "" if settings["development"] else key[0]  # the paper's are on the test set
        lines = _lines(drawn, dataset, partition)
        fedol = [cell for cell in here if cell["method"] == "fedol"]
        level = _level(fedol, drawn)
        for line in lines:
            means = [point["mean"] for point in line["rounds"]]
            line["passes_fedol"] = first_above(means, level["mean"] if level else None)
        comparable = not fedol or any(as_the_paper(cell["settings"]) for cell in fedol)
        theirs = paper.rounds(dataset, partition, "fedol") if comparable else None
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
