"""A server of any framework: an estimator learns soft targets by the weights of its samples.

Cross-entropy against a distribution t over classes is the sum of those against each class, weighed by t_c. So a sample
is shown once for each of its likely classes, with that class as its label and t_c as its weight.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from fedol.errors import InputError

Floats = npt.NDArray[np.float64]
LEAST = 0.01  # of a sample's target: a class with less of it is left out, and the others share it


class SoftClassifier:
    """An estimator with ``fit(..., sample_weight=)`` and ``predict_proba``, taught by soft targets [N, C]."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self._weights = _weights_of(estimator)

    def fit(self, x: Any, soft: Floats) -> Self:
        """Learn; rows of ``soft`` that sum to more weigh more."""
        self._classes = soft.shape[1]
        if hasattr(self.estimator, "fit_soft"):
            self.estimator.fit_soft(x, soft)
            self._known = np.arange(self._classes)
            return self
        place, label, weight = likely(soft)
        self._known, encoded = np.unique(label, return_inverse=True)  # some frameworks want labels without a gap
        if len(self._known) > 1:  # else there is nothing to tell apart, which many estimators refuse
            self.estimator.fit(_safe_indexing(x, place), encoded, **{self._weights: weight})
        return self

    def predict_proba(self, x: Any) -> Floats:
        """Probabilities [n, C]; none of a class that no target named."""
        probs = np.zeros((_rows(x), self._classes))
        probs[:, self._known] = self.estimator.predict_proba(x) if len(self._known) > 1 else 1.0
        return probs


def likely(soft: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
    """Of each sample its likely classes: position, class and weight; the weights add up to its row's."""
    total = soft.sum(1, keepdims=True)
    kept = np.where(soft >= LEAST * total, soft, 0.0)  # the most likely of C < 100 classes has a hundredth or more
    kept[np.arange(len(soft)), soft.argmax(1)] = soft.max(1)
    kept *= total / kept.sum(1, keepdims=True)
    place, label = np.nonzero(kept)
    return place, label, kept[place, label]


def _weights_of(estimator: Any) -> str:
    """What the argument of ``fit`` is called that takes the weights; in a pipeline it is the last step's."""
    if hasattr(estimator, "fit_soft"):
        return ""
    name, learner = "sample_weight", estimator
    while isinstance(learner, Pipeline):
        step, learner = learner.steps[-1]
        name = f"{step}__{name}"
    if not has_fit_parameter(learner, "sample_weight"):
        raise InputError(
            f"The server learns how likely each class is by sample_weight, which {type(learner).__name__} does not "
            "take; give another one."
        )
    return name


def _rows(x: Any) -> int:
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)
