"""The numbers of a benchmark's tables, for CSV files: a record for each."""

from __future__ import annotations

from typing import Any

from fedol.bench.cells import FEDOL
from fedol.methods import title

Record = dict[str, Any]


def one_round_records(table: dict[str, Any]) -> list[Record]:
    """A record for every method and partition, the paper's number beside ours."""
    return [
        {"method": row["label"], "partition": partition, **_numbers(entry, "accuracy"), **_beside(entry)}
        for row in table["rows"]
        for partition, entry in row["cells"].items()
    ]


def over_fedol_records(table: dict[str, Any]) -> list[Record]:
    """How far every method is above FedOL."""
    return [
        {"method": row["label"], "partition": partition, **_points(entry["over_fedol"])}
        for row in table["rows"]
        for partition, entry in row["cells"].items()
        if entry["over_fedol"]
    ]


def rounds_records(panel: dict[str, Any]) -> list[Record]:
    """A record for every method and round, ours and the paper's."""
    where, found = {"partition": panel["partition"]}, []
    levels = {"ours": panel["fedol"], "the paper's": _single(panel["paper_fedol"])}
    for whose, level in levels.items():
        if level:
            found.append({"method": title(FEDOL), **where, "whose": whose, "round": 1, **_numbers(level, "accuracy")})
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
