"""Accuracy and diagnostics, read off the finished artefacts of a run: the only place that sees a withheld label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedol.core.mixture import Mixture
from fedol.data import Labelled
from fedol.model import ServerModel
from fedol.progress import watched


def accuracy(log_probs: Tensor, labels: np.ndarray) -> float:
    """The share of samples whose most probable class is the true one."""
    return float((log_probs.argmax(1).numpy() == labels).mean())


def evaluate_clients(clients: Sequence[ServerModel], test: Labelled) -> tuple[list[float], float]:
    """Each client's test accuracy, and that of their ensemble (the λ mixture of Eq. 12 that the server learns from)."""
    mixture, single = Mixture(), []
    for client in watched(clients, "evaluating"):
        log_probs = client.predict_log_proba(test.samples)
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
