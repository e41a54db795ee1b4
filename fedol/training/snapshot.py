"""A training between two epochs, as plain tensors and as a file: what a killed process goes on from.

That is little: the model, the optimiser's state per parameter (Adam's two moments and step count), the averaged weights
where there are some, and the losses so far. The order of the samples and every other draw come from (job, epoch) alone,
so no generator has a state to keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedol.files import intact, read_tensors, write_tensors
from fedol.training.optimisers import Moments


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


@dataclass(frozen=True)
class EpochFile:
    """Holds one epoch, the newest in place of the one before; ``identity`` says of which training (plain values)."""

    path: Path
    identity: Mapping[str, Any]

    def keep(self, snapshot: Snapshot) -> None:
        """Write an epoch that has just finished."""
        write_tensors(self.path, snapshot.tensors, {**self.identity, "losses": list(snapshot.losses)})

    def read(self) -> Snapshot | None:
        """The epoch that was kept, if it belongs to this training."""
        if not self.path.exists():
            return None
        with intact(self.path, "remove it and start again"):
            tensors, header = read_tensors(self.path)
            losses = tuple(header.pop("losses"))
        return Snapshot(tensors, losses) if header == dict(self.identity) else None

    def forget(self) -> None:
        """The training is finished."""
        self.path.unlink(missing_ok=True)
