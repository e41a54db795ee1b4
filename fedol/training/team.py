"""``torchrun -m fedol ...``: the first process runs the command; the others wait, and train its large jobs with it.

So only one process reads, collects, votes and writes, whatever the command; a job travels to the others as a whole, and
a checkpoint of a team is an ordinary one. Jobs that are small (``alone`` is not set) stay with the first process.

Each process trains its part of every batch, and the step is that of one process: the mean loss over the whole batch,
and batch norm over the whole batch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from fedol.code import MODULE, from_file
from fedol.models.fitted import fitted_in
from fedol.training import loop, onestep
from fedol.training.job import Fit, Job, OnEpoch

PATIENCE = timedelta(days=30)  # that the others wait for work: a server may collect for days before it trains

_TEAM: list[Team] = []


class Team:
    """The processes that torchrun started."""

    def __init__(self) -> None:
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)
        self.share = Part(dist.get_rank(), dist.get_world_size())
        self._orders = dist.new_group(backend="gloo", timeout=PATIENCE)

    def train(self, job: Job, device: torch.device, on_epoch: OnEpoch, stop: Event) -> Fit:
        """In the first process: train a job with everyone."""
        job.model.cpu()
        sources = [str(m.__file__) for name, m in list(sys.modules.items()) if name.startswith(MODULE)]
        self._tell([device.type, *sources])
        self._tell(replace(job, checkpoint=None))
        return loop.train(job, device, on_epoch, stop, self.share)

    def follow(self) -> None:
        """In every other process: train what the first one sends, until it has no more."""
        while order := self._hear():
            kind, *sources = order
            for source in sources:  # a model from a file: its class must be known before the job can be read
                from_file(Path(source))
            job = self._hear()
            device = torch.device(kind, int(os.environ["LOCAL_RANK"])) if kind == "cuda" else torch.device(kind)
            if kind == "cuda":
                torch.cuda.set_device(device)  # where streams and kernels go that name no device
            loop.train(job, device, lambda epoch: None, Event(), self.share)

    def dismiss(self) -> None:
        """Tell the others that there is no more."""
        self._tell(None)

    def _tell(self, order: object) -> None:
        dist.broadcast_object_list([order], src=0, group=self._orders)

    def _hear(self) -> Any:
        order: list[Any] = [None]
        dist.broadcast_object_list(order, src=0, group=self._orders)
        return order[0]


def train(job: Job, device: torch.device, on_epoch: OnEpoch, stop: Event) -> Fit:
    """Train a job in this process, or a large one with the team, where there is one; an estimator here in any case."""
    if (estimator := fitted_in(job.model)) is not None:
        return onestep.train(job, estimator, on_epoch)
    if teamed(job):
        return _TEAM[0].train(job, device, on_epoch, stop)
    return loop.train(job, device, on_epoch, stop)


def teamed(job: Job) -> bool:
    """Whether several processes train this job."""
    return bool(_TEAM) and job.alone and fitted_in(job.model) is None


@contextmanager
def together() -> Iterator[bool]:
    """Join the team; yields whether this process is the first one. The others return only when it has ended."""
    team = Team()
    try:
        if team.share.rank:
            team.follow()
            yield False
        else:
            _TEAM.append(team)
            yield True
    finally:
        if _TEAM:
            _TEAM.clear()
            team.dismiss()
        dist.destroy_process_group()


@dataclass(frozen=True)
class Part(loop.Whole):
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
        if not count:  # the mean of nothing is not a number, but this process must take part in the step
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
