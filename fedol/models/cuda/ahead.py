"""Compiles the fused kernels in the background while the rest of CUDA starts: in a fresh process both take seconds.

What is compiled here is a guess (bf16, whole multiples of 16 everywhere) that fits our networks. A kernel of another
kind is compiled when it is first called, as always with Triton; so a wrong guess costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch
import triton

from fedol.models.cuda import kernels
from fedol.models.cuda.tiles import LARGE_SUMS, SUMS, Shape

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
