"""One model in training on a CUDA GPU: its stream, its captured step, and the epochs that are queued."""

from __future__ import annotations

import math
import time

import torch

from fedol.data.samples import Batches
from fedol.training.cuda.step import Step
from fedol.training.job import Epoch, Fit, Job
from fedol.training.loop import diverged

PATH = "CUDA graph, bf16"
AHEAD = 2  # epochs queued on the GPU beyond the one it is working on: enough that it never waits for the host
URGENT = -1  # the chain of a step goes before weight gradients, for which nobody waits


class Session:
    """A model, the graph of its step, and its jobs, one after the other."""

    def __init__(self, job: Job, batches: Batches, device: torch.device) -> None:
        self._device = device
        self._inputs = job.inputs
        self._shape = (job.targets.shape, job.targets.dtype, job.recipe)
        self._stream = torch.cuda.Stream(device, priority=URGENT)  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self._stream):
            self._step = Step(job, batches, device)
        size = job.recipe.batch_size
        tables = job.tables(1)
        self._host_tables = [
            {name: torch.empty_like(table, pin_memory=True) for name, table in tables.items()} for _ in range(AHEAD + 1)
        ]
        self._host_losses = torch.empty(AHEAD + 1).pin_memory()
        self._events = [torch.cuda.Event() for _ in range(AHEAD + 1)]  # type: ignore[no-untyped-call]
        self._steps = [size] * (job.samples // size) + ([job.samples % size] if job.samples % size else [])

    def fits(self, job: Job) -> bool:
        """Whether the captured step can train this job: same model and samples, other targets."""
        same = self._shape == (job.targets.shape, job.targets.dtype, job.recipe)
        return same and self._inputs is job.inputs and self._step.holds(job.model)

    def begin(self, job: Job) -> None:
        """Start a job: new targets, a fresh optimiser. Everything is written on this session's own stream."""
        self.job, self._losses, self._error = job, list(job.resume.losses if job.resume else ()), ""
        self._launched = self._finished = len(self._losses)  # epochs
        self._resumed, self._position = self._finished, 0  # epochs before this start, steps of the epoch under way
        # An epoch whose state is kept must end before the next one changes it.
        self._ahead = 1 if job.checkpoint else AHEAD
        self._started = time.perf_counter()
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            self._step.reset(job)

    @property
    def done(self) -> bool:
        """All epochs are finished, or it failed."""
        return bool(self._error) or self._finished == self.job.recipe.epochs

    def fail(self, error: str) -> None:
        """End it with an error."""
        self._error = error

    def launch(self, capture: bool) -> bool:
        """Queue one training step, unless enough is queued; whether it did. Only with ``capture`` one of a new size."""
        if self._launched == self.job.recipe.epochs or self._launched - self._finished >= self._ahead:
            return False
        size = self._steps[self._position]
        if not capture and not self._step.captured(size):
            return False
        slot = self._launched % (AHEAD + 1)
        with torch.cuda.stream(self._stream):
            if self._position == 0:
                for name, table in self.job.tables(self._launched + 1).items():
                    self._host_tables[slot][name].copy_(table)
                self._step.new_epoch(self._host_tables[slot])
            if not self._step.captured(size):
                self._step.capture(size)
            self._step.replay(size)
            self._position += 1
            if self._position == len(self._steps):
                self._host_losses[slot : slot + 1].copy_(self._step.loss, non_blocking=True)
                self._events[slot].record(self._stream)
                self._launched, self._position = self._launched + 1, 0
        return True

    def finished_epochs(self) -> list[Epoch]:
        """Epochs that the GPU has finished since the last look."""
        news = []
        while not self.done and self._finished < self._launched:
            slot = self._finished % (AHEAD + 1)
            if not self._events[slot].query():  # type: ignore[no-untyped-call]
                break
            self._finished += 1
            loss = self._host_losses[slot].item() / self.job.samples
            self._losses.append(loss)
            if not math.isfinite(loss):
                self._error = diverged(self.job, self._finished, loss)
            else:
                if self.job.checkpoint:
                    self._count_batches()
                    self.job.checkpoint(self._step.snapshot(self._losses))
                news.append(Epoch(self.job, self._finished, loss, self.job.samples))
        return news

    def _count_batches(self) -> None:
        self._step.count_batches((self._finished - self._resumed) * len(self._steps))

    def outcome(self) -> Fit:
        """What became of the job; its weights are complete."""
        if not self._error:
            with torch.cuda.stream(self._stream):
                self._step.finish()
        self._stream.synchronize()
        self._count_batches()
        return Fit(self.job, tuple(self._losses), time.perf_counter() - self._started, PATH, self._error or None)
