"""A training between two epochs, as plain tensors: what a killed process needs to go on as if nothing had happened.

That is little: the model, Adam's two moments and step count per parameter, and the losses so far. The order of the
samples and every other draw come from (job, epoch) alone, so no generator has a state to keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

ADAM = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state after ``len(losses)`` epochs. Tensors are named ``model/NAME``, ``exp_avg/NAME`` and so on."""

    tensors: dict[str, Tensor]
    losses: tuple[float, ...]

    @classmethod
    def take(cls, model: nn.Module, optimiser: torch.optim.Optimizer, losses: list[float]) -> Snapshot:
        """Copy the present state to the CPU."""
        tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
        for name, parameter in _trained(model):
            tensors |= {f"{part}/{name}": optimiser.state[parameter][part] for part in ADAM}
        return cls({name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}, tuple(losses))

    def restore(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Put model and optimiser back into this state, in place."""
        model.load_state_dict({name[6:]: value for name, value in self.tensors.items() if name.startswith("model/")})
        for name, parameter in _trained(model):
            step, first, second = (self.tensors[f"{part}/{name}"] for part in ADAM)
            optimiser.state[parameter] = {
                "step": step.to(parameter.device),
                # In the memory layout of the parameter: the fused kernels go through both as they lie there.
                "exp_avg": torch.empty_like(parameter).copy_(first),
                "exp_avg_sq": torch.empty_like(parameter).copy_(second),
            }


def _trained(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)
