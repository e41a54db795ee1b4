"""Fit models to (images, targets), one or many at once, and predict with them. The only training loop in the system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event

import torch
from torch import Tensor, nn

from fedol.arrays import Array, to_tensor
from fedol.errors import InputError
from fedol.training.job import ALL_CORES, Epoch, Fit, Job, Normalisation, OnEpoch, Recipe
from fedol.training.loop import train
from fedol.training.threads import cores, threads

__all__ = ["ALL_CORES", "Epoch", "Fit", "Job", "Normalisation", "OnEpoch", "Recipe", "fit", "predict", "resolve_device"]


def resolve_device(name: str) -> torch.device:
    """``auto`` is a CUDA GPU, an Apple GPU or the CPU, in this order; a device that is not there is an error."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = name.split(":")[0]
    if name == "auto":
        return torch.device(next(kind for kind, there in available.items() if there))
    if kind not in available:
        raise InputError(f"There is no device '{name}'; use auto, cpu, cuda or mps.")
    if not available[kind]:
        raise InputError(f"The device '{name}' is not available on this machine; use --device auto or cpu.")
    return torch.device(name)


def fit(jobs: Sequence[Job], device: torch.device, on_epoch: OnEpoch = lambda epoch: None) -> Iterator[Fit]:
    """Train every job's model in place and yield each outcome as soon as it is there; one failing stops no other.

    A job's result depends on the job alone, not on what trains beside it: on the CPU small jobs take one core each
    and run side by side, because small convolutions do not gain from a second one.
    """
    small = [job for job in jobs if job.threads == 1 and device.type == "cpu"]
    for job in jobs:
        if job not in small:
            with threads(job.threads):
                yield train(job, device, on_epoch, Event())
    if small:
        yield from _side_by_side(small, device, on_epoch)


def _side_by_side(jobs: Sequence[Job], device: torch.device, on_epoch: OnEpoch) -> Iterator[Fit]:
    stop = Event()
    with threads(1), ThreadPoolExecutor(cores(), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            running = [pool.submit(train, job, device, on_epoch, stop) for job in jobs]
            for done in as_completed(running):
                yield done.result()
        finally:  # also when the caller is interrupted: end the others at their next batch
            stop.set()
            pool.shutdown(cancel_futures=True)


@torch.no_grad()
def predict(
    model: nn.Module, images: Array, normalise: Normalisation, device: torch.device, batch: int = 512
) -> Tensor:
    """Log-probabilities, float32 [N, classes] on the CPU, of uint8 images; in evaluation mode, un-augmented."""
    pixels = to_tensor(images, "images")
    was_training = model.training
    model.to(device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    with threads(1):
        parts = [
            torch.log_softmax(
                model(normalise(part.to(device)).contiguous(memory_format=torch.channels_last)).float(), 1
            )
            for part in torch.split(pixels, batch)
        ]
    model.train(was_training)
    return torch.cat(parts).cpu()
