"""``torchrun -m fedol ...``: the first process runs the command; the others wait, and train its large jobs with it.

So only one process reads, collects, votes and writes, whatever the command; a job travels to the others as a whole, and
a checkpoint of a team is an ordinary one. Jobs that are small (``alone`` is not set) stay with the first process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import torch
import torch.distributed as dist

from fedol.code import MODULE, from_file
from fedol.training import loop
from fedol.training.job import Fit, Job, OnEpoch
from fedol.training.share import Part

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
    """Train a job in this process, or a large one with the team, where there is one."""
    if _TEAM and job.alone:
        return _TEAM[0].train(job, device, on_epoch, stop)
    return loop.train(job, device, on_epoch, stop)


def teamed(job: Job) -> bool:
    """Whether several processes train this job."""
    return bool(_TEAM) and job.alone


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
