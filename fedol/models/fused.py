"""Batch norm, residual sum and ReLU in two passes over memory instead of six, for CUDA (Triton).

Training a small residual network is bound by memory traffic and kernel launches, and normalisation is the largest
part of both: PyTorch runs a norm, an addition and a ReLU forward and three kernels backward, plus a counter. Here it is
two kernels forward (statistics; apply) and two backward (sums; gradient), float32 inside whatever the input's type.
Sums are gathered in a fixed order by the last program to finish, so the same input always gives the same bits.

A block's output goes two ways, into the next block's body and past it. Each way gets a tensor of its own (the output
and its ``twin``), so that the two gradients come back apart and are added here, not in a pass of autograd's own.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

# Measured on an H200 over the shapes of ResNet-56 at widths 16 and 64 (benchmarks/README.md).
# "pdl": a kernel may be set up while the one before it still runs (programmatic dependent launch, from Hopper on); it
# waits for that one's results itself, so that only the launch is hidden.
LAUNCH = {"num_warps": 4, "launch_pdl": torch.cuda.get_device_capability() >= (9, 0)}
TILE, WIDE = 4096, 64  # elements that an elementwise program takes, and how wide
SUM_TILE, SUM_CHANNELS = 8192, 32  # the same for one turn of a sum
PROGRAMS = 256  # that a sum is split over: about two per multiprocessor


@triton.jit
def _last_one(arrivals, block, programs):  # type: ignore[no-untyped-def]
    """True in the program that arrives last; every partial sum is visible to it then."""
    tl.debug_barrier()
    last = tl.atomic_add(arrivals + block, 1, sem="acq_rel") == programs - 1
    if last:
        tl.store(arrivals + block, 0)
    return last


@triton.jit  # type: ignore[untyped-decorator]
def gather_statistics(  # type: ignore[no-untyped-def]
    first, second, shift, start, end, partial, arrivals, mean, rstd, running_mean, running_var,
    rows, per_program, eps, momentum, C, BC: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """From every program's sums of (x − shift) and its square over its rows: mean, 1/std, running statistics."""
    program, block, programs = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    c = block * BC + tl.arange(0, BC)
    held = c < C
    count = tl.maximum(end - start, 1).to(tl.float32)
    tl.store(partial + (program * 2) * C + c, shift + first / count, mask=held)
    tl.store(partial + (program * 2 + 1) * C + c, second - first * first / count, mask=held)
    if _last_one(arrivals, block, programs):
        p = tl.arange(0, P)
        counts = tl.minimum(tl.maximum(rows - p * per_program, 0), per_program)
        counts = tl.where(p < programs, counts, 0).to(tl.float32)[:, None]
        mask = (p < programs)[:, None] & held[None, :]
        means = tl.load(partial + (p[:, None] * 2) * C + c[None, :], mask=mask, other=0.0, cache_modifier=".cg")
        squares = tl.load(partial + (p[:, None] * 2 + 1) * C + c[None, :], mask=mask, other=0.0, cache_modifier=".cg")
        m = tl.sum(means * counts, 0) / rows
        off = means - m[None, :]
        spread = tl.sum(tl.where(mask, squares + counts * off * off, 0.0), 0)
        tl.store(mean + c, m, mask=held)
        tl.store(rstd + c, 1 / tl.sqrt(spread / rows + eps), mask=held)
        old_var = tl.load(running_var + c, mask=held, other=0.0)
        tl.store(running_mean + c, shift + momentum * (m - shift), mask=held)
        tl.store(running_var + c, old_var + momentum * (spread / (rows - 1) - old_var), mask=held)


