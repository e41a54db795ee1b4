"""A model that also knows what is public: a net per fold of the public set, each with one more class."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

MOST_FOLDS = 64


class OpenSet(nn.Module):
    """Nets whose last class is "public"; as a model of the other classes, the mean of what they predict among them."""

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nets)

    def forward(self, inputs: Tensor) -> Tensor:
        """Log-probabilities [B, classes]; of findings, the last of which is "public", [B, findings, 2]."""
        answers = [torch.log_softmax(net(inputs)[:, :-1], -1) for net in self.nets]
        return torch.logsumexp(torch.stack(answers), 0) - math.log(len(answers))


def sensible(folds: int) -> bool:
    """Whether a public set can be cut into so many parts: of one, no net would have seen any public sample."""
    return 2 <= folds <= MOST_FOLDS


def fold_of(samples: int, folds: int) -> Tensor:
    """The fold of each public sample [N], dealt in turn: no net answers on what it was shown as public."""
    return torch.arange(samples) % folds
