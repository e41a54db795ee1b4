"""What a model trained on everybody's data would say: the sum of the clients' joint density ratios.

A client k that learns one more class, "public", from the public samples knows at the optimum of cross-entropy

    r_kc(x) = p_k(c|x) / p_k(public|x) = (n_k / n_u) · f_k(x, c) / f_u(x)

with f_k the density of its n_k private samples and f_u that of the n_u public ones. Ratios of densities over one
denominator add up, so the posterior of the union of all private data is their normalised sum:

    Σ_k r_kc(x) = (n / n_u) · f(x, c) / f_u(x),      t_c(x) = Σ_k r_kc(x) / Σ_c' Σ_k r_kc'(x)

That is Eq. 7's mixture Σ_k λ_k p_k with the λ_k that Eq. 6 asks for, how far x looks like client k's data: with the
mass m_k(x) = Σ_c r_kc(x), r_kc = m_k p_k(c|x) and λ_k = m_k / Σ_j m_j. It assumes no prior, and a class that a client
does not know has the ratio zero. ``docs/union.md`` derives it and says when it fails.

Everything is computed in logarithms: a ratio may exceed what a float holds, a sum of logarithms does not.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedol.core.arrays import Array, check_values, exact, returned, to_tensor
from fedol.core.voting import shannon
from fedol.errors import InputError

# Measured on honest clients: these touch hardly any, also where classes of the public set are rare.
CREDIT, TAIL = 1.25, 10.0
LEAST_POWER = 0.5  # that tames masses
HALVINGS = 40  # of an interval of nats: it is then below 1e-9
MOST = 60.0  # nats that one client's mass may lie above or below what is usual: e^60 outweighs any federation


def union(ratios: Array) -> Array:
    """The posterior of the union of all private data, from ratios of at least 0: [K, N, C] -> [N, C].

    A sample of which every ratio is zero is one that nobody knows: all classes are equally likely.
    """
    tensor = to_tensor(ratios, "ratios")
    if tensor.dim() != 3 or not tensor.numel():
        raise InputError(f"ratios must have the shape [clients, samples, classes], but have {list(tensor.shape)}.")
    if not tensor.is_floating_point():
        raise InputError(f"ratios must be floating-point numbers, but are {tensor.dtype}.")
    check_values(tensor, torch.isfinite(tensor) & (tensor >= 0), "ratios", "finite and at least 0")
    total = Union()
    for client in tensor:
        total.add(exact(client).log())
    return returned(total.posterior(), ratios)


class Union:
    """Σ_k r_k client by client: one running logarithm of a sum, so memory does not grow with their number."""

    def __init__(self) -> None:
        self._total: Tensor | None = None  # log Σ_k r_kc, float64 [N, C]

    def add(self, log_ratios: Tensor) -> None:
        """Take in one client's log r_kc [N, C]; minus infinity where it does not know the class."""
        logs = exact(log_ratios)
        if torch.isnan(logs).any() or (logs == torch.inf).any():
            raise InputError("A client's log-ratios hold NaN or infinity; only minus infinity has a meaning.")
        if self._total is None:
            self._total = logs
        elif self._total.shape != logs.shape:
            raise InputError(f"A client answers {list(logs.shape)}, the others {list(self._total.shape)}.")
        else:
            self._total = torch.logaddexp(self._total, logs)

    def including(self, log_ratios: Tensor) -> Union:
        """This sum and one more."""
        more = copy.copy(self)
        more.add(log_ratios)
        return more

    def posterior(self) -> Tensor:
        """t [N, C]; uniform where nobody knows a sample."""
        total = self.log_ratios()
        known = torch.isfinite(total).any(1, keepdim=True)
        return torch.softmax(torch.where(known, total, 0.0), 1)

    def log_mass(self) -> Tensor:
        """log Σ_c Σ_k r_kc [N]: how much more often the union has such a sample than the public set."""
        return torch.logsumexp(self.log_ratios(), 1)

    def log_ratios(self) -> Tensor:
        """log Σ_k r_kc [N, C]."""
        if self._total is None:
            raise InputError("There is nothing to add up; at least one client's ratios are needed.")
        return self._total


