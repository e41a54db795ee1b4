"""Adam, by PyTorch's fused kernel without the optimiser class around it.

``torch.optim.AdamW`` (``Adam``, where no weight decays) computes the same bits with the same kernel, but its first use
imports PyTorch's compiler, which takes seconds, and for a small model its bookkeeping takes longer than the update.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedol.training.optimiser import Optimiser


class Adam(Optimiser):
    """Adam over some parameters; AdamW, where weights decay.

    ``piece``: the kernel gives 65,536 elements to one multiprocessor, so that a small model in one long tensor would
    keep few of them busy; it is told of a tensor every so many elements instead.
    """

    def __init__(
        self, parameters: Sequence[Tensor], lr: float | Tensor, weight_decay: float = 0.0, piece: int | None = None
    ) -> None:
        super().__init__(parameters, lr, weight_decay)
        self._piece = piece

    def _begin(self, parameter: Tensor) -> dict[str, Tensor]:
        # The moments lie in memory as the parameter does: the kernel goes through both as they are.
        moments = {part: torch.zeros_like(parameter) for part in ("exp_avg", "exp_avg_sq")}
        return {"step": torch.zeros((), device=parameter.device), **moments}

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        live = [(p, p.grad, *moments.values()) for p, moments in self.state if p.grad is not None]
        torch._foreach_add_([step for _, _, step, _, _ in live], 1)
        if self._piece is not None:
            live = [piece for tensors in live for piece in _cut(self._piece, *tensors)]
        values, gradients, steps, first, second = (list(column) for column in zip(*live, strict=True))
        torch._fused_adamw_(
            values, gradients, first, second, [], steps,
            lr=self.lr, beta1=0.9, beta2=0.999, weight_decay=self._decay, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip


def _cut(size: int, value: Tensor, gradient: Tensor, step: Tensor, *moments: Tensor) -> list[tuple[Tensor, ...]]:
    """A parameter, its gradient and state as many; they share the count of steps."""
    pieces = zip(*(torch.split(tensor, size) for tensor in (value, gradient, *moments)), strict=True)
    return [(v, g, step, first, second) for v, g, first, second in pieces]
