"""A server's answers fitted to one site: its class prior, a temperature, and the site's own model.

A posterior t_c(x) holds for the classes' shares π(c) among what taught it. Where a site differs in these alone, its
posterior is t_c(x) · π_site(c) / π(c), normalised (Saerens et al., 2002): exactly so for the union, whose targets are
a posterior (``fedol.core.union``). A server is only nearly one, and sites differ in more, so every factor has an
exponent of its own:

    log q(c|x) = a log s(c|x) + b log(π_site(c) / π(c)) + d log o(c|x) − log Z(x)

with s the server and o the site's own model: a logarithmic opinion pool, of which a + d is an inverse temperature. The
likelihood of held-out labels is concave in (a, b, d), so there is one best choice. It is shrunk towards what the site
has without the server, its own model alone: a handful of rows moves it little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.errors import InputError
from fedol.seeding import numpy_generator

Labels = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
LEAST = 1e-3  # no answer rules a class out further: a forest says zero where it has merely seen nothing
SHRINK = 3.0  # held-out rows that the starting point counts for, roughly; of 3 and 10 the better (docs/results/gain.md)
FOLDS = 5
RARE = 1e-4  # the least share of a class in a prior: what taught a server may lack one


@dataclass(frozen=True)
class Adaptation:
    """The exponents, and the shift of the prior that b multiplies."""

    shift: tuple[float, ...]  # log π_site(c) / π(c)
    server: float = 1.0
    prior: float = 1.0
    own: float = 0.0

    def log_proba(self, server: Tensor, own: Tensor | None = None) -> Tensor:
        """log q [N, C], from log-probabilities of both."""
        total = self.server * floored(server) + self.prior * torch.tensor(self.shift, dtype=server.dtype)
        if own is not None:
            total = total + self.own * floored(own)
        return torch.log_softmax(total, 1)

    @property
    def alone(self) -> bool:
        """Whether it is the site's own model and nothing else."""
        return self.server == 0 and self.prior == 0

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"shift": list(self.shift)}

    @classmethod
    def from_json(cls, values: dict[str, Any], classes: int) -> Self:
        """What ``as_json`` gave, or an ``InputError``: it may be a stranger's."""
        shift, weights = values["shift"], [values[name] for name in ("server", "prior", "own")]
        if len(shift) != classes or not np.isfinite([*shift, *weights]).all():
            raise InputError("its adaptation makes no sense")
        return cls(tuple(map(float, shift)), *map(float, weights))


@dataclass(frozen=True, eq=False)
class Chosen:
    """An adaptation, and what it says of every held-out row where that row had no part in choosing it."""

    adaptation: Adaptation
    crossed: Tensor  # log-probabilities [N, C]


def floored(log_probs: Tensor) -> Tensor:
    """Log-probabilities that rule nothing out."""
    return log_probs.clamp_min(float(np.log(LEAST)))


def site_prior(counts: npt.ArrayLike, prior: npt.ArrayLike) -> Floats:
    """A site's class shares [C], from its class counts and one sample's worth of the federation's prior."""
    usual = np.maximum(np.asarray(prior, dtype=np.float64), RARE)
    held = np.asarray(counts, dtype=np.float64)
    found: Floats = (held + usual / usual.sum()) / (held.sum() + 1)
    return found


def shift(counts: npt.ArrayLike, prior: npt.ArrayLike) -> Floats:
    """log π_site(c) / π(c) [C]."""
    usual = np.maximum(np.asarray(prior, dtype=np.float64), RARE)
    found: Floats = np.log(site_prior(counts, prior) / (usual / usual.sum()))
    return found


def fitted(server: Tensor, labels: Labels, shifted: Floats, own: Tensor | None = None) -> Adaptation:
    """The exponents of the greatest penalised likelihood of held-out labels."""
    from scipy.optimize import minimize

    parts = [floored(server), torch.from_numpy(shifted).expand(len(server), -1)]
    parts += [] if own is None else [floored(own)]
    factors, rows = torch.stack(parts, -1).double().numpy(), np.arange(len(labels))
    start = np.array([1.0, 1.0] if own is None else [0.0, 0.0, 1.0])

    def loss(weights: Floats) -> tuple[float, Floats]:
        scores = factors @ weights
        scores -= scores.max(1, keepdims=True)
        probs = np.exp(scores)
        total = probs.sum(1)
        slope = ((probs / total[:, None])[:, :, None] * factors).sum(1) - factors[rows, labels]
        away = weights - start
        value = (np.log(total) - scores[rows, labels]).sum() + SHRINK / 2 * away @ away
        return float(value), slope.sum(0) + SHRINK * away

    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start)).x
    return Adaptation(tuple(shifted.tolist()), *found.tolist())


def chosen(server: Tensor, labels: Labels, shifted: Floats, own: Tensor | None = None, seed: int = 0) -> Chosen:
    """The adaptation that is fitted, unless cross-validated it is not better than what the site has without it.

    That is its own model, or the server as it came.
    """
    whole = fitted(server, labels, shifted, own)
    crossed = torch.empty(server.shape, dtype=torch.float64)
    for rows in folds(len(labels), seed):
        others = np.setdiff1d(np.arange(len(labels)), rows)
        kept = None if own is None else own[others]
        part = fitted(server[others], labels[others], shifted, kept) if len(others) else without(shifted, own)
        crossed[rows] = part.log_proba(server[rows].double(), None if own is None else own[rows].double())
    alone = without(shifted, own)
    before = alone.log_proba(server.double(), None if own is None else own.double())
    return Chosen(whole, crossed) if better(crossed, before, labels) else Chosen(alone, before)


def without(shifted: Floats, own: Tensor | None) -> Adaptation:
    """What a site has that adapts nothing."""
    return Adaptation(tuple(shifted.tolist()), *((1.0, 0.0, 0.0) if own is None else (0.0, 0.0, 1.0)))


def better(first: Tensor, second: Tensor, labels: Labels) -> bool:
    """Whether more rows are right by the first; of equally many, whether their labels are likelier.

    The likelihood alone takes what is better calibrated for what is better: a forest is right, and unsure.
    """
    truth = torch.from_numpy(labels)
    right = [int((found.argmax(1) == truth).sum()) for found in (first, second)]
    likely = [float(found.gather(1, truth[:, None]).sum()) for found in (first, second)]
    return (right[0], likely[0]) > (right[1], likely[1])


def folds(samples: int, seed: int) -> Sequence[npt.NDArray[np.int64]]:
    """The rows of each part of a cross-validation, drawn by the seed."""
    order = numpy_generator(seed, "folds").permutation(samples)
    return np.array_split(order, max(1, min(FOLDS, samples)))
