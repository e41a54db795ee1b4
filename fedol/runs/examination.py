"""A closer look at one model's predictions on labelled images: per class, confused with what, and how well calibrated.

Like ``fedol.runs.evaluation`` this sees withheld labels: it runs after all training, on what the training left behind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

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
