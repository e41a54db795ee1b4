"""Accuracy and diagnostics, read off the finished artefacts of a run: the only place that sees a withheld label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedol.core.mixture import Mixture
from fedol.data import Images
from fedol.model import ServerModel
from fedol.progress import watched


def accuracy(log_probs: Tensor, labels: np.ndarray) -> float:
    """The share of samples whose most probable class is the true one."""
    return float((log_probs.argmax(1).numpy() == labels).mean())


def evaluate_clients(clients: Sequence[ServerModel], test: Images) -> tuple[list[float], float]:
    """Each client's test accuracy, and that of their ensemble (the λ mixture of Eq. 12 that the server learns from)."""
    mixture, single = Mixture(), []
    for client in watched(clients, "evaluating"):
        log_probs = client.predict_log_proba(test.x)
        single.append(accuracy(log_probs, test.y))
        mixture.add(log_probs.exp())
    return single, accuracy(mixture.mean(), test.y)


def pseudo_label_accuracy(labels: Tensor, truth: np.ndarray) -> float | None:
    """How many of the given pseudo-labels are right; None where there is none."""
    given = labels >= 0
    if not given.any():
        return None
    return float((labels == torch.from_numpy(truth))[given].double().mean())


def summary_statistics(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (n − 1) and n."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "std": spread, "n": len(values)}


BINS = 10  # of the reliability diagram, equally wide in confidence


def examine(log_probs: Tensor, labels: np.ndarray, classes: int) -> dict[str, Any]:
    """Confusion counts [true][predicted], accuracy per class (null for a class without images), and calibration."""
    probs = log_probs.double().exp().numpy()
    predicted = probs.argmax(1)
    confusion = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(confusion, (labels, predicted), 1)
    totals = confusion.sum(1)
    right = confusion.diagonal()
    return {
        "samples": totals.tolist(),
        "per_class": [int(r) / int(t) if t else None for r, t in zip(right, totals, strict=True)],
        "confusion": confusion.tolist(),
        "calibration": calibration(probs.max(1), predicted == labels),
    }


def calibration(confidence: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Reliability bins and the expected calibration error: the mean gap between how sure and how right, by images."""
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins, gap = [], 0.0
    for number in range(BINS):
        here = place == number
        count = int(here.sum())
        sure, correct = (float(confidence[here].mean()), float(right[here].mean())) if count else (None, None)
        bins.append({"count": count, "confidence": sure, "accuracy": correct})
        if sure is not None and correct is not None:
            gap += count * abs(sure - correct)
    return {"bins": bins, "ece": gap / max(1, len(confidence))}
