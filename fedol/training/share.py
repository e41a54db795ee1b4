"""How much of each batch this process trains: all of it, or its part in a team of processes (``torchrun``).

Both give the same step: the mean loss over the whole batch, and batch norm over the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel


class Whole:
    """One process, whole batches."""

    def around(self, model: nn.Module) -> AbstractContextManager[nn.Module]:
        """What to call in the model's place while it trains."""
        return nullcontext(model)

    def part(self, size: int) -> slice:
        """The samples of a batch that are this process's."""
        return slice(None)

    def weighed(self, mean: Tensor, count: int, size: int) -> Tensor:
        """The mean loss of ``count`` samples in a batch of ``size``, so that the processes' average is the batch's."""
        return mean

    def total(self, loss: Tensor) -> Tensor:
        """A sum of losses, over all processes."""
        return loss


@dataclass(frozen=True)
class Part(Whole):
    """One of several processes that train one model on parts of the same batches."""

    rank: int
    world: int

    @contextmanager
    def around(self, model: nn.Module) -> Iterator[nn.Module]:
        """The model under DistributedDataParallel, its batch norms over all processes."""
        norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
        for norm in norms:
            vars(norm)["forward"] = _OverAll(norm)
        try:
            net = DistributedDataParallel(model)
            # Buffers are equal everywhere by themselves: every process computes the statistics of the whole batch.
            net.broadcast_buffers = False  # set here, because the argument's name depends on PyTorch's version
            yield net
        finally:
            for norm in norms:
                del vars(norm)["forward"]

    def part(self, size: int) -> slice:
        """Consecutive samples, the first processes one more where it does not come out even."""
        each, left = divmod(size, self.world)
        begin = self.rank * each + min(self.rank, left)
        return slice(begin, begin + each + (self.rank < left))

    def weighed(self, mean: Tensor, count: int, size: int) -> Tensor:
        """DistributedDataParallel divides by the number of processes, so multiply by it here."""
        if not count:  # the mean of nothing is no number, but this process must take part in the step
            mean = mean.nan_to_num()
        return mean * (count * self.world / size)

    def total(self, loss: Tensor) -> Tensor:
        """Summed, and without the factor of ``weighed``."""
        dist.all_reduce(loss)
        return loss / self.world


class _OverAll:
    """Batch norm with the mean and variance of the whole batch. PyTorch's SyncBatchNorm does that on CUDA only."""

    def __init__(self, norm: Any) -> None:
        self._norm = norm

    def __call__(self, x: Tensor) -> Tensor:
        norm = self._norm
        if not norm.training:
            return type(norm).forward(norm, x)  # type: ignore[no-any-return]
        others = [axis for axis in range(x.dim()) if axis != 1]
        shape = [-1 if axis == 1 else 1 for axis in range(x.dim())]
        count = torch.tensor(float(x.numel() // x.shape[1]), device=x.device)
        dist.all_reduce(count)
        mean: Tensor = _Sum.apply(x.sum(others)) / count  # type: ignore[no-untyped-call]
        centred = x - mean.view(shape)
        # A second sum instead of E[x²] - E[x]²: the difference of two large numbers would cost digits.
        variance: Tensor = _Sum.apply(centred.square().sum(others)) / count  # type: ignore[no-untyped-call]
        if norm.track_running_stats:
            _remember(norm, mean.detach(), variance.detach() * count / (count - 1))
        out = centred * torch.rsqrt(variance + norm.eps).view(shape)
        return out * norm.weight.view(shape) + norm.bias.view(shape) if norm.affine else out


@torch.no_grad()
def _remember(norm: Any, mean: Tensor, variance: Tensor) -> None:
    """The running statistics, as PyTorch's own batch norm keeps them."""
    norm.num_batches_tracked += 1
    weight = 1 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    norm.running_mean.lerp_(mean, weight)
    norm.running_var.lerp_(variance, weight)


class _Sum(torch.autograd.Function):
    """The sum over all processes. What each of them makes of it counts, so gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Sum."""
        total = x.contiguous().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Sum."""
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total
