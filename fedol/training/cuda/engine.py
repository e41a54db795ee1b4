"""Training on a CUDA GPU: every model is a CUDA graph on a stream of its own, and many train at once.

A batch of 64 small images keeps a large GPU busy for microseconds, less than it takes Python to launch one kernel. So a
whole training step is captured once as a graph and replayed; and because even then one small model cannot fill the
card, the steps of all jobs are launched in turn, each job on its own stream. Nothing in an epoch waits for the GPU: the
order of the samples lies on the device, a counter there says which batch is next, and the loss is summed there too.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from threading import Event
from typing import TypeVar

import torch

from fedol.data.samples import Batches, Preprocessing, Samples
from fedol.training.cuda.session import PATH, Session
from fedol.training.cuda.step import NotCapturable
from fedol.training.job import Fit, Job, OnEpoch
from fedol.training.loop import PATH as PLAIN
from fedol.training.team import teamed, train

T = TypeVar("T")

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
            self._inputs[key] = job.inputs, job.inputs.on(self._device, job.prepare)
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
