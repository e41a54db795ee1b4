"""A client that knows only some of the task's classes: its predictions on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedol.errors import InputError


def on_all_classes(probs: np.ndarray, known: Any, classes: Sequence[str]) -> np.ndarray:
    """Probabilities of the ``known`` classes (an estimator's ``classes_``: positions or names), zero for all others."""
    labels = np.asarray(known)
    if probs.ndim != 2 or labels.shape != probs.shape[1:]:
        raise InputError(f"There are {labels.size} known classes, but the predictions have shape {list(probs.shape)}.")
    if np.issubdtype(labels.dtype, np.number):
        columns = labels.astype(np.int64)
        strange = labels[(columns < 0) | (columns >= len(classes)) | (columns != labels)]
    else:
        columns = np.array([classes.index(name) if name in classes else -1 for name in labels.tolist()])
        strange = labels[columns < 0]
    if strange.size:
        raise InputError(f"The model knows a class that the task has not: {strange[0]}.")
    full = np.zeros((len(probs), len(classes)), np.float32)
    full[:, columns] = probs
    return full