@dataclass(frozen=True, eq=False)
class Sums:
    """What is known of clients that were summed before anybody looked (``fedol.secret``)."""

    ratios: Tensor  # Σ_k r_kc, float64 [N, C]
    mixture: Tensor  # Σ_k e^(−H_k) p_k, the λ mixture's sum, [M, C] at some of the samples; none: [0, C]
    share: float  # n / n_u; 0 where it is not said
    step: float = 0.0  # what the ratios were rounded to


def bounded(log_mass: Tensor) -> Tensor:
    """A client's log m_k [N], no more than ``MOST`` nats away from its median; finite, whatever a model says."""
    mass = exact(log_mass)
    middle = mass[torch.isfinite(mass)].median() if torch.isfinite(mass).any() else torch.zeros((), dtype=mass.dtype)
    return mass.nan_to_num(nan=float(middle)).clamp(float(middle) - MOST, float(middle) + MOST)


def guessed_mass(probs: Tensor, share: float) -> Tensor:
    """log m_k [N] of a client that sends predictions alone: Eq. 12's e^(−H), at the mean that densities have.

    The mean over the public set of m_k is n_k / n_u (``share``), because a density integrates to one.
    """
    weight = torch.exp(-shannon(exact(probs)))
    return (weight / weight.mean() * share).log()


def excess(log_mass: Tensor, share: float) -> float:
    """Nats by which a client's masses [N] are too large for its samples; ``share`` is n_k / n_u.

    A density integrates to one, so their mean is to be n_k / n_u. ``CREDIT`` times that passes, where a mass counts for
    ``TAIL`` times n_k / n_u at most: honest nets are far too sure of a few samples, and lose nothing by it.
    """
    relative = exact(log_mass) - math.log(share)
    low, high = 0.0, max(0.0, (torch.logsumexp(relative, 0) - math.log(len(relative) * CREDIT)).item())
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        heavy = (relative - middle).exp().clamp(max=TAIL).mean() > CREDIT
        low, high = (middle, high) if heavy else (low, middle)
    return high if low else 0.0


def tamed(log_mass: Tensor, share: float) -> Tensor:
    """A client's log m_k [N] with a mean of n_k / n_u (``share``) at most, as a density has: by a power a <= 1.

    log of (n_k / n_u) · (m_k / (n_k / n_u))^a. Boosted trees, and linear models of many columns, are too sure of what
    they were not shown: their masses have a mean of several times n_k / n_u. One power undoes it: it keeps the order,
    and where a client looks average. It is ``LEAST_POWER`` at least, and a factor undoes the rest: to a client of one
    common class most public samples look more than average, and then no power does it but nearly zero, which would
    leave nothing of what the client knows.
    """
    relative = exact(log_mass) - math.log(share)
    low, high = LEAST_POWER, 1.0
    if relative.exp().mean() <= 1:
        return exact(log_mass)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if (middle * relative).exp().mean() <= 1 else (low, middle)
    factor = torch.logsumexp(low * relative, 0) - math.log(len(relative))
    return low * relative - factor.clamp_min(0) + math.log(share)


def doubted(log_mass: Tensor, share: float) -> Tensor:
    """log of (n_k / n_u) · √(m_k / mean m_k) [N]: a client's mass where the public set is of another domain.

    There densities are extrapolated, and off by factors. A client's own factor goes with the mean that a density has
    (``share`` is n_k / n_u); what is left counts half. Measured, powers of 1/4 to 1 are alike (docs/union.md).
    """
    mass = exact(log_mass)
    return (mass - torch.logsumexp(mass, 0) + math.log(len(mass))) / 2 + math.log(share)


def familiarity(log_mass: Tensor, share: float) -> Tensor:
    """f(x) / f_u(x) [N]: how much more often x occurs in the union than in the public set; ``share`` is n / n_u.

    Its mean over the public set is one where the two are of one domain.
    """
    return (exact(log_mass) - torch.tensor(share, dtype=torch.float64).log()).exp()


def unsure_above(probs: Tensor, strange: int) -> float:
    """The entropy above which a model has ``strange`` of its predictions [N, C], fewer than N: how it says "nobody".

    The server cannot compute the mass of a new sample, but it learnt the public ones of small mass from answers that
    say nothing, so it is unsure there. As many as the clients' masses call strange are to lie above (docs/union.md).
    """
    return shannon(exact(probs)).sort(descending=True).values[strange].item()
