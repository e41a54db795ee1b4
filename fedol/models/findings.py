"""A net with a number for each finding, as a model that answers every one with no or yes."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Findings(nn.Module):
    """Its logits [B, findings, 2] are (0, z): their softmax is the sigmoid of z, cross-entropy on them is binary."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of no and yes."""
        z = self.net(inputs)
        return torch.stack([torch.zeros_like(z), z], -1)
