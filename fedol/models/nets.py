"""The built-in networks: residual ones for small images, and nets that take milliseconds a step on a CPU."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence

from torch import Tensor, nn

from fedol.models.blocks import ConvNorm, Residual, basic, bottleneck

Block = Callable[[int, int, int], Residual]
"""(input channels, planes, stride) to a residual block."""


class ResNet(nn.Module):
    """3x3 stem, stages of residual blocks (every stage but the first halves the image), global mean, linear."""

    def __init__(
        self, block: Block, *, planes: Sequence[int], depths: Sequence[int], expansion: int, channels: int, classes: int
    ) -> None:
        super().__init__()
        features = planes[0]
        self.stem = ConvNorm(channels, features, 3)
        self.stages = nn.Sequential()
        for index, (width, depth) in enumerate(zip(planes, depths, strict=True)):
            stage = nn.Sequential()
            for position in range(depth):
                stage.append(block(features, width, 2 if index > 0 and position == 0 else 1))
                features = width * expansion
            self.stages.append(stage)
        self.head = nn.Linear(features, classes)

    def forward(self, images: Tensor) -> Tensor:
        """[B, channels, H, W] to logits [B, classes]."""
        # A plain mean, not adaptive pooling: the backward of the latter is not deterministic on CUDA.
        logits: Tensor = self.head(self.stages(self.stem(images)).mean(dim=(2, 3)))
        return logits


def bottleneck_resnet(blocks: int, *, classes: int, channels: int, width: int) -> ResNet:
    """ResNet-``9 * blocks + 2`` of FedGEMS (its Table 10): three stages of ``blocks`` bottlenecks, expansion 4.

    At width 16 ResNet-11, -20 and -56 (1, 2 and 6 blocks) have 150,772, 243,508 and 614,452 parameters on 100 classes.
    """
    planes = [width, 2 * width, 4 * width]
    return ResNet(bottleneck, planes=planes, depths=[blocks] * 3, expansion=4, channels=channels, classes=classes)


def wide_resnet22(*, classes: int, channels: int) -> ResNet:
    """The net whose size matches the paper's cost table: 17,075,274 parameters (65.14 MiB) with 10 classes.

    Basic blocks [2, 2, 3, 3] at fixed widths 64 to 512: it takes no ``width``, which would change the size it is for.
    """
    planes, depths = [64, 128, 256, 512], [2, 2, 3, 3]
    return ResNet(basic, planes=planes, depths=depths, expansion=1, channels=channels, classes=classes)


GRID = 4
"""The linear head of a CNN sees at most 4x4 positions, so a larger image makes no larger head."""


class CNN(nn.Module):
    """3x3 convolutions, one 2x2 max-pool after the first, mean over a 4x4 grid, linear.

    The head keeps the grid because on few images it learns far better than a global mean: with 110 digits a client
    net reaches 89 % instead of 42 % in 20 epochs.
    """

    def __init__(self, widths: Sequence[int], *, classes: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, *size = shape
        first, *others = (ConvNorm(i, o, 3) for i, o in zip([channels, *widths], widths, strict=False))
        pooled = [math.ceil(side / 2) for side in size]
        window = [math.ceil(side / GRID) for side in pooled]
        positions = math.prod(math.ceil(side / step) for side, step in zip(pooled, window, strict=True))
        self.convs = nn.Sequential(first, nn.MaxPool2d(2, ceil_mode=True), *others)
        mean = nn.AvgPool2d((window[0], window[1]), ceil_mode=True)
        self.pool = mean if max(window) > 1 else nn.Identity()  # a mean of one value, which PyTorch would still compute
        self.head = nn.Linear(widths[-1] * positions, classes)

    def forward(self, images: Tensor) -> Tensor:
        """[B, channels, H, W] to logits [B, classes]."""
        logits: Tensor = self.head(self.pool(self.convs(images)).flatten(1))
        return logits


def cnn(*, classes: int, shape: tuple[int, int, int], width: int) -> CNN:
    """A client: two convolutions."""
    return CNN([width, 2 * width], classes=classes, shape=shape)


def cnn_large(*, classes: int, shape: tuple[int, int, int], width: int) -> CNN:
    """A server: three convolutions, at least twice as wide."""
    return CNN([2 * width, 4 * width, 4 * width], classes=classes, shape=shape)


def mlp(*, classes: int, shape: tuple[int, int, int], width: int) -> nn.Sequential:
    """A client: all pixels, one hidden layer of ``4 * width`` units, ReLU, linear."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        flatten=nn.Flatten(),
        hidden=nn.Linear(math.prod(shape), 4 * width),
        relu=nn.ReLU(),
        head=nn.Linear(4 * width, classes),
    )
    return nn.Sequential(layers)
