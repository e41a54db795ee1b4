"""A model of the classes that its client holds, as one of all classes of the task: it gives the others no chance."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

ABSENT = -1e4  # the logit of a class that the client does not hold: e to this is zero, and float16 still has it


class Held(nn.Module):
    """A net with an output for each of the classes ``held``, in their order."""

    def __init__(self, net: nn.Module, held: Sequence[int], classes: int) -> None:
        super().__init__()
        self.net = net
        output = {place: number for number, place in enumerate(held)}
        self.classes, self.places = classes, list(held)
        self._outputs = [output.get(place) for place in range(classes)]  # of each class; None where it has none

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [B, classes]."""
        columns = self.net(inputs).unbind(1)
        absent = torch.full_like(columns[0], ABSENT)
        return torch.stack([absent if output is None else columns[output] for output in self._outputs], 1)

    def own(self, targets: Tensor) -> Tensor:
        """Targets, classes [N] or soft ones [N, classes], in terms of the net's own outputs."""
        if targets.dim() > 1:
            return targets[:, self.places]
        return torch.tensor([-1 if output is None else output for output in self._outputs])[targets]


def sound(held: Sequence[object], classes: int) -> bool:
    """Whether a client of a task of so many classes can say that it holds these alone: sorted, distinct, not all."""
    if not 0 < len(held) < classes or any(type(place) is not int for place in held):
        return False
    return all(low < high for low, high in zip((-1, *held), (*held, classes), strict=True))  # type: ignore[operator]