@triton.jit  # type: ignore[untyped-decorator]
def _statistics(  # type: ignore[no-untyped-def]
    x, partial, arrivals, mean, rstd, running_mean, running_var, rows, per_program, eps, momentum,
    C, BM: tl.constexpr, BC: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Mean and 1/std per channel, and the running statistics."""
    gdc_wait()
    gdc_launch_dependents()
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    held = c < C
    start = tl.program_id(0) * per_program
    end = tl.minimum(start + per_program, rows)
    # Sums of differences from the running mean: no cancellation where a channel's mean is far from zero.
    shift = tl.load(running_mean + c, mask=held, other=0.0)
    first = tl.zeros((BM, BC), tl.float32)
    second = tl.zeros((BM, BC), tl.float32)
    for row in range(start, end, BM):
        r = row + tl.arange(0, BM)
        mask = (r < end)[:, None] & held[None, :]
        value = tl.load(x + r[:, None] * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
        d = tl.where(mask, value - shift[None, :], 0.0)
        first += d
        second += d * d
    gather_statistics(
        tl.sum(first, 0), tl.sum(second, 0), shift, start, end, partial, arrivals, mean, rstd,
        running_mean, running_var, rows, per_program, eps, momentum, C, BC, P,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _apply(  # type: ignore[no-untyped-def]
    x, residual, y, mean, rstd, weight, bias, elements, stride,
    C, BM: tl.constexpr, BC: tl.constexpr, RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """y = relu((x − mean) · rstd · weight + bias + residual)."""
    gdc_wait()
    gdc_launch_dependents()
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BC + tl.arange(0, BC)
    held, c = column < stride, column % C
    place = r[:, None] * stride + column[None, :]
    mask = (place < elements) & held[None, :]
    inverse = tl.load(rstd + c, mask=held, other=0.0)
    w = tl.load(weight + c, mask=held, other=0.0)
    b = tl.load(bias + c, mask=held, other=0.0)
    m = tl.load(mean + c, mask=held, other=0.0)
    # Written as in the backward kernels, so that both see the same sign.
    normal = (tl.load(x + place, mask=mask, other=0.0).to(tl.float32) - m[None, :]) * inverse[None, :]
    value = normal * w[None, :] + b[None, :]
    if RESIDUAL:
        value += tl.load(residual + place, mask=mask, other=0.0).to(tl.float32)
    if RELU:
        value = tl.maximum(value, 0.0)
    tl.store(y + place, value.to(y.dtype.element_ty), mask=mask)


@triton.jit  # type: ignore[untyped-decorator]
def _gradient_sums(  # type: ignore[no-untyped-def]
    dy, dy2, y, x, dz_out, mean, rstd, weight, bias, partial, arrivals, dweight, dbias, rows, per_program,
    C, BM: tl.constexpr, BC: tl.constexpr, P: tl.constexpr,
    TWIN: tl.constexpr, RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """Gradients of weight and bias: Σ dz·x̂ and Σ dz, dz being dy (+ dy2) where the output is positive.

    With a twin or a residual dz is written: the next kernel then has one tensor to read, and it is the residual's
    gradient.
    """
    gdc_wait()
    gdc_launch_dependents()
    program, block, programs = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    c = block * BC + tl.arange(0, BC)
    held = c < C
    start = program * per_program
    end = tl.minimum(start + per_program, rows)
    m = tl.load(mean + c, mask=held, other=0.0)
    inverse = tl.load(rstd + c, mask=held, other=0.0)
    w = tl.load(weight + c, mask=held, other=0.0)
    b = tl.load(bias + c, mask=held, other=0.0)
    plain = tl.zeros((BM, BC), tl.float32)
    scaled = tl.zeros((BM, BC), tl.float32)
    for row in range(start, end, BM):
        r = row + tl.arange(0, BM)
        mask = (r < end)[:, None] & held[None, :]
        place = r[:, None] * C + c[None, :]
        dz = tl.load(dy + place, mask=mask, other=0.0).to(tl.float32)
        normal = (tl.load(x + place, mask=mask, other=0.0).to(tl.float32) - m[None, :]) * inverse[None, :]
        if TWIN:
            dz += tl.load(dy2 + place, mask=mask, other=0.0).to(tl.float32)
        if RELU and RESIDUAL:
            dz = tl.where(tl.load(y + place, mask=mask, other=0.0).to(tl.float32) > 0, dz, 0.0)
        elif RELU:  # without a residual, x alone tells where the output is positive
            dz = tl.where(normal * w[None, :] + b[None, :] > 0, dz, 0.0)
        if TWIN or RESIDUAL:
            short = dz.to(dz_out.dtype.element_ty)
            tl.store(dz_out + place, short, mask=mask)
            dz = short.to(tl.float32)  # what the next kernel will read
        plain += dz
        scaled += dz * normal
    tl.store(partial + (program * 2) * C + c, tl.sum(plain, 0), mask=held)
    tl.store(partial + (program * 2 + 1) * C + c, tl.sum(scaled, 0), mask=held)
    if _last_one(arrivals, block, programs):
        p = tl.arange(0, P)
        mask = (p < programs)[:, None] & held[None, :]
        plains = tl.load(partial + (p[:, None] * 2) * C + c[None, :], mask=mask, other=0.0, cache_modifier=".cg")
        scaleds = tl.load(partial + (p[:, None] * 2 + 1) * C + c[None, :], mask=mask, other=0.0, cache_modifier=".cg")
        tl.store(dbias + c, tl.sum(plains, 0), mask=held)
        tl.store(dweight + c, tl.sum(scaleds, 0), mask=held)


@triton.jit  # type: ignore[untyped-decorator]
def _gradient(  # type: ignore[no-untyped-def]
    dz_in, x, mean, rstd, weight, bias, dweight, dbias, dx, elements, stride, rows,
    C, BM: tl.constexpr, BC: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """dx = weight · rstd · (dz − mean(dz) − x̂ · mean(dz·x̂)); with RELU, dz is still to be found from dy and x."""
    gdc_wait()
    gdc_launch_dependents()
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BC + tl.arange(0, BC)
    held, c = column < stride, column % C
    place = r[:, None] * stride + column[None, :]
    mask = (place < elements) & held[None, :]
    inverse = tl.load(rstd + c, mask=held, other=0.0)
    w = tl.load(weight + c, mask=held, other=0.0)
    b = tl.load(bias + c, mask=held, other=0.0)
    m = tl.load(mean + c, mask=held, other=0.0)
    plain = tl.load(dbias + c, mask=held, other=0.0) / rows
    scaled = tl.load(dweight + c, mask=held, other=0.0) / rows
    dz = tl.load(dz_in + place, mask=mask, other=0.0).to(tl.float32)
    normal = (tl.load(x + place, mask=mask, other=0.0).to(tl.float32) - m[None, :]) * inverse[None, :]
    if RELU:
        dz = tl.where(normal * w[None, :] + b[None, :] > 0, dz, 0.0)
    value = (inverse * w)[None, :] * (dz - plain[None, :] - normal * scaled[None, :])
    tl.store(dx + place, value.to(dx.dtype.element_ty), mask=mask)


class _NormAct(torch.autograd.Function):
    """relu(batch_norm(x) + residual) on channels-last tensors, and its twin."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, norm: nn.BatchNorm2d, relu: bool
    ) -> tuple[Tensor, Tensor]:
        """Batch statistics, then one pass over x."""
        ctx.set_materialize_grads(False)  # a twin that nobody used has no gradient
        shape = Shape(x)
        y = torch.empty_like(x)
        mean, rstd = torch.empty_like(weight), torch.empty_like(weight)
        _statistics[shape.sum_grid](
            x, shape.partial(), shape.arrivals(norm), mean, rstd, norm.running_mean, norm.running_var,
            shape.rows, shape.per_program, norm.eps, norm.momentum, **shape.sum_blocks,
        )  # fmt: skip
        _apply[shape.grid](
            x, x if residual is None else residual, y, mean, rstd, weight, bias, shape.elements, shape.stride,
            **shape.blocks, RESIDUAL=residual is not None, RELU=relu,
        )  # fmt: skip
        ctx.save_for_backward(x, y if residual is not None else x, weight, bias, mean, rstd)
        ctx.relu, ctx.residual, ctx.norm = relu, residual is not None, norm
        return y, y.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Two sums, then one pass."""
        x, y, weight, bias, mean, rstd = ctx.saved_tensors
        ways = [dy.contiguous(memory_format=torch.channels_last) for dy in gradients if dy is not None]
        twin, written = len(ways) == 2, len(ways) == 2 or ctx.residual
        shape = Shape(x)
        dweight, dbias = torch.empty_like(weight), torch.empty_like(weight)
        dx = torch.empty_like(x)
        dz = torch.empty_like(x) if written else ways[0]
        _gradient_sums[shape.sum_grid](
            ways[0], ways[-1], y, x, dz, mean, rstd, weight, bias, shape.partial(), shape.arrivals(ctx.norm),
            dweight, dbias, shape.rows, shape.per_program, **shape.sum_blocks,
            TWIN=twin, RESIDUAL=ctx.residual, RELU=ctx.relu,
        )  # fmt: skip
        _gradient[shape.grid](
            dz, x, mean, rstd, weight, bias, dweight, dbias, dx, shape.elements, shape.stride, shape.rows,
            **shape.blocks, RELU=ctx.relu and not written,
        )  # fmt: skip
        return dx, dz if ctx.residual else None, dweight, dbias, None, None


class Shape:
    """How a channels-last tensor, seen as [rows, C], is cut into programs.

    Every other block size would be another kernel to compile. So the elementwise kernels see a tensor of few channels
    as rows of 64 elements, several of its own rows each, and all sums are gathered over the same number of programs.
    """

    def __init__(self, x: Tensor) -> None:
        self._x = x
        self.elements, self.channels = x.numel(), x.shape[1]
        self.rows = self.elements // self.channels
        power = triton.next_power_of_2(self.channels)
        self.stride = WIDE if WIDE % self.channels == 0 else self.channels
        wide = min(WIDE, triton.next_power_of_2(self.stride))
        self.blocks = {"C": self.channels, "BM": TILE // wide, "BC": wide, **LAUNCH}
        self.grid = (triton.cdiv(self.elements, self.stride * (TILE // wide)), triton.cdiv(self.stride, wide))
        wide = min(SUM_CHANNELS, power)
        columns, high = triton.cdiv(self.channels, wide), SUM_TILE // wide
        programs = min(max(1, PROGRAMS // columns), triton.cdiv(self.rows, high))
        self.per_program = triton.cdiv(triton.cdiv(self.rows, programs), high) * high
        self.sum_grid = (triton.cdiv(self.rows, self.per_program), columns)
        self.sum_blocks = {"C": self.channels, "BM": high, "BC": wide, "P": PROGRAMS, **LAUNCH}

    def partial(self) -> Tensor:
        """Room for two sums per program and channel."""
        return torch.empty(self.sum_grid[0] * 2 * self.channels, device=self._x.device, dtype=torch.float32)

    def arrivals(self, norm: nn.Module) -> Tensor:
        """This layer's counters: zero between kernels, because the last program to arrive sets them back."""
        counters = _ARRIVALS.get(norm)
        if counters is None or counters.device != self._x.device:
            counters = torch.zeros(self.sum_grid[1], device=self._x.device, dtype=torch.int32)
            _ARRIVALS[norm] = counters
        return counters


# One set of counters per layer: models on different streams must not share them.
_ARRIVALS: WeakKeyDictionary[nn.Module, Tensor] = WeakKeyDictionary()


def norm_act(norm: nn.BatchNorm2d, x: Tensor, residual: Tensor | None, relu: bool) -> tuple[Tensor, Tensor]:
    """``relu(norm(x) + residual)`` in training mode, twice; updates the running statistics."""
    x = x.contiguous(memory_format=torch.channels_last)
    if residual is not None:
        residual = residual.contiguous(memory_format=torch.channels_last)
    if norm.num_batches_tracked is not None and not torch.cuda.is_current_stream_capturing():
        norm.num_batches_tracked.add_(1)  # in a graph it would be a kernel a step, for a number that nothing reads
    out: tuple[Tensor, Tensor] = _NormAct.apply(x, residual, norm.weight, norm.bias, norm, relu)  # type: ignore[no-untyped-call]
    return out
