"""The two pieces every convolutional net here is made of: a normalised convolution and a residual block."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from fedol.errors import cause
from fedol.models.cuda.overlap import conv

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
        from fedol.models.cuda import fused
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
