"""What is trained (a job), how (a recipe), and what comes of it (a fit)."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedol.code import address
from fedol.data.samples import Preprocessing, Samples
from fedol.errors import InputError, unknown
from fedol.models.fitted import fitted_in
from fedol.models.openset import OpenSet, fold_of
from fedol.seeding import derive
from fedol.settings import Training, check_kinds
from fedol.text import Card
from fedol.training.optimisers import check_optimiser
from fedol.training.schedules import check_schedule, rates
from fedol.training.snapshot import Snapshot

ALL_CORES = 0
# A kernel over fewer places than this ends before a second thread has begun (measured: benchmarks/training.py).
PLACES_WORTH_A_SECOND_THREAD = 16_384

PATCHES = ("none", "cutout", "cutmix")


def cores() -> int:
    """The cores this process may use: those that the system gives it, or as many as ``OMP_NUM_THREADS`` says."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # the others are of nested regions
    return int(wanted) if wanted.isdecimal() and int(wanted) else given


@dataclass(frozen=True)
class Recipe(Training):
    """The training of one model."""

    proximal: float = 0.0  # FedProx's μ: adds (μ/2)‖w − w₀‖², w₀ being the weights the training starts from

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.epochs < 1 or self.batch_size < 2:
            raise InputError(
                f"epochs must be at least 1 and batch_size at least 2, but are {self.epochs}, {self.batch_size}."
            )
        if not 0 < self.lr < float("inf"):
            raise InputError(f"lr must be a positive number, but is {self.lr}.")
        if not 0 < self.body_lr < float("inf"):
            raise InputError(f"body_lr must be a positive number, but is {self.body_lr}.")
        if self.patch not in PATCHES:
            raise unknown("patch", str(self.patch), PATCHES)
        check_schedule(self.schedule)
        check_optimiser(self.optimiser)
        if not 0 <= self.weight_decay < float("inf"):
            raise InputError(f"weight_decay must be a finite number of at least 0, but is {self.weight_decay}.")
        if not 0 <= self.average < 1:
            raise InputError(f"average must lie in [0, 1), but is {self.average}.")
        if not 0 <= self.grow < 1:
            raise InputError(f"grow must lie in [0, 1), but is {self.grow}.")

    def as_json(self) -> dict[str, Any]:
        """Plain values; your own class becomes its name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: address(value) if callable(value) else value for name, value in values.items()}


@dataclass(frozen=True, eq=False)
class Job:
    """One model to fit to samples and their targets: classes [N] or soft targets [N, C].

    Of findings, answers [N, findings] or soft ones [N, findings, 2].
    """

    name: str
    model: nn.Module
    inputs: Samples
    targets: Tensor
    prepare: Preprocessing
    recipe: Recipe = field(default_factory=Recipe)
    seed: int = 0
    resume: Snapshot | None = None  # go on from here
    checkpoint: Callable[[Snapshot], None] | None = None  # called after every epoch
    alone: bool = False  # a large job that may use all cores, where its samples are large enough to keep them busy

    def __post_init__(self) -> None:
        count, kind = len(self.inputs), self.inputs.kind
        if count != len(self.targets):
            raise InputError(f"{self.name} has {count} {kind} but {len(self.targets)} targets.")
        if count < 2:
            raise InputError(f"{self.name} has {count} training {kind}; at least 2 are needed.")

    @cached_property
    def random_layers(self) -> bool:
        """Whether the model draws random numbers of its own (dropout): tried on a copy with two samples."""
        if fitted_in(self.model):  # by its own seed
            return False
        model = copy.deepcopy(self.model).cpu().train()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            before = torch.get_rng_state()
            model(next(self.prepare.stream(self.inputs, [slice(2)], torch.device("cpu"))))
            return not torch.equal(before, torch.get_rng_state())

    @property
    def threads(self) -> int:
        """CPU threads: fixed by the job alone, whatever runs beside it: they can change the last bit of a sum."""
        if fitted_in(self.model):
            return ALL_CORES if self.alone else 1
        places = min(self.recipe.batch_size, len(self.inputs)) * self.inputs.places
        return ALL_CORES if self.alone and places >= PLACES_WORTH_A_SECOND_THREAD else 1

    @property
    def samples(self) -> int:
        """Samples per epoch: a trailing batch of one is left out, because batch norm has no variance for it."""
        return len(self.inputs) - (len(self.inputs) % self.recipe.batch_size == 1)

    def order(self, epoch: int) -> Tensor:
        """The samples of an epoch in their order, shuffled by a generator of this job and epoch alone."""
        generator = torch.Generator().manual_seed(derive(self.seed, "shuffle", epoch))
        return torch.randperm(len(self.inputs), generator=generator)[: self.samples]

    def views(self, epoch: int) -> Tensor:
        """How each of them is augmented (``Samples.views``)."""
        generator = torch.Generator().manual_seed(derive(self.seed, "augment", epoch))
        return self.inputs.views(self.samples, generator)

    def patches(self, epoch: int) -> Tensor:
        """What is pasted into each (``Samples.patches``)."""
        generator = torch.Generator().manual_seed(derive(self.seed, "patch", epoch))
        return self.inputs.patches(self.recipe.patch, self.samples, generator)

    def scale(self, epoch: int) -> float:
        """How large images are in an epoch: half of their height and width, then three quarters, then all of it."""
        done = (epoch - 1) / self.recipe.epochs
        if done >= self.recipe.grow or not self._takes_smaller:
            return 1.0
        return 0.5 if done < self.recipe.grow / 2 else 0.75

    @cached_property
    def _takes_smaller(self) -> bool:
        """Whether the model takes images of other sizes, too: tried on a copy. An estimator learns in one step."""
        if fitted_in(self.model):
            return False
        model = copy.deepcopy(self.model).cpu().eval()
        batch = next(self.prepare.stream(self.inputs, [slice(2)], torch.device("cpu")))
        try:
            with torch.no_grad():
                return [len(model(self.inputs.smaller(batch, scale))) for scale in (0.5, 0.75)] == [2, 2]
        except RuntimeError:  # a layer for a fixed number of values
            return False

    @cached_property
    def rates(self) -> list[float]:
        """The learning rate of every step."""
        steps = -(-self.samples // self.recipe.batch_size)
        return rates(self.recipe.schedule, self.recipe.lr, self.recipe.epochs * steps)

    def pace(self, epoch: int) -> Tensor:
        """Per step of an epoch, float32 [steps, 2]: the learning rate, and the newest weights' share in the average."""
        steps = -(-self.samples // self.recipe.batch_size)
        done = [(epoch - 1) * steps + step for step in range(steps)]
        return torch.tensor([[self.rates[n], max(1 - self.recipe.average, 10 / (10 + n))] for n in done])

    def tables(self, epoch: int) -> dict[str, Tensor]:
        """All that changes with the epoch, and that the recipe uses."""
        tables = {"order": self.order(epoch), "pace": self.pace(epoch)}
        if self.recipe.augment:
            tables["views"] = self.views(epoch)
        if self.recipe.patch != "none":
            tables["patches"] = self.patches(epoch)
        return tables


@dataclass(frozen=True)
class Fit:
    """The outcome of one job: the mean loss of each epoch, or why it stopped."""

    job: Job
    losses: tuple[float, ...]
    seconds: float
    path: str  # what trained it: "plain loop", "CUDA graph", ...
    error: str | None = None


@dataclass(frozen=True, repr=False)
class Epoch(Card):
    """One finished epoch, for progress displays and checkpoints."""

    job: Job
    epoch: int  # 1-based
    loss: float
    samples: int  # that it went through
    steps: int = 1  # epochs since the last one that was told: all at once, of an estimator

    def facts(self) -> dict[str, Any]:
        """Of what, which one, and how well it went."""
        return {"job": self.job.name, "epoch": f"{self.epoch}/{self.job.recipe.epochs}", "loss": self.loss}


OnEpoch = Callable[[Epoch], None]


def folds_of(private: Job, model: OpenSet, public: Samples, classes: int) -> Iterable[Job]:
    """A client's trainings: for each fold its private samples, and as one more class the public ones outside of it."""
    fold = fold_of(len(public), len(model.nets))
    for number, net in enumerate(model.nets):
        shown = fold != number
        yield replace(
            private,
            name=f"{private.name} fold {number + 1}",
            model=net,
            inputs=private.inputs.joined(public.take(shown)),
            targets=_and_public(private.targets, int(shown.sum()), classes),
            seed=derive(private.seed, "fold", number),
        )


def _and_public(targets: Tensor, shown: int, classes: int) -> Tensor:
    """Targets of private samples, and then of so many public ones.

    Where samples have findings, "public" is one more of these. Of their other findings public samples say nothing:
    a target of zeros costs nothing.
    """
    if targets.dim() == 1:
        return torch.cat([targets, torch.full((shown,), classes, dtype=targets.dtype)])
    own = F.one_hot(torch.cat([targets, torch.zeros_like(targets[:, :1])], 1), 2).float()
    others = torch.zeros(shown, *own.shape[1:])
    others[:, -1, 1] = 1
    return torch.cat([own, others])
