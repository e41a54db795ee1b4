"""How far clients name the same classes, beyond chance: Fleiss' κ over all pairs, client by client."""

from __future__ import annotations

import torch
from torch import Tensor

from fedol.core.arrays import exact
from fedol.core.voting import shannon


class Accord:
    """Two running sums instead of K² pairs. A client counts on a sample as in the λ mixture, by w_k = exp(−H_k).

    With v_kc = 1 on the class that client k names, two different clients, drawn by their weights, name the same with

        same(x) = (Σ_c (Σ_k w_k v_kc)² − Σ_k w_k²) / ((Σ_k w_k)² − Σ_k w_k²)

    because Σ_c v_kc² = 1. By chance, they would with Σ_c q_c², q being how often each class is named over all samples.
    """

    def __init__(self) -> None:
        self._clients = 0
        self._votes: Tensor | None = None  # Σ_k w_k v_k, [N, C]
        self._squares: Tensor | None = None  # Σ_k w_k², [N]

    def add(self, probs: Tensor, nats: Tensor | None = None) -> None:
        """Take in one client's predictions [N, C]; ``nats`` are their entropies, where already known."""
        p = exact(probs)
        weight = torch.exp(-(shannon(p) if nats is None else nats))
        self._clients += 1
        if self._votes is None or self._squares is None:
            self._votes, self._squares = torch.zeros_like(p), torch.zeros_like(weight)
        self._votes.scatter_add_(1, p.argmax(1, keepdim=True), weight[:, None])
        self._squares += weight.square()

    def reliability(self) -> float:
        """√κ, 0 to 1: if clients err independently, two agree as the square of how far one agrees with the truth."""
        if self._votes is None or self._squares is None or self._clients < 2:
            return 0.0
        total = self._votes.sum(1)
        same = ((self._votes.square().sum(1) - self._squares) / (total.square() - self._squares)).mean().item()
        chance = (self._votes / total[:, None]).mean(0).square().sum().item()
        return max(0.0, (same - chance) / (1 - chance)) ** 0.5 if chance < 1 else 0.0
