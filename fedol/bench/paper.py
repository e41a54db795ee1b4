"""The paper's own numbers, to stand beside ours."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from fedol.methods import METHODS

DATASET = "cifar100"  # all of its numbers are on these images


def row(method: str) -> str:
    """The name of a method in the paper; empty where it has none."""
    return METHODS[method].paper if method in METHODS else ""


@cache
def numbers() -> dict[str, Any]:
    """Everything as it is printed there, in percent and MB."""
    values: dict[str, Any] = json.loads(files("fedol.bench").joinpath("paper.json").read_text(encoding="utf-8"))
    return values


def one_round(dataset: str, partition: str, method: str) -> tuple[float, float] | None:
    """Mean and standard deviation of a cell of the paper's table, as shares; None where it has none."""
    rows = numbers()["one_round"]["rows"].get(partition.replace(":", "-"), {})
    found = rows.get(row(method)) if dataset == DATASET else None
    return None if found is None else (found[0] / 100, found[1] / 100)


def rounds(dataset: str, partition: str, method: str) -> list[float] | None:
    """Accuracy after each round in the paper's figure (FedOL: after its one), as shares."""
    rows = numbers()["rounds"]["rows"].get(partition.replace(":", "-"), {})
    found = rows.get(row(method), rows.get(f"{row(method)} (one round)")) if dataset == DATASET else None
    if found is None:
        return None
    return [value / 100 for value in (found if isinstance(found, list) else [found])]
