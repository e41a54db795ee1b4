"""Nets for small images such as 8x8 digits; quick on a CPU."""

from __future__ import annotations

import math
from collections import OrderedDict

from torch import Tensor, nn

from fedol.models.blocks import ConvNorm, basic
from fedol.models.resnet import ResNet


class CNN(nn.Module):
    """Two 3x3 convolutions, the second at half the size, global mean, linear."""

    def __init__(self, *, classes: int, channels: int, width: int) -> None:
        super().__init__()
        self.first = ConvNorm(channels, width, 3)
        self.second = ConvNorm(width, 2 * width, 3, stride=2)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """[B, channels, H, W] to logits [B, classes]."""
        logits: Tensor = self.head(self.second(self.first(images)).mean(dim=(2, 3)))
        return logits


def mlp(*, classes: int, shape: tuple[int, int, int], width: int) -> nn.Module:
    """All pixels, one hidden layer of ``4 * width`` units, ReLU, linear."""
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            hidden=nn.Linear(math.prod(shape), 4 * width),
            relu=nn.ReLU(),
            head=nn.Linear(4 * width, classes),
        )
    )


def cnn_large(*, classes: int, channels: int, width: int) -> ResNet:
    """A server for small images: two stages of one basic residual block, ``2 * width`` and ``4 * width`` channels."""
    return ResNet(basic, planes=[2 * width, 4 * width], depths=[1, 1], expansion=1, channels=channels, classes=classes)
