"""What a hostile client of the union can claim: masses, to go with the predictions of ``fedol.robust.attacks``.

Of each client the attacker controls, it knows the honest masses and n_k / n_u; of the others everything. Masses whose
mean is n_k / n_u look as they should; ``samples`` also says that there are a hundred times as many.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from fedol.errors import unknown
from fedol.knowledge import Knowledge

FEW = 10  # of so many images one is claimed, so many times as much
MANY = 100  # times as many samples as there are

Claim = Callable[[Tensor, float, Tensor, np.random.Generator], Tensor]


def honest(mass: Tensor, share: float, others: Tensor, rng: np.random.Generator) -> Tensor:
    """Its own: the lie is in the predictions alone."""
    return mass


def tenfold(mass: Tensor, share: float, others: Tensor, rng: np.random.Generator) -> Tensor:
    """Its own, ten times as large."""
    return mass + math.log(10)


def thousandfold(mass: Tensor, share: float, others: Tensor, rng: np.random.Generator) -> Tensor:
    """Its own, a thousand times as large."""
    return mass + math.log(1000)


def flat(mass: Tensor, share: float, others: Tensor, rng: np.random.Generator) -> Tensor:
    """The mean on every image: it claims to know them all."""
    return torch.full_like(mass, math.log(share))


def few(mass: Tensor, share: float, others: Tensor, rng: np.random.Generator) -> Tensor:
    """All of it on a tenth of the images; the mean is kept."""
    chosen = torch.from_numpy(rng.permutation(len(mass))[: max(1, len(mass) // FEW)])
    return torch.full_like(mass, math.log(share) - 20).index_fill(0, chosen, math.log(share * FEW))


def crowd(mass: Tensor, share: float, others: Tensor, rng: np.random.Generator) -> Tensor:
    """In proportion to that of all others together; the mean is kept."""
    return others - torch.logsumexp(others, 0) + math.log(len(others) * share)


def samples(mass: Tensor, share: float, others: Tensor, rng: np.random.Generator) -> Tensor:
    """The mean of a hundred times as many samples, on every image."""
    return torch.full_like(mass, math.log(MANY * share))


CLAIMS: dict[str, Claim] = {
    claim.__name__: claim for claim in (honest, tenfold, thousandfold, flat, few, crowd, samples)
}


def claimed(name: str, own: Knowledge, others: list[Tensor], rng: np.random.Generator) -> Knowledge:
    """A client's knowledge with these masses in place of its own; ``others`` are those of the honest clients."""
    if name not in CLAIMS:
        raise unknown("claim", name, CLAIMS)
    if own.log_mass is None or own.ratios is None or own.share is None or name == honest.__name__:
        return own
    known = torch.logsumexp(torch.stack(others), 0) if others else own.log_mass
    mass = CLAIMS[name](own.log_mass, own.share, known, rng)
    private = own.ratios.private * (MANY if name == samples.__name__ else 1)
    return own.with_mass(mass, private, own.ratios.folds)
