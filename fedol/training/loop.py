"""The training loop: every model in the system, client or server, hard or soft targets, goes through it."""

from __future__ import annotations

import math
import time
from threading import Event

import torch
import torch.nn.functional as F

from fedol.seeding import derive
from fedol.training.job import Epoch, Fit, Job, OnEpoch


def train(job: Job, device: torch.device, on_epoch: OnEpoch, stop: Event) -> Fit:
    """Fit one model in place. A loss that is no number stops it with an error that names it."""
    started = time.perf_counter()
    model = job.model.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    images, targets = job.images.to(device), job.targets.to(device)
    recipe, parameters = job.recipe, [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.Adam(
        parameters, lr=recipe.lr, weight_decay=recipe.weight_decay, fused=device.type in ("cpu", "cuda")
    )
    start = [p.detach().clone() for p in parameters] if recipe.proximal else []
    losses: list[float] = []
    for epoch in range(1, job.recipe.epochs + 1):
        total, seen = torch.zeros((), device=device), 0
        with torch.random.fork_rng(devices=[]):
            # Layers that draw for themselves (dropout) use torch's own generator: seeded by this job and epoch.
            torch.manual_seed(derive(job.seed, "layers", epoch))
            for batch in job.batches(epoch):
                if stop.is_set():
                    return Fit(job, tuple(losses), time.perf_counter() - started, f"{job.name} was stopped.")
                index = batch.to(device)
                x = job.normalise(images[index]).contiguous(memory_format=torch.channels_last)
                loss = F.cross_entropy(model(x), targets[index])
                for p, origin in zip(parameters, start, strict=bool(start)):
                    loss = loss + recipe.proximal / 2 * (p - origin).square().sum()
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                total += loss.detach() * len(index)
                seen += len(index)
        losses.append(total.item() / seen)
        if not math.isfinite(losses[-1]):
            error = f"{job.name} diverged: its loss is {losses[-1]} in epoch {epoch}; try a smaller learning rate."
            return Fit(job, tuple(losses), time.perf_counter() - started, error)
        on_epoch(Epoch(job, epoch, losses[-1], seen))
    return Fit(job, tuple(losses), time.perf_counter() - started)
