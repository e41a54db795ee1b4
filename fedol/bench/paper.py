"""The paper's own numbers, to stand beside ours."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from fedol.methods import title

DATASET = "cifar100"  # all of its numbers are on these images

# The rows of the paper by the names of our methods.
ROWS = {
    "fedhkt": "FedHKT",
    **{name: title(name) for name in ("local", "fedavg", "fedprox", "feddf", "fedet", "mine", "fedkt", "fedol")},
}


@cache
def numbers() -> dict[str, Any]:
    """Everything as it is printed there, in percent and MB."""
    values: dict[str, Any] = json.loads(files("fedol.bench").joinpath("paper.json").read_text(encoding="utf-8"))
    return values


def one_round(dataset: str, partition: str, method: str) -> tuple[float, float] | None:
    """Mean and standard deviation of a cell of the paper's table, as shares; None where it has none."""
    rows = numbers()["one_round"]["rows"].get(partition.replace(":", "-"), {})
    found = rows.get(ROWS.get(method)) if dataset == DATASET else None
    return None if found is None else (found[0] / 100, found[1] / 100)


def rounds(dataset: str, partition: str, method: str) -> list[float] | None:
    """Accuracy after each round in the paper's figure (FedOL: after its one), as shares."""
    rows = numbers()["rounds"]["rows"].get(partition.replace(":", "-"), {})
    name = "FedOL (one round)" if method == "fedol" else ROWS.get(method)
    found = rows.get(name) if dataset == DATASET else None
    if found is None:
        return None
    return [value / 100 for value in (found if isinstance(found, list) else [found])]
