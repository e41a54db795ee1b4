"""The Triton kernels of ``fedol.models.fused``: batch norm, residual sum and ReLU on channels-last tensors.

A tensor is seen as [rows, C]. Kernels that sum split the rows over programs; the last program to finish gathers the
partial sums in a fixed order. Elementwise kernels see rows of ``stride`` elements, several rows of C where C is small.
Each waits itself for the kernel before it, so that it can be set up while that one runs (from Hopper on). Flags are
arguments, not constants: every combination of constants would be another kernel to compile before the first step.
They mask loads instead of branching around them, so that all loads are under way at once. ``Shape`` says how a tensor
is cut into programs.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

DEPENDENT = tl.constexpr(torch.cuda.get_device_capability() >= (9, 0))  # older cards do not know these instructions


@triton.jit
def _wait_for_the_one_before():  # type: ignore[no-untyped-def]
    """Its results are there after this, and the kernel after this one may be set up."""
    if DEPENDENT:
        gdc_wait()
        gdc_launch_dependents()


@triton.jit
def _last_one(arrivals, block, programs):  # type: ignore[no-untyped-def]
    """True in the program that arrives last; every partial sum is visible to it then."""
    tl.debug_barrier()
    last = tl.atomic_add(arrivals + block, 1, sem="acq_rel") == programs - 1
    if last:
        tl.store(arrivals + block, 0)
    return last


@triton.jit  # type: ignore[untyped-decorator]
def statistics(  # type: ignore[no-untyped-def]
    x, partial, arrivals, mean, rstd, running_mean, running_var, rows, per_program, eps, momentum,
    C, BM: tl.constexpr, BC: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Mean and 1/std per channel, and the running statistics."""
    _wait_for_the_one_before()
    program, block, programs = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    c = block * BC + tl.arange(0, BC)
    held = c < C
    start = program * per_program
    end = tl.minimum(start + per_program, rows)
    # Sums of differences from the running mean: no cancellation where a channel's mean is far from zero.
    shift = tl.load(running_mean + c, mask=held, other=0.0)
    old_var = tl.load(running_var + c, mask=held, other=0.0)
    first = tl.zeros((BM, BC), tl.float32)
    second = tl.zeros((BM, BC), tl.float32)
    for row in range(start, end, BM):
        r = row + tl.arange(0, BM)
        mask = (r < end)[:, None] & held[None, :]
        value = tl.load(x + r[:, None] * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
        d = tl.where(mask, value - shift[None, :], 0.0)
        first += d
        second += d * d
    count = tl.maximum(end - start, 1).to(tl.float32)
    total = tl.sum(first, 0)
    tl.store(partial + (program * 2) * C + c, shift + total / count, mask=held)
    tl.store(partial + (program * 2 + 1) * C + c, tl.sum(second, 0) - total * total / count, mask=held)
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
        tl.store(running_mean + c, shift + momentum * (m - shift), mask=held)
        tl.store(running_var + c, old_var + momentum * (spread / (rows - 1) - old_var), mask=held)


@triton.jit(do_not_specialize=["add", "relu"])  # type: ignore[untyped-decorator]
def apply(  # type: ignore[no-untyped-def]
    x, residual, y, mean, rstd, weight, bias, elements, stride, add, relu,
    C, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """y = relu((x − mean) · rstd · weight + bias + residual)."""
    _wait_for_the_one_before()
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BC + tl.arange(0, BC)
    held, c = column < stride, column % C
    place = r[:, None] * stride + column[None, :]
    mask = (place < elements) & held[None, :]
    inverse = tl.load(rstd + c, mask=held, other=0.0)
    w = tl.load(weight + c, mask=held, other=0.0)
    b = tl.load(bias + c, mask=held, other=0.0)
    m = tl.load(mean + c, mask=held, other=0.0)
    value = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
    more = tl.load(residual + place, mask=mask & (add > 0), other=0.0).to(tl.float32)
    # Written as in the backward kernels, so that both see the same sign.
    normal = (value - m[None, :]) * inverse[None, :]
    value = normal * w[None, :] + b[None, :] + more
    value = tl.where(relu > 0, tl.maximum(value, 0.0), value)
    tl.store(y + place, value.to(y.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["twin", "residual", "relu"])  # type: ignore[untyped-decorator]
def gradient_sums(  # type: ignore[no-untyped-def]
    dy, dy2, y, x, dz_out, mean, rstd, weight, bias, partial, arrivals, dweight, dbias, rows, per_program,
    twin, residual, relu, C, BM: tl.constexpr, BC: tl.constexpr, P: tl.constexpr, WRITTEN: tl.constexpr,
):  # fmt: skip
    """Gradients of weight and bias: Σ dz·x̂ and Σ dz, dz being dy (+ dy2) where the output is positive.

    With a twin or a residual dz is WRITTEN: the next kernel then has one tensor to read, and it is the residual's
    gradient. This is a constant: without, far fewer registers are needed.
    """
    _wait_for_the_one_before()
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
        positive = normal * w[None, :] + b[None, :] > 0  # without a residual, x alone tells where the output is
        if WRITTEN:
            dz += tl.load(dy2 + place, mask=mask & (twin > 0), other=0.0).to(tl.float32)
            out = tl.load(y + place, mask=mask & (residual > 0), other=0.0).to(tl.float32)
            positive = tl.where(residual > 0, out > 0, positive)
        dz = tl.where(positive | (relu == 0), dz, 0.0)
        if WRITTEN:
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


@triton.jit(do_not_specialize=["relu"])  # type: ignore[untyped-decorator]
def gradient(  # type: ignore[no-untyped-def]
    dz_in, x, mean, rstd, weight, bias, dweight, dbias, dx, elements, stride, rows,
    relu, C, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """dx = weight · rstd · (dz − mean(dz) − x̂ · mean(dz·x̂)); with ``relu``, dz is still to be found from dy and x."""
    _wait_for_the_one_before()
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
    dz = tl.where((normal * w[None, :] + b[None, :] > 0) | (relu == 0), dz, 0.0)
    value = (inverse * w)[None, :] * (dz - plain[None, :] - normal * scaled[None, :])
    tl.store(dx + place, value.to(dx.dtype.element_ty), mask=mask)


# "pdl": a kernel may be set up while the one before it still runs (programmatic dependent launch, from Hopper on); it
# waits for that one's results itself, so that only the launch is hidden.
LAUNCH = {"launch_pdl": bool(DEPENDENT)}


class Cut(NamedTuple):
    """How much a program takes in one turn: elements, how many of them in a row, by how many warps."""

    tile: int
    wide: int
    warps: int


# Measured on an H200 over the shapes of ResNet-56 at widths 16 and 64 (benchmarks/README.md).
ELEMENTWISE = Cut(4096, 128, 4)
SUMS = Cut(4096, 32, 4)
LARGE_SUMS, LARGE = Cut(4096, 64, 8), 1 << 22  # for many tensors of at least so many elements
LARGE_STATISTICS = 1 << 25  # for one tensor
PROGRAMS = 256  # that a sum is split over: about two per multiprocessor
GATHERED = 128  # of them over the rows, at the most: as many partial sums the last one adds up


class Shape:
    """How a channels-last tensor, seen as [rows, C], is cut into programs.

    Every other block size would be another kernel to compile. So the elementwise kernels see a tensor of few channels
    as rows of 128 elements, several of its own rows each, and all sums are gathered over the same number of programs.
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
