"""The built-in networks: residual ones for small images, and nets that take milliseconds a step on a CPU.

The convolutional ones are made of two pieces, a normalised convolution and a residual block.
"""

from __future__ import annotations

import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedol.errors import cause
from fedol.models.overlap import conv

TWIN = "_fedol_twin"


def norm_act(norm: nn.BatchNorm2d, x: Tensor, residual: Tensor | None, relu: bool) -> Tensor:
    """``relu(norm(x) + residual)``: the only place where normalisation, addition and activation meet.

    Everything here is bound by memory traffic, so this is the spot where a fused kernel pays.
    """
    batch = isinstance(norm, nn.BatchNorm2d)  # another norm is what private training makes of it
    usual = batch and norm.training and norm.affine and norm.track_running_stats and norm.momentum is not None
    usual = usual and "forward" not in vars(norm)  # else its statistics are those of several processes
    if x.is_cuda and usual and (kernels := fused_kernels()):
        out, twin = kernels.norm_act(norm, x, residual, relu)
        setattr(out, TWIN, twin)
        return out  # type: ignore[no-any-return]
    x = norm(x)
    if residual is not None:
        x = x + residual
    return F.relu(x) if relu else x


def twin(x: Tensor) -> Tensor:
    """x for a second use, whose gradient the kernels that made x add to the first one's; else x itself."""
    out: Tensor = getattr(x, TWIN, x)
    return out


@cache
def fused_kernels() -> Any:
    """The CUDA kernels, or None, which is said once, where Triton or what it needs (a C compiler) is not installed."""
    try:
        import triton

        triton.runtime.driver.active.get_current_target()  # builds what all kernels are launched by
        from fedol.models import fused
    except Exception as error:  # a missing package, compiler or header, each with an error of its own
        warnings.warn(f"PyTorch's own norms train here: Triton's kernels cannot ({cause(error)}).", stacklevel=2)
        return None
    return fused


class ConvNorm(nn.Module):
    """Convolution, batch norm, then (optionally) a residual sum and ReLU.

    Spatial size is kept at stride 1 and halved, rounding up, at stride 2, so any input size works.
    Weights are PyTorch's defaults: the paper names no initialisation.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, relu: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.relu = relu

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """[B, inputs, H, W] to [B, outputs, H/stride, W/stride]."""
        return norm_act(self.norm, conv(self.conv, x), residual, self.relu)


class Residual(nn.Module):
    """``relu(body(x) + shortcut(x))``; the shortcut is a 1x1 ConvNorm wherever the shape changes (option B)."""

    def __init__(self, inputs: int, outputs: int, stride: int, body: list[ConvNorm]) -> None:
        super().__init__()
        self.body = nn.ModuleList(body)
        changes = stride != 1 or inputs != outputs
        self.shortcut = ConvNorm(inputs, outputs, 1, stride, relu=False) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """The last convolution of the body adds the shortcut before its ReLU."""
        residual = self.shortcut(twin(x))
        *first, last = self.body
        for layer in first:
            x = layer(x)
        out: Tensor = last(x, residual)
        return out


def bottleneck(inputs: int, planes: int, stride: int) -> Residual:
    """1x1 to ``planes``, 3x3 (the stride is here), 1x1 to ``4 * planes``."""
    body = [ConvNorm(inputs, planes, 1), ConvNorm(planes, planes, 3, stride), ConvNorm(planes, 4 * planes, 1)]
    return Residual(inputs, 4 * planes, stride, body)


def basic(inputs: int, planes: int, stride: int) -> Residual:
    """Two 3x3 convolutions, the stride in the first."""
    return Residual(inputs, planes, stride, [ConvNorm(inputs, planes, 3, stride), ConvNorm(planes, planes, 3)])


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


def linear(*, classes: int, shape: tuple[int, ...]) -> nn.Sequential:
    """All values of a sample, linear: a head on the features of a pretrained network."""
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), head=nn.Linear(math.prod(shape), classes)))


class CNN1d(nn.Module):
    """Convolutions over seven places, each but the first halving the length, then its mean and maximum, linear."""

    def __init__(self, widths: Sequence[int], *, classes: int, channels: int) -> None:
        super().__init__()
        steps = [1, *(2 for _ in widths[1:])]
        layers = [
            nn.Sequential(nn.Conv1d(i, o, 7, step, padding=3, bias=False), nn.BatchNorm1d(o), nn.ReLU())
            for i, o, step in zip([channels, *widths], widths, steps, strict=False)
        ]
        self.convs = nn.Sequential(*layers)
        self.head = nn.Linear(2 * widths[-1], classes)

    def forward(self, signals: Tensor) -> Tensor:
        """[B, channels, length] to logits [B, classes]."""
        found = self.convs(signals)
        logits: Tensor = self.head(torch.cat([found.mean(2), found.amax(2)], 1))
        return logits


def cnn1d(*, classes: int, channels: int, width: int) -> CNN1d:
    """A client: two convolutions."""
    return CNN1d([width, 2 * width], classes=classes, channels=channels)


def cnn1d_large(*, classes: int, channels: int, width: int) -> CNN1d:
    """A server: three convolutions, twice as wide."""
    return CNN1d([2 * width, 4 * width, 4 * width], classes=classes, channels=channels)


def mlp(*, classes: int, shape: tuple[int, ...], width: int) -> nn.Sequential:
    """A client: all values, one hidden layer of ``4 * width`` units, ReLU, linear."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        flatten=nn.Flatten(),
        hidden=nn.Linear(math.prod(shape), 4 * width),
        relu=nn.ReLU(),
        head=nn.Linear(4 * width, classes),
    )
    return nn.Sequential(layers)


def mlp_large(*, classes: int, shape: tuple[int, ...], width: int) -> nn.Sequential:
    """A server: all values, two hidden layers of ``8 * width`` units."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        flatten=nn.Flatten(),
        first=nn.Linear(math.prod(shape), 8 * width),
        relu=nn.ReLU(),
        second=nn.Linear(8 * width, 8 * width),
        relu2=nn.ReLU(),
        head=nn.Linear(8 * width, classes),
    )
    return nn.Sequential(layers)
