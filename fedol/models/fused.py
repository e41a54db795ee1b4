"""Batch norm, residual sum and ReLU in two passes over memory instead of six, for CUDA (Triton).

Training a small residual network is bound by memory traffic and kernel launches, and normalisation is the largest
part of both: PyTorch runs a norm, an addition and a ReLU forward and three kernels backward, plus a counter. Here it is
two kernels forward (statistics; apply) and two backward (sums; gradient), float32 inside whatever the input's type.
Sums are gathered in a fixed order by the last program to finish, so the same input always gives the same bits.

A block's output goes two ways, into the next block's body and past it. Each way gets a tensor of its own (the output
and its ``twin``), so that the two gradients come back apart and are added here, not in a pass of autograd's own.

Kernels are compiled in the background while the rest of CUDA starts: in a fresh process both take seconds. What is
compiled so is a guess (bf16, whole multiples of 16 everywhere) that fits our networks. A kernel of another kind is
compiled when it is first called, as always with Triton; so a wrong guess costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any
from weakref import WeakKeyDictionary

import torch
import triton
from torch import Tensor, nn

from fedol.models import kernels
from fedol.models.kernels import LARGE, LARGE_STATISTICS, LARGE_SUMS, SUMS, Shape
from fedol.models.nets import ConvNorm


class _NormAct(torch.autograd.Function):
    """relu(batch_norm(x) + residual) on channels-last tensors, and its twin."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, norm: nn.BatchNorm2d, relu: bool
    ) -> tuple[Tensor, Tensor]:
        """Batch statistics, then one pass over x."""
        ctx.set_materialize_grads(False)  # a twin that nobody used has no gradient
        shape = Shape(x, LARGE_SUMS if x.numel() >= LARGE_STATISTICS else SUMS)
        y = torch.empty_like(x)
        mean, rstd = torch.empty_like(weight), torch.empty_like(weight)
        kernels.statistics[shape.sum_grid](
            x, shape.partial(), arrivals(norm), mean, rstd, norm.running_mean, norm.running_var,
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
            ways[0], ways[-1], y, x, dz, mean, rstd, weight, bias, shape.partial(), arrivals(ctx.norm),
            dweight, dbias, shape.rows, shape.per_program, twin, int(ctx.residual), int(ctx.relu), **shape.sum_blocks,
            WRITTEN=written,
        )  # fmt: skip
        kernels.gradient[shape.grid](
            dz, x, mean, rstd, weight, bias, dweight, dbias, dx, shape.elements, shape.stride, shape.rows,
            int(ctx.relu and not written), **shape.blocks,
        )  # fmt: skip
        return dx, dz if ctx.residual else None, dweight, dbias, None, None


# One set of counters per layer: models on different streams must not share them.
_ARRIVALS: WeakKeyDictionary[nn.Module, Tensor] = WeakKeyDictionary()


def arrivals(norm: nn.BatchNorm2d) -> Tensor:
    """A layer's counters; a sum uses one per block of channels. Zero between kernels: the last program clears them."""
    counters = _ARRIVALS.get(norm)
    if counters is None or counters.device != norm.weight.device:
        counters = torch.zeros(norm.num_features, device=norm.weight.device, dtype=torch.int32)
        _ARRIVALS[norm] = counters
    return counters


def prepare(model: nn.Module) -> None:
    """Make the counters now: made during a capture, they would be filled by every replay. And begin to compile."""
    norms = [module.norm for module in model.modules() if isinstance(module, ConvNorm)]
    ours = [norm for norm in norms if isinstance(norm, nn.BatchNorm2d)]
    for norm in ours:
        arrivals(norm)
    begin_to_compile({norm.num_features for norm in ours})


def norm_act(norm: nn.BatchNorm2d, x: Tensor, residual: Tensor | None, relu: bool) -> tuple[Tensor, Tensor]:
    """``relu(norm(x) + residual)`` in training mode, twice; updates the running statistics."""
    compiled()
    x = x.contiguous(memory_format=torch.channels_last)
    if residual is not None:
        residual = residual.contiguous(memory_format=torch.channels_last)
    if norm.num_batches_tracked is not None and not torch.cuda.is_current_stream_capturing():
        norm.num_batches_tracked.add_(1)  # in a graph it would be a kernel a step, for a number that nothing reads
    out: tuple[Tensor, Tensor] = _NormAct.apply(x, residual, norm.weight, norm.bias, norm, relu)  # type: ignore[no-untyped-call]
    return out


IMAGES, FLOATS, COUNTS = torch.bfloat16, torch.float32, torch.int32
_BEGUN: set[tuple[int, int]] = set()  # cards, and widths of the sums' blocks
_UNDER_WAY: list[Future[None]] = []


def begin_to_compile(channels: Iterable[int]) -> None:
    """Start on the present card's kernels for so many channels, unless that has been done; does not wait."""
    card = torch.cuda.current_device()
    width = {count: (card, min(SUMS.wide, triton.next_power_of_2(count))) for count in channels}
    new = {kind: count for count, kind in width.items() if kind not in _BEGUN}
    if not new:
        return
    _BEGUN.update(new)
    shapes = [Shape(torch.empty(64, count, 8, 8, device="meta"), SUMS) for count in new.values()]
    # A thread per kernel: two that compile the same one would not know of each other.
    with_all: list[Callable[[list[Shape]], None]] = [_statistics, _gradient_sums, _elementwise]
    # A new thread's card is the first one, and a kernel is loaded where it is compiled.
    pool = ThreadPoolExecutor(len(with_all), initializer=torch.cuda.set_device, initargs=(card,))
    _UNDER_WAY.extend(pool.submit(work, shapes) for work in with_all)
    pool.shutdown(wait=False)


def compiled() -> None:
    """Wait for what has been begun. What failed fails again, with its reason, where it is really called."""
    if _UNDER_WAY:
        wait(_UNDER_WAY)
        _UNDER_WAY.clear()


def _load(kernel: Any, *arguments: Any, **blocks: Any) -> None:
    """Compile a kernel for arguments of these types, its launcher too, and load both."""
    kernel.warmup(*arguments, grid=(1,), **blocks).run  # noqa: B018  (the attribute is made when it is asked for)


def _statistics(shapes: list[Shape]) -> None:
    for shape in shapes:
        _load(
            kernels.statistics, IMAGES, FLOATS, COUNTS, *[FLOATS] * 4, shape.rows, shape.per_program, 1e-5, 0.1,
            **shape.sum_blocks,
        )  # fmt: skip


def _gradient_sums(shapes: list[Shape]) -> None:
    large = Shape(torch.empty(64, LARGE_SUMS.wide, 8, 8, device="meta"), LARGE_SUMS)
    for shape, written in [(large, True), *((shape, written) for shape in shapes for written in (True, False))]:
        _load(
            kernels.gradient_sums, *[IMAGES] * 5, *[FLOATS] * 5, COUNTS, *[FLOATS] * 2, shape.rows, shape.per_program,
            1, 1, 1, **shape.sum_blocks, WRITTEN=written,
        )  # fmt: skip


def _elementwise(shapes: list[Shape]) -> None:
    for shape in shapes:
        sizes = shape.elements, shape.stride
        _load(kernels.apply, *[IMAGES] * 3, *[FLOATS] * 4, *sizes, 1, 1, **shape.blocks)
        _load(kernels.gradient, *[IMAGES] * 2, *[FLOATS] * 6, IMAGES, *sizes, shape.rows, 1, **shape.blocks)
