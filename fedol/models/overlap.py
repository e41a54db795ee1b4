"""Weight gradients beside the backward pass, on CUDA.

Backward through a convolution gives the gradient of its input, which the layer before waits for, and of its weights,
which nobody needs before the optimiser. On a card that one small model cannot fill, the second costs almost nothing
when it runs on a stream of its own; captured in a graph, it becomes a parallel branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

_SIDE: list[torch.cuda.Stream] = []


@contextmanager
def weight_gradients_on(side: torch.cuda.Stream) -> Iterator[None]:
    """Convolutions called within compute their weight gradients on ``side``; wait for it before using them."""
    side.wait_stream(torch.cuda.current_stream())  # so that there is something to wait for in a net without any
    _SIDE.append(side)
    try:
        yield
    finally:
        _SIDE.pop()


class _Conv(torch.autograd.Function):
    """A convolution whose weight gradient runs on another stream, beside the gradients that others wait for."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.bfloat16)  # type: ignore[untyped-decorator]
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: tuple[int, int], padding: tuple[int, int]) -> Tensor:
        """As usual."""
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding, ctx.side = stride, padding, _SIDE[-1]
        return torch.conv2d(x, weight, None, stride, padding)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The weight's gradient is not needed before Adam: it leaves the chain."""
        x, weight = ctx.saved_tensors
        dy = gradients[0].contiguous(memory_format=torch.channels_last)

        def gradient(*wanted: bool) -> Any:
            return torch.ops.aten.convolution_backward(
                dy, x, weight, None, ctx.stride, ctx.padding, (1, 1), False, (0, 0), 1, wanted
            )

        ctx.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(ctx.side):
            dweight = gradient(False, True, False)[1]
        for tensor in (dy, x):  # the allocator must not hand their memory on before the other stream has read it
            tensor.record_stream(ctx.side)
        dx = gradient(True, False, False)[0] if ctx.needs_input_grad[0] else None
        return dx, dweight, None, None


def conv(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """The layer's convolution; its weight gradient on the side where there is one."""
    out: Tensor = (
        _Conv.apply(x, layer.weight, layer.stride, layer.padding)  # type: ignore[no-untyped-call]
        if _SIDE and x.is_cuda
        else layer(x)
    )
    return out
