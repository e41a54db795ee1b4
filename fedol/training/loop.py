"""The plain training loop: what every faster path must equal, and the way wherever there is none."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedol.data.samples import Step
from fedol.models.pretrained import bodies
from fedol.seeding import derive
from fedol.training.job import Epoch, Fit, Job, OnEpoch, Recipe
from fedol.training.optimisers import Optimiser, Paced, optimiser_of
from fedol.training.snapshot import Average, Snapshot


def batch_loss(logits: Tensor, targets: Tensor, index: Tensor, patch: Tensor | None, places: int) -> Tensor:
    """The mean cross-entropy of the samples ``index``; with ``patch`` (``Images.patches``), cutmix's.

    Cross-entropy is linear in its target, so an image that is a share a of another, whose target is t′, costs
    (1 − a)·CE(t) + a·CE(t′): that holds for classes as for soft targets, and no mixed target is ever made. Where a
    sample has several findings, its cost is their mean.
    """
    if patch is None:
        return F.cross_entropy(*by_question(logits, targets[index]))
    own, others = (_each(logits, targets[rows]) for rows in (index, patch[:, 0]))
    share = (patch[:, 2] - patch[:, 1]) * (patch[:, 4] - patch[:, 3]) / places
    return (own + share * (others - own)).mean()


def by_question(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [B, C] and targets as they are; those of findings, [B, findings, 2], with a row for each question."""
    return (logits, targets) if logits.dim() == 2 else (logits.flatten(0, 1), targets.flatten(0, 1))


def _each(logits: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of every sample [B]."""
    cost = F.cross_entropy(*by_question(logits, targets), reduction="none")
    return cost if logits.dim() == 2 else cost.view(len(logits), -1).mean(1)


PATH = "plain loop"


class Whole:
    """How much of each batch this process trains: all of it. In a team of processes it is a part (``team``)."""

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


WHOLE = Whole()


def pull(parameters: list[Tensor], start: list[Tensor], strength: float) -> None:
    """FedProx: add the gradient of (μ/2)‖w − w₀‖², which is μ(w − w₀)."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    ways = [p.detach() - origin for p, origin in zip(parameters, start, strict=True) if p.grad is not None]
    torch._foreach_add_(gradients, ways, alpha=strength)


def diverged(job: Job, epoch: int, loss: float) -> str:
    """The error for a loss that is not a number."""
    return f"{job.name} diverged: its loss is {loss} in epoch {epoch}; try a smaller learning rate."


def train(job: Job, device: torch.device, on_epoch: OnEpoch, stop: Event, share: Whole = WHOLE) -> Fit:
    """Fit one model in place. A loss that is not a number stops it with an error that names it."""
    model = job.model.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    seeded = job.random_layers  # found out on a copy, so before the model becomes one of several processes'
    with share.around(model) as net:
        return _train(job, net, device, on_epoch, stop, share, seeded)


def _train(
    job: Job, net: nn.Module, device: torch.device, on_epoch: OnEpoch, stop: Event, share: Whole, seeded: bool
) -> Fit:
    started = time.perf_counter()
    recipe, model, mix = job.recipe, job.model, job.recipe.patch == "cutmix"
    batches, targets = job.prepare.batches(job.inputs, device), job.targets.to(device)
    parameters: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
    start = [p.detach().clone() for p in parameters] if recipe.proximal else []
    optimiser = _optimiser(recipe, model, parameters)
    average = Average(model) if recipe.average else None
    losses: list[float] = []
    if job.resume:
        optimiser.prepare(model, job.resume.tensors)
        job.resume.restore(model, optimiser.moments(model), average)
        losses += job.resume.losses

    def outcome(error: str | None = None) -> Fit:
        return Fit(job, tuple(losses), time.perf_counter() - started, PATH, error)

    for epoch in range(len(losses) + 1, recipe.epochs + 1):
        total = torch.zeros((), device=device)
        order = torch.split(job.order(epoch).to(device), recipe.batch_size)
        nothing = [None] * len(order)
        views = torch.split(job.views(epoch).to(device), recipe.batch_size) if recipe.augment else nothing
        patches = torch.split(job.patches(epoch).to(device), recipe.batch_size) if recipe.patch != "none" else nothing
        scale = job.scale(epoch)
        steps = [_part(step, share.part(len(step[0]))) for step in zip(order, views, patches, strict=True)]
        with _seeded(job, epoch, device) if seeded else nullcontext():
            batches_of = zip(order, steps, batches.epoch(steps, mix), job.pace(epoch), strict=True)
            for index, (own, _, cut), inputs, pace in batches_of:
                if stop.is_set():
                    return outcome(f"{job.name} was stopped.")
                if scale < 1:
                    inputs = job.inputs.smaller(inputs, scale)
                mean = batch_loss(net(inputs), targets, own, cut if mix else None, job.inputs.places)
                loss = share.weighed(mean, len(own), len(index))
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                if recipe.proximal:
                    pull(parameters, start, recipe.proximal)
                if recipe.schedule != "constant":
                    optimiser.lr = pace[0].item()
                optimiser.step()
                if average:
                    average.update(pace[1].to(device))
                total += loss.detach() * len(index)
        losses.append(share.total(total).item() / job.samples)
        if not math.isfinite(losses[-1]):
            return outcome(diverged(job, epoch, losses[-1]))
        if job.checkpoint:
            job.checkpoint(Snapshot.take(model, optimiser.moments(model), losses, average))
        on_epoch(Epoch(job, epoch, losses[-1], job.samples))
    if average:
        average.apply()
    return outcome()


def _optimiser(recipe: Recipe, model: nn.Module, parameters: list[Tensor]) -> Optimiser:
    """The recipe's; a pretrained body learns at a rate of its own."""
    slow = {id(p) for body in bodies(model) for p in body.parameters()}
    most, others = ([p for p in parameters if (id(p) in slow) is pretrained] for pretrained in (False, True))
    made = optimiser_of(recipe.optimiser, most, recipe.lr, recipe.weight_decay)
    if not others:
        return made
    body = optimiser_of(recipe.optimiser, others, recipe.body_lr, recipe.weight_decay)
    return Paced(made, body, recipe.body_lr / recipe.lr)


def _part(step: Step, mine: slice) -> Step:
    """Some samples of a batch."""
    index, view, patch = step
    return index[mine], None if view is None else view[mine], None if patch is None else patch[mine]


@contextmanager
def _seeded(job: Job, epoch: int, device: torch.device) -> Iterator[None]:
    """Layers that draw for themselves use torch's global generators: seeded by this job and epoch for its duration."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(derive(job.seed, "layers", epoch))
        yield
