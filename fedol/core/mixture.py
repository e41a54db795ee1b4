"""The server's objective (Eq. 7) as one soft cross-entropy.

With weights λ_k(x) that sum to one, Σ_k λ_k KL(p_k ‖ s) = −Σ_c m_c log s_c + const with m = Σ_k λ_k p_k, and the
pseudo-label term adds τ·ŷ to the target. So Eq. 7 has the gradient of a cross-entropy against ``m + τ·ŷ``, a target
that is computed once: training costs the same for ten clients as for a thousand.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedol.core.arrays import Array, blocks, exact, probabilities, returned, to_tensor
from fedol.core.voting import shannon
from fedol.errors import InputError


def client_weights(probs: Array) -> Array:
    """λ_k(x) = softmax over clients of −H(p_k(x)), [K, N, C] -> [K, N] (Eq. 12)."""
    tensor = probabilities(probs, 3)
    return returned(torch.softmax(torch.stack([-shannon(exact(client)) for client in tensor]), 0), probs)


def soft_targets(probs: Array, labels: Array | None = None, tau: float = 0.0) -> Array:
    """The target of Eq. 7, [N, C]: the clients' mixture plus ``tau`` on the pseudo-label (nothing where it is -1)."""
    mixture = Mixture()
    for client in probabilities(probs, 3):
        mixture.add(client)
    return returned(with_labels(mixture.mean(), labels, tau), probs)


class Mixture:
    """m(x) = Σ_k λ_k(x) p_k(x) client by client: two running sums, because λ_k is exp(−H_k) over its sum.

    ``floor`` is a defence: an entropy below so many nats earns no more weight (see ``fedol.robust``).
    """

    def __init__(self, floor: float = 0.0) -> None:
        self._floor = floor
        self._sum: Tensor | None = None  # Σ exp(−H_k) p_k
        self._weight: Tensor | None = None  # Σ exp(−H_k); every term lies in [1/C, 1]

    def add(self, probs: Tensor, nats: Tensor | None = None) -> None:
        """Take in one client's predictions [N, C]; ``nats`` are their entropies, where already known."""
        p = exact(probs)
        weight = torch.exp(-(shannon(p) if nats is None else nats).clamp_min(self._floor))[:, None]
        if self._sum is None or self._weight is None:
            self._sum, self._weight = torch.zeros_like(p), torch.zeros_like(weight)
        elif self._sum.shape != p.shape:
            raise InputError(f"A client predicts {list(p.shape)}, the others {list(self._sum.shape)}.")
        self._weight += weight
        for rows in blocks(*p.shape):
            self._sum[rows] += weight[rows] * p[rows]

    def mean(self) -> Tensor:
        """The mixture so far, float64 [N, C]."""
        if self._sum is None or self._weight is None:
            raise InputError("There is nothing to mix; at least one client's predictions are needed.")
        return self._sum / self._weight


def with_labels(mixture: Tensor, labels: Array | None, tau: float) -> Tensor:
    """``mixture + tau · onehot(labels)``; a sample with the label -1 keeps the mixture alone."""
    if not (math.isfinite(tau) and tau >= 0):
        raise InputError(f"tau must be a finite number of at least 0, but is {tau}.")
    if labels is None:
        return mixture
    index = to_tensor(labels, "labels").to(mixture.device)
    if index.is_floating_point() or index.shape != mixture.shape[:1]:
        raise InputError(f"labels must be {len(mixture)} integers, but are {index.dtype} {list(index.shape)}.")
    index = index.long()
    if index.min() < -1 or index.max() >= mixture.shape[1]:
        raise InputError(f"labels must lie in -1..{mixture.shape[1] - 1}, but reach {index.min()}..{index.max()}.")
    labelled = (index >= 0).to(mixture.dtype) * tau
    return mixture.scatter_add(1, index.clamp_min(0)[:, None], labelled[:, None])
