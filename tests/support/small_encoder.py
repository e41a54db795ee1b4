"""A pretrained network that takes a millisecond: fixed weights, and what it says of its input, in timm's words."""

from __future__ import annotations

import torch
from torch import nn

SIZE, FEATURES = 12, 20


class Small(nn.Module):
    """Maps of an image, and logits of as many classes as it is asked for: of none, it is an encoder."""

    def __init__(self, num_classes: int = 10, in_chans: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_chans, FEATURES, 3, 2)
        self.head = nn.Linear(FEATURES, num_classes) if num_classes else None
        self.pretrained_cfg = {"input_size": (in_chans, SIZE, SIZE), "mean": (0.4, 0.5, 0.6), "std": (0.2, 0.25, 0.5)}

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = torch.relu(self.conv(images))
        return maps if self.head is None else self.head(maps.mean((2, 3)))


def encoder(num_classes: int = 10, in_chans: int = 3) -> nn.Module:
    """The same weights in every process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return Small(num_classes, in_chans)
