"""Attackers who claim to know a few classes, are right on these, and put every other image into one of them, too.

They agree with everyone wherever two clients could agree, and so it takes what they claim beyond that to find them.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedol.robust.adaptive import most_lies
from fedol.robust.agreement import Opinions
from fedol.robust.trust import judge

DOUBT = 0.01  # at most, of a client's mass: the least where it is likeliest right
STEPS = 100  # from no certainty to all of it


def specialist3(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """Right on three classes, the same for all, and nearly certain that every other image is one of these, too."""
    return _specialists(own, others, rng, 3)


def specialist10(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """The same with ten classes, or half of them where that is less."""
    return _specialists(own, others, rng, 10)


def modest(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """The same, as sure as the screening lets pass; nearly certain where it lets none pass."""
    certain = _specialists(own, others, rng, 10)

    def sent(step: int) -> list[Tensor]:
        return [torch.lerp(torch.full_like(p, 1 / p.shape[1]), p, step / STEPS) for p in certain]

    def passes(lies: list[Tensor]) -> bool:
        return all(k >= len(own) for k in judge(Opinions.of([*lies, *others])).excluded)

    return sent(most_lies(sent, passes, STEPS) or STEPS)


def _specialists(own: list[Tensor], others: list[Tensor], rng: np.random.Generator, claimed: int) -> list[Tensor]:
    """Of so many classes, at most half, the one that a client and the crowd hold likeliest."""
    crowd = torch.stack([*own, *others]).mean(0)
    classes = crowd.shape[1]
    known = torch.from_numpy(rng.permutation(classes)[: min(claimed, max(1, classes // 2))])
    sent = []
    for p in own:
        chance, best = ((p + crowd) / 2)[:, known].max(1)
        doubt = (DOUBT * (1 - chance))[:, None]
        sent.append((1 - doubt) * F.one_hot(known[best], classes).float() + doubt / classes)
    return sent
