"""The two pieces every convolutional net here is made of: a normalised convolution and a residual block."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from fedol.models import overlap

TWIN = "_fedol_twin"


@cache
def fused_kernels() -> Any:
    """The CUDA kernels for norms, or None where Triton is not installed."""
    try:
        from fedol.models import fused
    except ImportError:
        return None
    return fused


@cache
def pointwise_kernels() -> Any:
    """The CUDA kernels for 1x1 convolutions; only where those for norms are there too."""
    from fedol.models import pointwise

    return pointwise


def usual(norm: nn.Module) -> bool:
    """Whether this is batch norm in training as the kernels know it."""
    if not isinstance(norm, nn.BatchNorm2d) or "forward" in vars(norm):
        return False  # what private training makes of it, or one whose statistics are those of several processes
    return norm.training and norm.affine and norm.track_running_stats and norm.momentum is not None


def twin(x: Tensor) -> Tensor:
    """x for a second use, whose gradient the kernels that made x add to the first one's; else x itself."""
    out: Tensor = getattr(x, TWIN, x)
    return out


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
        kernels = fused_kernels() if x.is_cuda and usual(self.norm) else None
        statistics = None
        if not overlap.overlapping(x):
            x = self.conv(x)
        elif kernels and pointwise_kernels().fits(self.conv, x):
            x, statistics = overlap.conv(self.conv, x, partial(pointwise_kernels().product, norm=self.norm))
        else:
            x, _ = overlap.conv(self.conv, x)
        if kernels:
            x, second = kernels.norm_act(self.norm, x, residual, self.relu, statistics)
            setattr(x, TWIN, second)
            return x
        x = self.norm(x)
        if residual is not None:
            x = x + residual
        return F.relu(x) if self.relu else x


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
