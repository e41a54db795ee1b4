"""A training between two epochs, as plain tensors: what a killed process needs to go on as if nothing had happened.

That is little: the model, the optimiser's state per parameter (Adam's two moments and step count), the averaged weights
where there are some, and the losses so far. The order of the samples and every other draw come from (job, epoch) alone,
so no generator has a state to keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from fedol.training.average import Average
from fedol.training.optimisers import Moments


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state after ``len(losses)`` epochs. Tensors are named ``model/NAME``, ``exp_avg/NAME`` and so on."""

    tensors: dict[str, Tensor]
    losses: tuple[float, ...]

    @classmethod
    def take(
        cls, model: nn.Module, moments: Moments, losses: Sequence[float], average: Average | None = None
    ) -> Snapshot:
        """Copy the present state to the CPU; ``moments`` are the optimiser's, per parameter and part."""
        tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
        for name, parts in moments.items():
            tensors |= {f"{part}/{name}": tensor for part, tensor in parts.items()}
        if average:
            tensors |= {f"average/{name}": tensor for name, tensor in average.named.items()}
        return cls({name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}, tuple(losses))

    def restore(self, model: nn.Module, moments: Moments, average: Average | None = None) -> None:
        """Put the model, the optimiser's moments and the average back into this state, in place."""
        model.load_state_dict({name[6:]: value for name, value in self.tensors.items() if name.startswith("model/")})
        for name, parts in moments.items():
            for part, tensor in parts.items():
                tensor.copy_(self.tensors[f"{part}/{name}"])
        if average:
            for name, tensor in average.named.items():
                tensor.copy_(self.tensors[f"average/{name}"])
