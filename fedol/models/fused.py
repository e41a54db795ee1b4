"""Batch norm, residual sum and ReLU in two passes over memory instead of six, for CUDA (Triton).

Training a small residual network is bound by memory traffic and kernel launches, and normalisation is the largest
part of both: PyTorch runs a norm, an addition and a ReLU forward and three kernels backward, plus a counter. Here it is
two kernels forward (statistics; apply) and two backward (sums; gradient), float32 inside whatever the input's type.
Sums are gathered in a fixed order by the last program to finish, so the same input always gives the same bits.

A block's output goes two ways, into the next block's body and past it. Each way gets a tensor of its own (the output
and its ``twin``), so that the two gradients come back apart and are added here, not in a pass of autograd's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import triton
from torch import Tensor, nn

from fedol.models import kernels

# "pdl": a kernel may be set up while the one before it still runs (programmatic dependent launch, from Hopper on); it
# waits for that one's results itself, so that only the launch is hidden.
LAUNCH = {"launch_pdl": torch.cuda.get_device_capability() >= (9, 0)}


class Cut(NamedTuple):
    """How much a program takes in one turn: elements, how many of them in a row, by how many warps."""

    tile: int
    wide: int
    warps: int


# Measured on an H200 over the shapes of ResNet-56 at widths 16 and 64 (benchmarks/README.md).
ELEMENTWISE = Cut(4096, 64, 4)
SUMS = Cut(4096, 32, 4)
LARGE_SUMS, LARGE = Cut(4096, 64, 8), 1 << 22  # for many tensors of at least so many elements
PROGRAMS = 256  # that a sum is split over: about two per multiprocessor
GATHERED = 128  # of them over the rows, at the most: as many partial sums the last one adds up


class _NormAct(torch.autograd.Function):
    """relu(batch_norm(x) + residual) on channels-last tensors, and its twin."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, norm: nn.BatchNorm2d, relu: bool
    ) -> tuple[Tensor, Tensor]:
        """Batch statistics, then one pass over x."""
        ctx.set_materialize_grads(False)  # a twin that nobody used has no gradient
        shape = Shape(x, SUMS)
        y = torch.empty_like(x)
        mean, rstd = torch.empty_like(weight), torch.empty_like(weight)
        kernels.statistics[shape.sum_grid](
            x, shape.partial(), shape.arrivals(norm), mean, rstd, norm.running_mean, norm.running_var,
            shape.rows, shape.per_program, norm.eps, norm.momentum, **shape.sum_blocks,
        )  # fmt: skip
        kernels.apply[shape.grid](
            x, x if residual is None else residual, y, mean, rstd, weight, bias, shape.elements, shape.stride,
            int(residual is not None), int(relu), **shape.blocks,
        )  # fmt: skip
        ctx.save_for_backward(x, y if residual is not None else x, weight, bias, mean, rstd)
        ctx.relu, ctx.residual, ctx.norm = relu, residual is not None, norm
        return y, y.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Two sums, then one pass."""
        x, y, weight, bias, mean, rstd = ctx.saved_tensors
        ways = [dy.contiguous(memory_format=torch.channels_last) for dy in gradients if dy is not None]
        twin = len(ways) - 1
        written = bool(twin) or ctx.residual
        shape = Shape(x, LARGE_SUMS if written and x.numel() >= LARGE else SUMS)
        dweight, dbias = torch.empty_like(weight), torch.empty_like(weight)
        dx = torch.empty_like(x)
        dz = torch.empty_like(x) if written else ways[0]
        kernels.gradient_sums[shape.sum_grid](
            ways[0], ways[-1], y, x, dz, mean, rstd, weight, bias, shape.partial(), shape.arrivals(ctx.norm),
            dweight, dbias, shape.rows, shape.per_program, twin, int(ctx.residual), int(ctx.relu), **shape.sum_blocks,
            WRITTEN=written,
        )  # fmt: skip
        kernels.gradient[shape.grid](
            dz, x, mean, rstd, weight, bias, dweight, dbias, dx, shape.elements, shape.stride, shape.rows,
            int(ctx.relu and not written), **shape.blocks,
        )  # fmt: skip
        return dx, dz if ctx.residual else None, dweight, dbias, None, None


class Shape:
    """How a channels-last tensor, seen as [rows, C], is cut into programs.

    Every other block size would be another kernel to compile. So the elementwise kernels see a tensor of few channels
    as rows of 64 elements, several of its own rows each, and all sums are gathered over the same number of programs.
    """

    def __init__(self, x: Tensor, sums: Cut) -> None:
        self._x = x
        self.elements, self.channels = x.numel(), x.shape[1]
        self.rows = self.elements // self.channels
        self.stride = ELEMENTWISE.wide if ELEMENTWISE.wide % self.channels == 0 else self.channels
        high, wide = self._block(ELEMENTWISE, self.stride)
        self.blocks = {"C": self.channels, "BM": high, "BC": wide, "num_warps": ELEMENTWISE.warps, **LAUNCH}
        self.grid = (triton.cdiv(self.elements, self.stride * high), triton.cdiv(self.stride, wide))
        high, wide = self._block(sums, self.channels)
        columns = triton.cdiv(self.channels, wide)
        programs = min(max(1, PROGRAMS // columns), GATHERED, triton.cdiv(self.rows, high))
        self.per_program = triton.cdiv(triton.cdiv(self.rows, programs), high) * high
        self.sum_grid = (triton.cdiv(self.rows, self.per_program), columns)
        self.sum_blocks = {"C": self.channels, "BM": high, "BC": wide, "P": GATHERED, "num_warps": sums.warps, **LAUNCH}

    @staticmethod
    def _block(cut: Cut, columns: int) -> tuple[int, int]:
        """Rows and columns of a program's block."""
        wide = min(cut.wide, triton.next_power_of_2(columns))
        return cut.tile // wide, wide

    def partial(self) -> Tensor:
        """Room for two sums per program and channel."""
        return torch.empty(self.sum_grid[0] * 2 * self.channels, device=self._x.device, dtype=torch.float32)

    def arrivals(self, norm: nn.Module) -> Tensor:
        """This layer's counters: zero between kernels, because the last program to arrive sets them back."""
        return arrivals(norm, self.channels, self._x.device)


