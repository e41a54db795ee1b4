"""A 1x1 convolution that gathers its batch norm's statistics on the way, for CUDA (Triton).

Two thirds of a bottleneck net's convolutions are 1x1: products of [rows, K] and [K, C], bound by memory. Summing the
output while it is still in registers spares the norm a kernel and a pass over memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from fedol.models.fused import LAUNCH, PROGRAMS, Shape, gather_statistics
from fedol.models.overlap import Statistics

ROWS, OUTPUTS, INPUTS = 128, 64, 64  # of one product; one size for all, because every other is a kernel to compile
MULTIPLE = 16  # of channels: what the tensor cores take, and what loads are aligned to


def fits(layer: nn.Conv2d, x: Tensor) -> bool:
    """Whether the kernel can stand in for this convolution."""
    plain = layer.kernel_size == layer.stride == (1, 1) and layer.padding == (0, 0) and layer.groups == 1
    channels = layer.in_channels % MULTIPLE == layer.out_channels % MULTIPLE == 0
    return plain and channels and layer.bias is None and x.is_cuda


@triton.jit  # type: ignore[untyped-decorator]
def _product(  # type: ignore[no-untyped-def]
    x, weight, y, partial, arrivals, mean, rstd, running_mean, running_var, rows, per_program, eps, momentum,
    K, C, BM: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """y = x · weightᵀ for the rows of this program, and the statistics of y as it is stored."""
    gdc_wait()
    gdc_launch_dependents()
    c, k = tl.program_id(1) * BC + tl.arange(0, BC), tl.arange(0, BK)
    held = c < C
    start = tl.program_id(0) * per_program
    end = tl.minimum(start + per_program, rows)
    shift = tl.load(running_mean + c, mask=held, other=0.0)
    first = tl.zeros((BC,), tl.float32)
    second = tl.zeros((BC,), tl.float32)
    for row in range(start, end, BM):
        r = row + tl.arange(0, BM)
        total = tl.zeros((BM, BC), tl.float32)
        for begin in range(0, K, BK):
            there = begin + k < K
            a = tl.load(x + r[:, None] * K + (begin + k)[None, :], mask=(r < end)[:, None] & there[None, :], other=0.0)
            b = tl.load(weight + c[None, :] * K + (begin + k)[:, None], mask=there[:, None] & held[None, :], other=0.0)
            total = tl.dot(a, b, total)
        mask = (r < end)[:, None] & held[None, :]
        short = total.to(y.dtype.element_ty)
        tl.store(y + r[:, None] * C + c[None, :], short, mask=mask)
        d = tl.where(mask, short.to(tl.float32) - shift[None, :], 0.0)
        first += tl.sum(d, 0)
        second += tl.sum(d * d, 0)
    gather_statistics(
        first, second, shift, start, end, partial, arrivals, mean, rstd, running_mean, running_var,
        rows, per_program, eps, momentum, C, BC, P,
    )  # fmt: skip


def product(x: Tensor, weight: Tensor, norm: nn.BatchNorm2d) -> tuple[Tensor, Statistics]:
    """The convolution of x (bf16, channels last) with weight [C, K, 1, 1], and the statistics ``norm`` needs of it."""
    x = x.contiguous(memory_format=torch.channels_last)
    samples, inputs, height, width = x.shape
    y = torch.empty(
        (samples, len(weight), height, width), dtype=x.dtype, device=x.device, memory_format=torch.channels_last
    )
    shape = Shape(y)
    columns = triton.cdiv(len(weight), OUTPUTS)
    programs = min(max(1, PROGRAMS // columns), triton.cdiv(shape.rows, ROWS))
    per_program = triton.cdiv(triton.cdiv(shape.rows, programs), ROWS) * ROWS
    grid = (triton.cdiv(shape.rows, per_program), columns)
    partial = torch.empty(grid[0] * 2 * len(weight), device=x.device, dtype=torch.float32)
    mean, rstd = torch.empty_like(norm.weight), torch.empty_like(norm.weight)
    _product[grid](
        x, weight, y, partial, shape.arrivals(norm), mean, rstd, norm.running_mean, norm.running_var,
        shape.rows, per_program, norm.eps, norm.momentum, inputs, len(weight),
        BM=ROWS, BC=OUTPUTS, BK=INPUTS, P=PROGRAMS, **LAUNCH,
    )  # fmt: skip
    return y, (mean, rstd)
