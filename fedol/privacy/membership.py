"""Membership inference: can one tell from predictions on an image whether the model was trained on it?

Two attacks. *Threshold*: a low loss says "member" (Yeom et al. 2018). *Likelihood ratio* (LiRA, Carlini et al. 2022):
the attacker trains shadow models of the same kind, some with and some without the image, and asks which of the two
groups the real prediction looks like. Both see exactly what a knowledge file holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

Values = npt.NDArray[np.float64]
SMALLEST = 1e-6  # probabilities nearer to 0 or 1 than this say no more


@dataclass(frozen=True)
class Leakage:
    """How well members are told from others: 0.5 and the false-positive rate itself are guessing."""

    auc: float
    tpr_at_1_percent: float
    tpr_at_01_percent: float
    members: int
    others: int

    @classmethod
    def of(cls, score: Values, member: npt.NDArray[np.bool_]) -> Leakage:
        """From a score per image that is higher for members."""
        inside, outside = score[member], score[~member]
        above = (inside[:, None] > outside).mean() + 0.5 * (inside[:, None] == outside).mean()
        one, tenth = _tpr(inside, outside, 0.01), _tpr(inside, outside, 0.001)
        return cls(float(above), one, tenth, len(inside), len(outside))


def _tpr(inside: Values, outside: Values, rate: float) -> float:
    """The share of members found by the lowest threshold that at most ``rate`` of the others pass."""
    threshold = np.sort(outside)[::-1][int(rate * len(outside))]
    return float((inside > threshold).mean())


def confidence(log_probs: Tensor, labels: npt.NDArray[np.int64]) -> Values:
    """log p/(1 − p) of the true class: nearly normal over shadow models, as the likelihood ratio assumes."""
    p = np.exp(log_probs.double().numpy()[np.arange(len(labels)), labels]).clip(SMALLEST, 1 - SMALLEST)
    result: Values = np.log(p) - np.log1p(-p)
    return result


def likelihood_ratio(observed: Values, shadows: Values, inside: npt.NDArray[np.bool_]) -> Values:
    """log N(observed; in) − log N(observed; out) per image, from the shadows' confidence and membership [S, N].

    Each image has its own two means; one standard deviation each for all of them, because shadows are few.
    """
    means = [np.where(part, shadows, 0).sum(0) / part.sum(0) for part in (inside, ~inside)]
    spreads = [
        np.sqrt(((shadows - mean)[part] ** 2).mean()) for mean, part in zip(means, (inside, ~inside), strict=True)
    ]
    logs = [
        -((observed - mean) ** 2) / (2 * spread**2) - np.log(spread)
        for mean, spread in zip(means, np.maximum(spreads, SMALLEST), strict=True)
    ]
    ratio: Values = logs[0] - logs[1]
    return ratio
