"""Fit models to (samples, targets), one or many at once, and predict with them.

The only training loop in the system, but for that of ``fedol.privacy.training``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from fedol.data.samples import Preprocessing, Samples, slices
from fedol.errors import FedolError, InputError
from fedol.training.cpu import CpuEngine, threads
from fedol.training.cuda import CudaEngine
from fedol.training.job import Epoch, Fit, Job, OnEpoch, Recipe
from fedol.training.snapshot import Snapshot

T = TypeVar("T")
AT_ONCE = 1 << 21  # places (``Samples.places``) that are predicted together: 512 images of 64 x 64

__all__ = [
    "Epoch",
    "Fit",
    "Job",
    "OnEpoch",
    "Process",
    "Recipe",
    "Snapshot",
    "drive",
    "fit",
    "predict",
    "resolve_device",
]


def resolve_device(name: str) -> torch.device:
    """``auto`` is a CUDA GPU, an Apple GPU or the CPU, in this order; a device that is not there is an error."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    counts = {"cuda": gpus, "mps": int(torch.backends.mps.is_available()), "cpu": 1}
    if name == "auto":
        return torch.device(next(kind for kind, count in counts.items() if count))
    kind, colon, number = name.partition(":")
    if kind not in counts:
        raise InputError(f"There is no device '{name}'; use auto, cpu, cuda or mps.")
    here = [str(place) for place in range(counts[kind])]
    if not here or (colon and number not in here):
        raise InputError(f"The device '{name}' is not available on this machine; use --device auto or cpu.")
    return torch.device(name)


Process = Generator[Job, Fit, T]
"""Work that needs models trained in between: yields a job, is sent its fit, returns a result."""


def fit(jobs: Sequence[Job], device: torch.device, on_epoch: OnEpoch = lambda epoch: None) -> Iterator[Fit]:
    """Train every job's model in place and yield each outcome as soon as it is there; one failing stops no other.

    A job's result depends on the job alone, not on what trains beside it.
    """
    with engine(device, on_epoch) as trainer:
        for job in jobs:
            trainer.submit(job)
        for _ in jobs:
            yield trainer.next()


def drive(
    processes: Sequence[Process[T]], device: torch.device, on_epoch: OnEpoch = lambda epoch: None
) -> Iterator[tuple[int, T]]:
    """Run processes side by side and yield (position, result) of each as it ends; the first error ends them all."""
    with engine(device, on_epoch) as trainer:
        waiting: dict[int, int] = {}  # id of the job under way -> position of its process

        def advance(position: int, outcome: Fit | None) -> T | None:
            try:
                job = processes[position].send(outcome) if outcome else next(processes[position])
            except StopIteration as end:
                return cast(T, end.value)
            waiting[id(job)] = position
            trainer.submit(job)
            return None

        for position in range(len(processes)):
            if (result := advance(position, None)) is not None:
                yield position, result
        while waiting:
            done = trainer.next()
            position = waiting.pop(id(done.job))
            if (result := advance(position, done)) is not None:
                yield position, result


def engine(device: torch.device, on_epoch: OnEpoch) -> CpuEngine | CudaEngine:
    """What trains on this device."""
    return CudaEngine(device, on_epoch) if device.type == "cuda" else CpuEngine(device, on_epoch)


def predict(
    model: nn.Module, inputs: Samples, prepare: Preprocessing, device: torch.device, batch: int | None = None
) -> Tensor:
    """Log-probabilities, float32 [N, classes] on the CPU; in evaluation mode, un-augmented.

    Of a model of findings a row for each question, [N · findings, 2] (``fedol.data.findings``).
    """
    # A GPU waits for the host at smaller ones; large samples are fewer at once, as their activations take memory.
    batch = batch or max(8, min(1024 if device.type == "cuda" else 512, AT_ONCE // inputs.places))
    was_training = model.training
    model.to(device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    try:
        return _predict(model, inputs, prepare, device, batch)
    finally:
        model.train(was_training)


@torch.no_grad()
def _predict(model: nn.Module, inputs: Samples, prepare: Preprocessing, device: torch.device, batch: int) -> Tensor:
    parts = max(1, -(-len(inputs) // batch))  # of equal size: every other size is another kernel to look for
    try:
        with threads(1):
            log_probs = [
                torch.log_softmax(model(_channels_last(values)).float(), -1)
                for values in prepare.stream(inputs, slices(len(inputs), parts), device)
            ]
        return torch.cat([part.flatten(0, -2) for part in log_probs]).cpu()
    except torch.OutOfMemoryError:  # models in training have left too little
        if batch == 1:
            message = "The GPU has not even the memory free to predict one sample; free some, or use --device cpu."
            raise FedolError(message) from None
    torch.cuda.empty_cache()
    return _predict(model, inputs, prepare, device, batch // 2)


def _channels_last(batch: Tensor) -> Tensor:
    """What has height and width, laid out as convolutions like it."""
    return batch.contiguous(memory_format=torch.channels_last) if batch.dim() == 4 else batch
