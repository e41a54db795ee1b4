"""Training on a CUDA GPU: every model is a CUDA graph on a stream of its own, and many train at once.

A batch of 64 small images keeps a large GPU busy for microseconds, less than it takes Python to launch one kernel. So a
whole training step is captured once as a graph and replayed (``graph``); and because even then one small model cannot
fill the card, the steps of all jobs are launched in turn, each job on its own stream. Nothing in an epoch waits for the
GPU: the order of the samples lies on the device, a counter there says which batch is next, and the loss is summed there
too.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from threading import Event
from typing import TypeVar

import torch

from fedol.data.samples import Batches, Preprocessing, Samples
from fedol.models.fitted import fitted_in
from fedol.models.pretrained import bodies
from fedol.training.graph import NotCapturable, Step
from fedol.training.job import Epoch, Fit, Job, OnEpoch
from fedol.training.loop import PATH as PLAIN
from fedol.training.loop import diverged
from fedol.training.team import teamed, train

T = TypeVar("T")

PATH = "CUDA graph, bf16"
AHEAD = 2  # epochs queued on the GPU beyond the one it is working on: enough that it never waits for the host
URGENT = -1  # the chain of a step goes before weight gradients, for which nobody waits
TOGETHER = 24  # models in training at once: more only take memory
PATIENCE = 5e-5  # seconds between two looks when every stream has work queued


class CudaEngine:
    """Trains jobs on one GPU, all at once."""

    def __init__(self, device: torch.device, on_epoch: OnEpoch) -> None:
        self._device, self._on_epoch = device, on_epoch
        self._waiting: list[Job] = []
        self._running: list[Session] = []
        self._plain: list[tuple[Job, str]] = []  # jobs that no graph can hold, and why
        # Samples that several jobs share are on the device once.
        self._inputs: dict[tuple[int, Preprocessing], tuple[Samples, Batches]] = {}
        self._sessions: dict[int, Session] = {}  # a model's next job reuses its graph
        self._most = TOGETHER  # at once; fewer where the memory of the card does not suffice

    def __enter__(self) -> CudaEngine:
        return self

    def __exit__(self, *error: object) -> None:
        torch.cuda.synchronize(self._device)

    def submit(self, job: Job) -> None:
        """Take a job."""
        self._waiting.append(job)

    def _longest(self) -> int:
        """Position of the waiting job with the most to do: begun last, it would train on alone in the end."""
        # A layer is a few kernels whatever its size, so that their number tells how long a step takes.
        work = [job.samples * job.recipe.epochs * len(list(job.model.parameters())) for job in self._waiting]
        return work.index(max(work))

    def _start(self, job: Job) -> None:
        """Capture a job's step and begin, or remember that it needs the plain loop."""
        if teamed(job):
            self._plain.append((job, "several processes train it"))
            return
        if fitted_in(job.model):
            self._plain.append((job, "an estimator learns on the CPU"))
            return
        if bodies(job.model):
            self._plain.append((job, "its body has a learning rate of its own"))
            return
        if job.inputs.on_disk:
            self._plain.append((job, "its samples are read from files"))
            return
        self._drop_idle(job)
        session = self._sessions.pop(id(job.model), None)
        if session is None or not session.fits(job):
            session = None  # what it holds is free for the next one
            try:
                session = self._with_room(lambda: Session(job, self._batches(job), self._device))
            except NotCapturable as reason:
                # The model's name, not the job's: said once, not by each of its jobs.
                model = type(job.model).__name__
                warnings.warn(f"{model} trains in the plain loop, not as a CUDA graph: {reason}.", stacklevel=2)
                self._plain.append((job, str(reason)))
                return
        self._sessions[id(job.model)] = session
        session.begin(job)
        self._running.append(session)

    def _drop_idle(self, starting: Job) -> None:
        """Keep a graph only while its model trains or waits: an ensemble of many models would fill the card."""
        jobs = starting, *self._waiting, *(session.job for session in self._running)
        wanted = {id(job.model) for job in jobs}
        self._sessions = {key: session for key, session in self._sessions.items() if key in wanted}

    def _with_room(self, call: Callable[[], T]) -> T:
        """A call that needs memory; where it does not suffice once more, without what is kept for later."""
        try:
            return call()
        except torch.OutOfMemoryError:
            pass  # leave the handler: its traceback holds tensors
        # The graphs of models that wait too: enough of them would leave no room for any model at all.
        self._sessions = {key: session for key, session in self._sessions.items() if session in self._running}
        torch.cuda.empty_cache()
        return call()

    def _batches(self, job: Job) -> Batches:
        key = id(job.inputs), job.prepare
        if key not in self._inputs:  # the samples are kept too: while they live, their id is their own
            self._inputs[key] = job.inputs, job.prepare.batches(job.inputs, self._device)
        return self._inputs[key][1]

    def next(self) -> Fit:
        """The next outcome. Launches one step of every job in turn until one has ended."""
        while self._running or self._waiting:
            if starting := bool(self._waiting) and len(self._running) < self._most:
                job = self._waiting.pop(self._longest())
                try:
                    self._start(job)
                except torch.OutOfMemoryError:
                    if not self._running:
                        self._most = TOGETHER  # it was this job that found no room; the others may
                        return Fit(job, (), 0.0, PATH, too_large(job))
                    self._most = len(self._running)  # it has to wait until one of them has ended
                    self._waiting.append(job)
            idle = True
            for session in list(self._running):
                for epoch in session.finished_epochs():
                    self._on_epoch(epoch)
                if session.done:
                    self._running.remove(session)
                    return session.outcome()
                while self._launch(session, capture=not starting):
                    idle = False
                    if not starting:  # else give the GPU all it can take, to work on while the next one is captured
                        break
            if idle and not starting:
                time.sleep(PATIENCE)
        return self._train_plainly(*self._plain.pop(0))

    def _train_plainly(self, job: Job, reason: str) -> Fit:
        """A job that no graph can hold, when no other is left."""
        self._sessions.clear()  # room for it: no model with a graph has anything to do
        try:
            with torch.cuda.device(self._device):  # where Triton launches, which does not look at its tensors
                result = train(job, self._device, self._on_epoch, Event())
        except torch.OutOfMemoryError:
            if teamed(job):
                raise  # the other processes are in the middle of a step: only the end of this one ends theirs
            return Fit(job, (), 0.0, f"{PLAIN}: {reason}", too_large(job))
        return Fit(job, result.losses, result.seconds, f"{result.path}: {reason}", result.error)

    def _launch(self, session: Session, capture: bool) -> bool:
        """Queue one training step; where there is no memory to capture it, this one model stops."""
        try:
            return self._with_room(lambda: session.launch(capture))
        except torch.OutOfMemoryError:
            session.fail(too_large(session.job))
            return False


def too_large(job: Job) -> str:
    """The error for a model that does not fit."""
    return f"{job.name} needs more memory than the GPU has free; try a smaller batch size or width."


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
        size, self._step.scale = self._steps[self._position], self.job.scale(self._launched + 1)
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
