"""A site's own model against the server, on the site's own labelled data: what it has from taking part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedol.adapted import AdaptedModel, Answering
from fedol.data import Labelled
from fedol.gain.opening import Opened
from fedol.runs.evaluation import accuracy, examine

OWN, SERVER, ADAPTED = "own", "server", "adapted"


def contestants(model: Opened, own: Answering) -> dict[str, Answering]:
    """Who is compared: of an adapted model also the server in it."""
    served: dict[str, Answering] = (
        {SERVER: model.server, ADAPTED: model} if isinstance(model, AdaptedModel) else {SERVER: model}
    )
    return {OWN: own, **served}


def evaluated(models: Mapping[str, Answering], held: Labelled, classes: tuple[str, ...]) -> dict[str, Any]:
    """Counts, accuracy, recall per class and calibration of each model; and each against the site's own."""
    said = {name: model.predict_log_proba(held.samples).float() for name, model in models.items()}
    right = {name: log_probs.argmax(1).numpy() == held.y for name, log_probs in said.items()}
    found = {}
    for name, log_probs in said.items():
        close = examine(log_probs, held.y, len(classes))
        score = {"right": int(right[name].sum()), "accuracy": accuracy(log_probs, held.y)}
        found[name] = {**score, "recall": close["per_class"], "calibration": close["calibration"]}
        if name != OWN:
            found[name]["against_own"] = paired(right[name], right[OWN])
    counts = np.bincount(held.y, minlength=len(classes)).tolist()
    return {"samples": len(held), "classes": list(classes), "counts": counts, "models": found}


def paired(first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
    """On how many samples only one of two is right, and whether that is beyond noise: two binomial standard errors."""
    wins, losses = int((first & ~second).sum()), int((second & ~first).sum())
    gap = wins - losses
    return {"wins": wins, "losses": losses, "beyond_noise": bool(abs(gap) > 2 * (wins + losses) ** 0.5)}
