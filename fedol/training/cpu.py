"""Training with the plain loop, on the CPU and wherever there is nothing better: small jobs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Event

import torch

from fedol.training.job import ALL_CORES, Fit, Job, OnEpoch, cores
from fedol.training.team import train


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run torch's CPU kernels on ``count`` threads (``ALL_CORES``: all of them) for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(cores() if count == ALL_CORES else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class CpuEngine:
    """Jobs of one thread run side by side, as many as there are cores.

    Alone run a job for all cores, and one whose layers draw random numbers: torch's generator is the whole process's.
    """

    def __init__(self, device: torch.device, on_epoch: OnEpoch) -> None:
        self._device, self._on_epoch = device, on_epoch
        self._stop = Event()
        # One job at a time on a device that is not the CPU: its queue is shared anyway.
        self._pool = ThreadPoolExecutor(cores() if device.type == "cpu" else 1)
        self._alone: list[Job] = []
        self._beside: set[Future[Fit]] = set()

    def __enter__(self) -> CpuEngine:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()  # where the caller was interrupted: the others end at their next batch
        self._pool.shutdown(cancel_futures=True)

    def submit(self, job: Job) -> None:
        """Take a job."""
        if job.threads == 1 and not job.random_layers:
            self._beside.add(self._pool.submit(self._train, job))
        else:
            self._alone.append(job)

    def next(self) -> Fit:
        """The next outcome, in the order in which jobs end."""
        if self._beside:
            done = wait(self._beside, return_when=FIRST_COMPLETED).done.pop()
            self._beside.discard(done)
            return done.result()
        return self._train(self._alone.pop(0))

    def _train(self, job: Job) -> Fit:
        with threads(job.threads):
            return train(job, self._device, self._on_epoch, self._stop)
