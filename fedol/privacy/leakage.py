"""How well an attack tells members from others, and how two class mixes differ: what every audit measures with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fedol.seeding import numpy_generator

Values = npt.NDArray[np.float64]
SMALLEST = 1e-6  # probabilities nearer to 0 or 1 than this say no more
FEWEST = 10  # members, and others, of whom an attack says anything


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


def matched(
    members: npt.NDArray[np.int64], others: npt.NDArray[np.int64], seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Positions of as many members as others of each class, by their labels."""
    rng = numpy_generator(seed, "audit")
    chosen: list[list[int]] = [[], []]
    for c in np.unique(members):
        places = [rng.permutation(np.flatnonzero(part == c)) for part in (members, others)]
        count = min(map(len, places))
        for mine, place in zip(chosen, places, strict=True):
            mine += place[:count].tolist()
    return np.array(chosen[0], dtype=np.int64), np.array(chosen[1], dtype=np.int64)


def variation(p: Values, q: Values) -> float:
    """Total variation: 0 where two class mixes are the same, 1 where they have no class in common."""
    return float(np.abs(p - q).sum() / 2)
