"""Stochastic gradient descent with momentum, as ``torch.optim.SGD`` has it where no weight decays."""

from __future__ import annotations

import torch
from torch import Tensor

from fedol.training.optimiser import Optimiser

MOMENTUM = 0.9


class Sgd(Optimiser):
    """v ← 0.9 v + gradient, w ← w − lr · v."""

    def _begin(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(parameter)}

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        live = [(p, p.grad, moments["momentum"]) for p, moments in self.state if p.grad is not None]
        values, gradients, momenta = (list(column) for column in zip(*live, strict=True))
        if self._decay:
            torch._foreach_mul_(values, 1 - self.lr * self._decay)
        torch._foreach_mul_(momenta, MOMENTUM)
        torch._foreach_add_(momenta, gradients)
        torch._foreach_sub_(values, torch._foreach_mul(momenta, self.lr))
