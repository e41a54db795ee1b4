"""A training between two epochs, as plain tensors: what a killed process needs to go on as if nothing had happened.

That is little: the model, Adam's two moments and step count per parameter, the averaged weights where there are some,
and the losses so far. The order of the samples and every other draw come from (job, epoch) alone, so no generator has a
state to keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedol.training.average import Average

ADAM = ("step", "exp_avg", "exp_avg_sq")
Moments = Mapping[str, Mapping[str, Tensor]]
"""Adam's state: parameter name -> part -> tensor."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state after ``len(losses)`` epochs. Tensors are named ``model/NAME``, ``exp_avg/NAME`` and so on."""

    tensors: dict[str, Tensor]
    losses: tuple[float, ...]

    @classmethod
    def take(
        cls, model: nn.Module, moments: Moments, losses: Sequence[float], average: Average | None = None
    ) -> Snapshot:
        """Copy the present state to the CPU; ``moments`` are Adam's, per parameter and part."""
        tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
        for name, parts in moments.items():
            tensors |= {f"{part}/{name}": parts[part] for part in ADAM}
        if average:
            tensors |= {f"average/{name}": tensor for name, tensor in average.named.items()}
        return cls({name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}, tuple(losses))

    def restore(self, model: nn.Module, moments: Moments, average: Average | None = None) -> None:
        """Put the model, Adam's moments and the average back into this state, in place."""
        model.load_state_dict({name[6:]: value for name, value in self.tensors.items() if name.startswith("model/")})
        for name, parts in moments.items():
            for part in ADAM:
                parts[part].copy_(self.tensors[f"{part}/{name}"])
        if average:
            for name, tensor in average.named.items():
                tensor.copy_(self.tensors[f"average/{name}"])


def adam_moments(model: nn.Module, optimiser: torch.optim.Adam) -> Moments:
    """Adam's moments by the parameters' names; zero, as on the first day, where it has not stepped yet."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for p in named.values():
        if not optimiser.state[p]:
            # In the memory layout of the parameter: the fused kernels go through both as they lie there.
            zeros = {part: torch.zeros_like(p) for part in ADAM[1:]}
            optimiser.state[p] = {"step": torch.zeros((), device=p.device), **zeros}
    return {name: optimiser.state[p] for name, p in named.items()}