# One set of counters per layer: models on different streams must not share them.
_ARRIVALS: WeakKeyDictionary[nn.Module, Tensor] = WeakKeyDictionary()


def arrivals(norm: nn.Module, channels: int, device: torch.device) -> Tensor:
    """A layer's counters; a sum uses one per block of channels."""
    counters = _ARRIVALS.get(norm)
    if counters is None or counters.device != device:
        counters = torch.zeros(channels, device=device, dtype=torch.int32)
        _ARRIVALS[norm] = counters
    return counters


def prepare(model: nn.Module, device: torch.device) -> None:
    """Make the counters now: made during a capture, they would be filled by every replay."""
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            arrivals(norm, norm.num_features, device)


def norm_act(norm: nn.BatchNorm2d, x: Tensor, residual: Tensor | None, relu: bool) -> tuple[Tensor, Tensor]:
    """``relu(norm(x) + residual)`` in training mode, twice; updates the running statistics."""
    x = x.contiguous(memory_format=torch.channels_last)
    if residual is not None:
        residual = residual.contiguous(memory_format=torch.channels_last)
    if norm.num_batches_tracked is not None and not torch.cuda.is_current_stream_capturing():
        norm.num_batches_tracked.add_(1)  # in a graph it would be a kernel a step, for a number that nothing reads
    out: tuple[Tensor, Tensor] = _NormAct.apply(x, residual, norm.weight, norm.bias, norm, relu)  # type: ignore[no-untyped-call]
    return out
