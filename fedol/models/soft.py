"""A learner of any framework: an estimator learns soft targets by the weights of its samples.

Cross-entropy against a distribution t over classes is the sum of those against each class, weighed by t_c. So a sample
is shown once for each of its likely classes, with that class as its label and t_c as its weight.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from fedol.errors import InputError
from fedol.seeding import derive

Floats = npt.NDArray[np.float64]
Classes = npt.NDArray[np.int64]
LEAST = 0.01  # of a sample's target: a class with less of it is left out, and the others share it


class SoftClassifier:
    """An estimator with ``fit(..., sample_weight=)`` and ``predict_proba``, taught by soft targets [N, C]."""

    def __init__(self, estimator: Any, classes: int = 0, known: Classes | None = None) -> None:
        self.estimator = estimator
        self.classes = classes
        self.known = np.arange(0) if known is None else known  # the classes that its targets named: it has these alone

    def fit(self, x: Any, soft: Floats) -> Self:
        """Learn; rows of ``soft`` that sum to more weigh more."""
        if hasattr(self.estimator, "fit_soft"):
            self.estimator.fit_soft(x, soft)
            self.classes, self.known = soft.shape[1], np.arange(soft.shape[1])
            return self
        argument = weights_of(self.estimator)
        place, label, weight = likely(soft)
        return self._learn(_safe_indexing(x, place), label, soft.shape[1], {argument: weight})

    def fit_labels(self, x: Any, labels: Classes, classes: int) -> Self:
        """Learn one class of each sample; any estimator can."""
        return self._learn(x, labels, classes, {})

    def _learn(self, x: Any, labels: Classes, classes: int, weights: dict[str, Floats]) -> Self:
        # Some frameworks want labels without a gap.
        (self.known, encoded), self.classes = np.unique(labels, return_inverse=True), classes
        if len(self.known) > 1:  # else there is nothing to tell apart, which many estimators refuse
            self.estimator.fit(x, encoded, **weights)
        return self

    def predict_proba(self, x: Any) -> Floats:
        """Probabilities [n, C]; none of a class that no target named."""
        probs = np.zeros((_rows(x), self.classes))
        probs[:, self.known] = self.estimator.predict_proba(x) if len(self.known) > 1 else 1.0
        return probs


def likely(soft: Floats) -> tuple[Classes, Classes, Floats]:
    """Of each sample its likely classes: position, class and weight; the weights add up to its row's."""
    total = soft.sum(1, keepdims=True)
    kept = np.where(soft >= LEAST * total, soft, 0.0)  # the most likely of C < 100 classes has a hundredth or more
    kept[np.arange(len(soft)), soft.argmax(1)] = soft.max(1)
    kept *= total / np.maximum(kept.sum(1, keepdims=True), np.finfo(float).tiny)  # a row may say nothing
    place, label = np.nonzero(kept)
    return place, label, kept[place, label]


def weights_of(estimator: Any) -> str:
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


def seeded(estimator: Any, seed: int) -> Any:
    """A copy whose random numbers come from the seed, where it does not say where else they come from."""
    copy = clone(estimator, safe=False)
    unset = [name for name in named(copy, "random_state") if copy.get_params()[name] is None]
    return copy.set_params(**{name: derive(seed, name) % 2**31 for name in unset}) if unset else copy


def named(estimator: Any, parameter: str) -> list[str]:
    """Where an estimator and those within it have a parameter of this name."""
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return [name for name in params if name.split("__")[-1] == parameter]


def _rows(x: Any) -> int:
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)
