"""A running average of the weights, which is what a training with ``Recipe.average`` ends with."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Average:
    """a ← a + α_t (w − a) after every step, over all floating-point state: weights and the norms' statistics alike.

    With α_t = max(1 − decay, 10/(9 + t)) it reaches back a tenth of the way at first, so that a short training forgets
    where it started too: the plain mean, 1/t, would keep all of it as long as t < 1/(1 − decay). α_t comes as a
    tensor: a captured step then reads it from a table, like everything else that changes.
    """

    def __init__(self, model: nn.Module) -> None:
        self._live = {name: tensor for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
        self.named: Mapping[str, Tensor] = {name: tensor.clone() for name, tensor in self._live.items()}

    @torch.no_grad()
    def update(self, weight: Tensor) -> None:
        """Take in the weights after a step; ``weight`` is α_t, without dimensions."""
        averages = list(self.named.values())
        ways = torch._foreach_sub(list(self._live.values()), averages)
        torch._foreach_mul_(ways, weight)
        torch._foreach_add_(averages, ways)

    @torch.no_grad()
    def apply(self) -> None:
        """Give the model the averaged weights."""
        for name, tensor in self._live.items():
            tensor.copy_(self.named[name])
